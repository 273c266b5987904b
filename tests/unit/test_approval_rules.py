"""Approval rules: their form, the calls that they match, and their decisions."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from mahtab_tui.bus.magic_calls import SHELL_MAGICS, TEXT_MAGICS
from mahtab_tui.bus.magic_code import read_code
from mahtab_tui.session.code_calls import (
    MAX_NAME_PARTS,
    exact_rule,
    find_calls,
    parse_single_call,
    unread_part,
)
from mahtab_tui.session.code_rules import apply_rules
from mahtab_tui.settings.approval_rules import (
    Paths,
    matches_glob,
    parse_rule,
    parse_rules,
    split_rules,
)
from mahtab_tui.settings.model import SettingsError, load_settings
from mahtab_tui.settings.values import add_rules, parse_assignments
from mahtab_tui.worker.guard.protected_places import resolve_path
from mahtab_tui.worker.magic.commands import CELL_COMMANDS, LINE_COMMANDS, SHELL_COMMANDS
from mahtab_tui.worker.magic.syntax import MAGIC_BUILTIN

WRONG = {
    "read_only": "is not like",
    "permit: read_only": "begins with 'permit'",
    "deny: read_only": "read_only works only as allow: read_only",
    "allow: read_only(*)": "read_only works only as allow: read_only",
    "allow: grep": r"write grep\(\*\)",
    "allow: grep(x)": "the argument 'x'",
    "allow: grep(*": "is not like",
    'allow: grep("\\x")': "which Python cannot read",
    "allow: grep('a\nb')": "which Python cannot read",
    "allow: grep(007)": "which Python cannot read",
    "allow: grep('a' 'b')": "the argument",
    "allow: " + "a" * 600: "longer than 500",
}

FILES = [
    "",
    'theme = "x"  # mine\napproval_rules = ["deny: f(*)"]\n',
    'approval_rules = "deny: f(*)"\n',
]

VERDICTS = [
    # rules, code, action
    ([], "open('x', 'w')", ""),
    (["allow: read_only"], "df.groupby('a').sum().head()", "lock"),
    (["allow: read_only"], "open('x', 'w')", "lock"),
    (["allow: read_only"], "!ls", "lock"),
    (["allow: grep(*)"], "grep('x', 3)", "allow"),
    (["allow: grep(*)"], "grep(text, 'x')", ""),
    (["allow: grep(*)"], "grep(*texts)", ""),
    (["allow: grep(*)"], "print(grep('x'))", ""),
    (["allow: grep(*)"], "grep('x')\ngrep('y')", ""),
    (["allow: grep(*)"], "def grep(x): pass", ""),
    (["allow: read_only", "allow: grep(*)"], "grep(text, 'x')", "lock"),
    (['allow: open("out/*", "w")'], "open('out/x', 'w')", "allow"),
    (['allow: open("out/*", "w")'], "open('in/x', 'w')", ""),
    (['allow: os.remove("x")'], "from os import remove as r\nr('x')", ""),
    (["allow: f(1)"], "f(1, 2)", ""),
    (["allow: f(True)"], "f(1)", ""),
    (["allow: f(1, *)"], "f(1, 2, x=3)", "allow"),
    (["allow: read_only", 'ask: open(*, "w")'], "open('x', mode='wb')", "ask"),
    (["allow: read_only", 'ask: open(*, "w")'], "open('x', mode)", "ask"),
    (["allow: read_only", 'ask: open(*, "w")'], "open('x')", "lock"),
    (
        ["allow: read_only", "deny: os.system(*)", "ask: os.*(*)"],
        "import os\nos.system('x')",
        "deny",
    ),
    (["allow: os.system(*)", "deny: os.system(*)"], "os.system('x')", "deny"),
    (["deny: os.system(*)"], "from os import system as s\nmap(s, names)", "deny"),
    (["deny: os.system(*)"], "import os as o\nrun = o.system\nrun('x')", "deny"),
    (["deny: os.system(*)"], "1 + 1", ""),
    (['deny: requests.get("http://*")'], "requests.get('https://a')", ""),
    (['deny: requests.get("http://*")'], "requests.get(*urls)", "deny"),
    (["allow: read_only"], "read_only()", "lock"),
]

ALLOWED = "allow: *.to_csv('out/*', *)"
PATHS = [
    # rule, code, action: `out/linked.csv` and `out/away` lead out of `out`, `results` leads to it
    (ALLOWED, "t.to_csv('out/a.csv')", "allow"),
    (ALLOWED, "t.to_csv('out/a.csv', index=False)", "allow"),
    (ALLOWED, "t.to_csv('./out/a.csv')", "allow"),
    (ALLOWED, "t.to_csv('results/a.csv')", "allow"),
    (ALLOWED, "t.to_csv('out/../out/a.csv')", ""),
    (ALLOWED, "t.to_csv('out/../../home/.mahtab/config.toml')", ""),
    (ALLOWED, "t.to_csv('out/b/../../x')", ""),
    (ALLOWED, "t.to_csv('out/b/c.csv')", ""),
    (ALLOWED, "t.to_csv('out/linked.csv')", ""),
    (ALLOWED, "t.to_csv('out/away/x.csv')", ""),
    (ALLOWED, "t.to_csv('out/..')", ""),
    (ALLOWED, "t.to_csv('out/')", ""),
    (ALLOWED, "t.to_csv(b'out/a.csv')", ""),
    (ALLOWED, "t.to_csv('file:///out/a.csv')", ""),
    ("allow: *.to_csv('**', *)", "t.to_csv('a/b/c.csv')", "allow"),
    ("allow: *.to_csv('**', *)", "t.to_csv('/etc/x')", ""),
    ("allow: *.to_csv('**', *)", "t.to_csv('file:///etc/x')", ""),
    ("allow: *.to_csv('**', *)", "t.to_csv('out/away/x')", "allow"),
    ("allow: *.to_csv('out/**', *)", "t.to_csv('out/away/x')", ""),
    ("allow: *.to_csv('*', *)", "t.to_csv('~')", ""),
    ("allow: *.to_csv('*/*', *)", "t.to_csv('~/x')", ""),
    ("allow: *.to_csv('~/out/*', *)", "t.to_csv('~/out/x')", "allow"),
    ("allow: *.to_csv('/**', *)", "t.to_csv('/tmp/x')", "allow"),
    ("allow: open('notes.md', 'w')", "open('notes.md', 'w')", "allow"),
    ("allow: open('out/linked.csv', 'w')", "open('out/linked.csv', 'w')", ""),
    ("allow: os.listdir('.')", "os.listdir('.')", "allow"),
    ("allow: run('select 1')", "run('drop table a; --/../select 1')", ""),
    ("allow: run('select *')", "run('drop table a; --/../select 1')", ""),
    ("allow: run('see a/b, or c')", "run('see a/b, or c')", "allow"),
    ("allow: get('http://host/*')", "get('http://host/a')", "allow"),
    ("allow: get('http://host/*')", "get('http://host/a/b')", ""),
    ("allow: get('http://host/**')", "get('http://host/a/b')", "allow"),
    ("allow: get('http://host/**')", "get('http://host/../b')", ""),
    ("allow: get('*')", "get('http:a')", ""),
    ("deny: open('out/*', *)", "open('out/b/c')", "deny"),
    ("deny: open('out/*', *)", "open('other/../out/x')", "deny"),
    ("deny: open('out/*', *)", "open('results/x')", "deny"),
    ("deny: open('out/*', *)", "open(b'out/x')", "deny"),
    ("deny: open('secret', *)", "open('./secret')", "deny"),
    ("deny: open('~/*', *)", "import os\nopen(os.path.expanduser('~/x'))", "deny"),
    ("deny: open('out/*', *)", "open('other/x')", ""),
]

REBOUND = [
    ("allow: summarize(*)", "summarize('touch made')", "summarize"),
    ("allow: shop.buy(*)", "shop.buy(1)", "shop.buy"),
    ("allow: run(*)", "builtins.run('touch made')", ""),
    ("allow: run(*)", "__builtins__.run('touch made')", ""),
]

GLOBS = [
    ("a*c", "abc", True),
    ("a*c", "ab/c", False),
    ("a**c", "ab/c", True),
    ("**a*b", "xa/ab", True),
    ("a?c", "a/c", False),
    ("[!a]", "b", True),
    ("[!a]", "/", False),
    ("[]]", "]", True),
    ("a[b", "a[b", True),
    ("*", "", True),
    ("", "a", False),
    ("a\n*", "a\nb", True),
]


@pytest.mark.parametrize(("rule", "problem"), WRONG.items())
def test_wrong_rule_is_named_with_its_problem(rule: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_rule(rule)


def test_wrong_rule_gives_one_sentence_at_startup() -> None:
    sentence = r"approval.rules: the rule 'maybe: f\(\*\)' begins with 'maybe'; a rule begins with allow, ask or deny\."
    with pytest.raises(SettingsError, match=sentence):
        load_settings(approval_rules=["maybe: f(*)"])


def test_rules_are_typed_with_semicolons() -> None:
    text = "allow: read_only; deny: f('a;b'); ask: open(*, \"w\")"
    assert split_rules(text) == ["allow: read_only", "deny: f('a;b')", 'ask: open(*, "w")']
    assert parse_assignments([f"approval_rules={text}"]) == {"approval_rules": split_rules(text)}
    assert load_settings(approval_rules=text).approval_rules == tuple(split_rules(text))


@pytest.mark.parametrize("existing_text", FILES)
def test_rules_are_added_to_those_in_the_file(tmp_path: Path, existing_text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(existing_text)
    rules = ("allow: read_only", 'allow: open("a\\\\b", *)')
    add_rules(file, rules)
    add_rules(file, rules[:1])
    added = tomllib.loads(file.read_text())["approval_rules"]
    assert added == [*(["deny: f(*)"] if existing_text else []), *rules]
    assert "# mine" in file.read_text() or "# mine" not in existing_text


@pytest.mark.parametrize(("rules", "code", "action"), VERDICTS)
def test_rules_decide_about_code(rules: list[str], code: str, action: str) -> None:
    assert decide(code, *rules) == action


def decide(code: str, *rules: str, rebound: str = "") -> str:
    """rebound: a name that code without approval has bound."""

    def resolve(texts: Iterable[str]) -> Paths:
        return {text: resolve_path(text) for text in texts}

    return apply_rules(parse_rules(rules), code, resolve, lambda name: name != rebound).action


@pytest.fixture
def _linked_folders(project: Path) -> None:
    Path("out").mkdir()
    Path("other").mkdir()
    Path("out/linked.csv").symlink_to("../other/x")
    Path("out/away").symlink_to("../other")
    Path("results").symlink_to("out")


@pytest.mark.usefixtures("_linked_folders")
@pytest.mark.parametrize(("rule", "code", "action"), PATHS)
def test_texts_are_compared_as_the_paths_to_which_they_lead(
    rule: str, code: str, action: str
) -> None:
    assert decide(code, rule) == action
    absolute = code.replace("'out/a.csv'", repr(os.path.abspath("out/a.csv")))
    assert decide(absolute, rule) == action or "b'" in code


def test_a_path_that_cannot_be_resolved_is_not_allowed() -> None:
    rules = parse_rules(("allow: open('out/*', 'w')",))
    verdict = apply_rules(rules, "open('out/x', 'w')", lambda texts: {}, lambda name: True)
    assert verdict.action == ""


@pytest.mark.parametrize(("rule", "code", "rebound"), REBOUND)
def test_a_rule_does_not_allow_what_has_taken_the_name_since(
    rule: str, code: str, rebound: str
) -> None:
    assert decide(code, rule, rebound=rebound) == ""


@pytest.mark.parametrize(("pattern", "text", "matches"), GLOBS)
def test_only_two_stars_cross_slashes(pattern: str, text: str, *, matches: bool) -> None:
    assert matches_glob(pattern, text) is matches


def test_a_hostile_text_is_compared_in_linear_time() -> None:
    assert not matches_glob("*a" * 50 + "b", "a" * 20_000)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("df.to_csv('a*\\n\"b', index=False)", 'allow: df.to_csv("a[*]\\n\\"b", index=False)'),
        ("os.remove('x')", 'allow: os.remove("x")'),
        ("open('x', 'w')", 'allow: open("x", "w")'),
        ("f(-1, None)", "allow: f(-1, None)"),
        ("f('a\\r\\x1b\\\\')", 'allow: f("a\\r\\x1b\\\\")'),
        ("subprocess.run(['ls'])", ""),
        ("subprocess.run(command)", ""),
        ("df.head().to_csv('x')", ""),
        ("import os\nos.remove('x')", ""),
    ],
)
def test_a_rule_is_for_exactly_one_call_with_its_arguments(code: str, rule: str) -> None:
    call = parse_single_call(code)
    assert ("" if call is None else exact_rule(call)) == rule
    if rule:
        assert decide(code, rule) == "allow"
        assert decide(code.replace("x", "y").replace("a*", "ab").replace("-1", "1"), rule) == ""


@pytest.mark.parametrize(
    "code",
    [
        "%pwd\nos.remove('x')",
        "!ls\nos.remove('x')",
        "lines = !ls\nos.remove('x')",
        "%time os.remove('x')",
        "%timeit -n 1 os.remove('x')",
        "%prun -s cumulative -l 0.5 os.remove('x')",
        "%%time\nos.remove('x')",
        "%%time os.remove('x')\npass",
        "%%timeit -n 1 os.remove('x')\npass",
        "%%prun -q os.remove('x')\npass",
        "%%capture text\n%%time\n!ls\nos.remove('x')",
        "%%python\nimport os\nos.remove('x')",
        "import os as system\n%time system.remove('x')",
        "get_ipython().run_line_magic('time', 'os.remove(\"x\")')",
    ],
)
def test_rules_hold_in_code_with_magic_commands(code: str) -> None:
    assert decide(code, "deny: os.remove(*)") == "deny"
    assert decide(code, "ask: os.remove(*)", "allow: os.remove(*)") == "ask"
    assert decide(code, "allow: os.remove(*)") == ""


def test_code_of_100000_characters_is_read_in_linear_time() -> None:
    for code in ("x = 1\n" * 16_000, "%time x\n" * 12_000, "!echo " + "{a}" * 30_000):
        assert decide(code, "allow: read_only", "deny: f(*)") == "lock"
    # How deeply Python reads code depends on its version and on the stack.
    deep_texts = ("g(" * 2_000 + ")" * 2_000, "a" + ".b" * 30_000, "%time " * 16_000)
    for code in deep_texts:
        assert decide(code, "allow: read_only", "deny: f(*)") in ("ask", "lock")


HIDDEN_CALLS = {
    "%time os.system('x')": "deny",
    "time os.system('x')": "deny",
    "timeit -n 1 os.system('x')": "deny",
    "%time %time %time %time os.system('x')": "deny",
    "%time " * 6 + "os.system('x')": "ask",
    "%time " * 7 + "os.system('x')": "ask",
    "%%time\n" * 7 + "os.system('x')": "ask",
    "%%capture a\n%%time\n%%prun\nos.system('x')": "deny",
    "%timeit --unknown os.system('x')": "ask",
    "#" * 100_001 + "\nos.system('x')": "ask",
    "match os.system('x'): print": "ask",
    "%alias_magic t time": "ask",
    "%%t\nos.system('x')": "ask",
    "%%t sh\nos.system('x')": "ask",
    "%t bash": "ask",
    "x = %t os.system('x')": "ask",
    "%rerun 3": "ask",
    "%macro m 1-3": "ask",
    "!echo {os.system('x')}": "deny",
    "!!echo a {os.system('x')!r} b": "deny",
    "x = !echo {{{os.system('x')}}}": "deny",
    "%cd {os.system('x')}": "deny",
    "%%bash {os.system('x')}\nls": "deny",
    "%%bash\necho {os.system('x')}": "",
    "get_ipython().system('echo {os.system(1)}')": "deny",
    "get_ipython().getoutput(f'echo {x} {{os.system(1)}}')": "deny",
    "get_ipython().run_line_magic('time', 'os.system(1)')": "deny",
    "x[os.system('x')]?": "deny",
    "%pinfo os.system('x')": "deny",
    "%pdoc os.system('x')": "deny",
    "%psearch os.system('x').*": "deny",
    "%debug os.system('x')": "deny",
    "%debug -b a.py:3 os.system('x')": "deny",
    "%config Application.log_level = os.system('x')": "deny",
    "%debug": "",
    "%config InlineBackend": "",
    "%config InlineBackend.figure_format = 'retina'": "",
    "%%script python3\nimport os\nos.system('x')": "deny",
    "%%python\nimport os\nos.system('x')": "deny",
    "%who": "",
    "%cd out": "",
    "ls": "",
    "!awk '{print $1}' a": "",
    "!echo {a,b} {1..3}": "",
    "%%html\n<b>": "",
    "print(1)": "",
}
"""What a rule that denies `os.system` does about code in which a call does not stand openly."""


@pytest.mark.parametrize(("code", "action"), HIDDEN_CALLS.items())
def test_code_that_cannot_be_read_is_asked_about_if_a_rule_may_forbid_it(
    code: str, action: str
) -> None:
    assert decide(code, "deny: os.system(*)") == action
    assert decide(code, "ask: os.system(*)") in ("ask" if action else "", action)
    assert decide(code, "allow: f(*)") == ""


def test_all_magic_commands_are_known_to_the_rules() -> None:
    text_magics = {*LINE_COMMANDS, *CELL_COMMANDS}
    calls_by_name = {name: f"{MAGIC_BUILTIN}('{name}', 'x')" for name in text_magics}
    unread_names = {name for name, code in calls_by_name.items() if unread_part(code)}
    assert unread_names == {"alias_magic", "macro", "rerun"}
    assert text_magics >= TEXT_MAGICS


def test_magic_commands_that_a_shell_carries_out_are_known_to_be_commands_of_a_shell() -> None:
    names = (SHELL_COMMANDS | {"pip"}) - {"alias_command"}
    calls_by_name = {name: f"{MAGIC_BUILTIN}('{name}', '; cp a $x')" for name in names}
    commands_by_name = {
        name: [command for part in read_code(code) for command in part.commands]
        for name, code in calls_by_name.items()
    }
    assert {name for name, commands in commands_by_name.items() if not commands} == set()
    assert names - {"sx", "system"} == SHELL_MAGICS
    assert not TEXT_MAGICS & SHELL_COMMANDS


@pytest.mark.parametrize(
    "magic",
    [
        "%%python -Wonce",
        "%%script python3 -Wonce",
        "%%script '/bin/'py\\thon3",
        "%%script ipython3",
        "%%script /opt/bin/pypy3.10",
        "%%pypy",
    ],
)
def test_calls_in_code_for_another_python_with_options_are_found(magic: str) -> None:
    calls = find_calls(f"{magic}\nimport subprocess\nsubprocess.run(['ls'])")
    assert "subprocess.run" in [call.name for call in calls]


def test_long_chains_of_attributes_have_names_of_limited_length() -> None:
    chain = "os.system" + ".a" * 400
    names = [call.name for call in find_calls(f"{chain}()")]
    assert max(name.count(".") for name in names) == MAX_NAME_PARTS
    assert {"os.system", "os.system.a", "os"} <= set(names)
    verdict = apply_rules([parse_rule("deny: os.system(*)")], chain, lambda texts: {}, bool)
    assert verdict.action == "deny"
    assert parse_single_call(f"os{'.a' * 1_200}()") is None
