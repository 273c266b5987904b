"""Approval rules: their form, the calls that they match, and their decisions."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mahtab_tui.session.code_rules import apply_rules, exact_rule, parse_single_call
from mahtab_tui.settings.approval_rules import parse_rule, parse_rules, split_rules
from mahtab_tui.settings.model import SettingsError, load_settings
from mahtab_tui.settings.values import add_rules, parse_assignments

WRONG = {
    "read_only": "is not like",
    "permit: read_only": "begins with 'permit'",
    "deny: read_only": "read_only works only as allow: read_only",
    "allow: read_only(*)": "read_only works only as allow: read_only",
    "allow: grep": r"write grep\(\*\)",
    "allow: grep(x)": "the argument 'x'",
    "allow: grep(*": "is not like",
    "allow: grep('a' 'b')": "the argument",
    "allow: " + "a" * 600: "longer than 500",
}


@pytest.mark.parametrize(("rule", "why"), WRONG.items())
def test_wrong_rule_is_named_with_its_problem(rule: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
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


FILES = [
    "",
    'theme = "x"  # mine\napproval_rules = ["deny: f(*)"]\n',
    'approval_rules = "deny: f(*)"\n',
]


@pytest.mark.parametrize("before", FILES)
def test_rules_are_added_to_those_in_the_file(tmp_path: Path, before: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(before)
    rules = ("allow: read_only", 'allow: open("a\\\\b", *)')
    add_rules(file, rules)
    add_rules(file, rules[:1])
    added = tomllib.loads(file.read_text())["approval_rules"]
    assert added == [*(["deny: f(*)"] if before else []), *rules]
    assert "# mine" in file.read_text() or "# mine" not in before


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


@pytest.mark.parametrize(("rules", "code", "action"), VERDICTS)
def test_rules_decide_about_code(rules: list[str], code: str, action: str) -> None:
    assert decide(code, *rules) == action


def decide(code: str, *rules: str) -> str:
    return apply_rules(parse_rules(rules), code).action


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("df.to_csv('a*\\n\"b', index=False)", 'allow: df.to_csv("a[*]\\n\\"b", index=False)'),
        ("os.remove('x')", 'allow: os.remove("x")'),
        ("open('x', 'w')", 'allow: open("x", "w")'),
        ("f(-1, None)", "allow: f(-1, None)"),
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


def test_code_of_100000_characters_is_read_in_linear_time() -> None:
    for code in ("x = 1\n" * 16_000, "g(" * 2_000 + ")" * 2_000, "a" + ".b" * 30_000):
        assert decide(code, "allow: read_only", "deny: f(*)") == "lock"
