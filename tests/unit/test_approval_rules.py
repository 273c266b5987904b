"""Rules about code: how they are written, which calls they fit, and what they decide."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from mahtab_tui.session.rights import Grant, Rights, decision_on, effect_call, rules_for, verdict_of
from mahtab_tui.settings.approval_rules import rule_of, rules_of, split_rules
from mahtab_tui.settings.model import SettingsError, load_settings
from mahtab_tui.settings.values import given_settings
from mahtab_tui.settings.writing import add_rules

WRONG = {
    "read_only": "is not like",
    "permit: read_only": "begins with 'permit'",
    "deny: read_only": "read_only stands only in allow: read_only",
    "allow: read_only(*)": "read_only stands only in allow: read_only",
    "allow: grep": r"write grep\(\*\)",
    "allow: grep(x)": "the argument 'x'",
    "allow: grep(*": "is not like",
    "allow: grep('a' 'b')": "the argument",
    "allow: " + "a" * 600: "longer than 500",
}


@pytest.mark.parametrize(("rule", "why"), WRONG.items())
def test_a_wrong_rule_is_named_with_what_is_wrong(rule: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rule_of(rule)


def test_a_wrong_rule_is_a_sentence_at_the_start() -> None:
    with pytest.raises(
        SettingsError, match=r"approval.rules: the rule 'maybe: f\(\*\)' begins with 'maybe'; a rule begins with allow, ask or deny\."
    ):
        load_settings(approval_rules=["maybe: f(*)"])


def test_rules_are_typed_with_semicolons() -> None:
    text = "allow: read_only; deny: f('a;b'); ask: open(*, \"w\")"
    assert split_rules(text) == ["allow: read_only", "deny: f('a;b')", 'ask: open(*, "w")']
    assert given_settings([f"approval_rules={text}"]) == {"approval_rules": split_rules(text)}
    assert load_settings(approval_rules=text).approval_rules == tuple(split_rules(text))


@pytest.mark.parametrize("before", ["", 'theme = "x"  # mine\napproval_rules = ["deny: f(*)"]\n', 'approval_rules = "deny: f(*)"\n'])
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
    (["allow: read_only"], "df.groupby('a').sum().head()", "allow"),
    (["allow: read_only"], "open('x').read()", "allow"),
    (["allow: read_only"], "open('x', 'w')", ""),
    (["allow: read_only"], "import os as o\no.remove('x')", ""),
    (["allow: read_only"], "from os import remove as r\nr('x')", ""),
    (["allow: read_only"], "run = os.system\nrun('x')", ""),
    (["allow: read_only"], "getattr(os, 'sys' + 'tem')('x')", ""),
    (["allow: read_only"], "getattr(os, 'system')('x')", ""),
    (["allow: read_only"], "getattr(df, 'shape')", "allow"),
    (["allow: read_only"], "().__class__.__subclasses__()", ""),
    (["allow: read_only"], "json.dumps = f", "allow"),
    (["allow: read_only"], "import json\njson.dumps = f", ""),
    (["allow: read_only"], "import pandas as pd\npd.options.display.max_rows = 5", "allow"),
    (["allow: read_only"], "!ls", ""),
    (["allow: read_only"], "print('x', file=f)", ""),
    (["allow: read_only"], "import sys\nprint('x', file=sys.stderr)", "allow"),
    (["allow: read_only"], "create('x', 'y')", ""),
    (["allow: grep(*)"], "grep(text, 'x')", "allow"),
    (["allow: grep(*)"], "print(grep(text, 'x'))", ""),
    (["allow: grep(*)", "allow: print(*)"], "print(grep(text, 'x'))", "allow"),
    (["allow: read_only", 'allow: open("out/*", "w")'], "open('out/x', 'w')", "allow"),
    (["allow: read_only", 'allow: open("out/*", "w")'], "open('in/x', 'w')", ""),
    (["allow: read_only", 'allow: open("out/*", "w")'], "open(name, 'w')", ""),
    (["allow: read_only", "allow: *.to_csv(*)"], "df.head().to_csv('x')", "allow"),
    (["allow: read_only", "allow: subprocess.run(*)"], "import subprocess as s\ns.run(['ls'])", "allow"),
    (["allow: read_only", "allow: subprocess.run(*)"], "import subprocess as s\ns.Popen(['ls'])", ""),
    (["allow: read_only", 'ask: open(*, "w")'], "open('x', mode='wb')", "ask"),
    (["allow: read_only", 'ask: open(*, "w")'], "open('x', mode)", "ask"),
    (["allow: read_only", 'ask: open(*, "w")'], "open('x')", "allow"),
    (["allow: read_only", "deny: os.system(*)", "ask: os.*(*)"], "import os\nos.system('x')", "deny"),
    (["deny: os.system(*)"], "from os import system as s\nmap(s, names)", "deny"),
    (["deny: os.system(*)"], "1 + 1", ""),
    (['deny: requests.get("http://*")'], "requests.get('https://a')", ""),
    (['deny: requests.get("http://*")'], "requests.get(*urls)", "deny"),
    (["allow: f(1, *)"], "f(1, 2, x=3)", "allow"),
    (["allow: f(1)"], "f(1, 2)", ""),
    (["allow: f(True)"], "f(1)", ""),
]


@pytest.mark.parametrize(("rules", "code", "action"), VERDICTS)
def test_rules_decide_about_code(rules: list[str], code: str, action: str) -> None:
    assert verdict_of(rules_of(tuple(rules)), code).action == action


def decided(rules: list[str], rights: Rights, kind: str, name: str, *arguments: object, folder: str = "/home/me") -> str:
    return decision_on(rules_of(tuple(rules)), rights, kind, effect_call(name, arguments), folder)[0]


def test_an_effect_is_decided_by_rules_then_by_what_the_code_was_allowed() -> None:
    asks, to_out = Rights(), Rights(grants=(Grant("files", "out/*"),))
    assert decided([], asks, "files", "open", "/home/me/x", "w") == "ask"
    assert decided([], to_out, "files", "open", "/home/me/out/x", "w") == "allow"
    assert decided([], to_out, "files", "open", "/home/me/out/../x", "w") == "ask"
    assert decided([], to_out, "files", "os.rename", "/home/me/out/x", "/etc/x") == "ask"
    assert decided([], to_out, "connections", "socket.connect", ["a", 1]) == "ask"
    assert decided(['allow: open("out/*", "w")'], asks, "files", "open", "/home/me/out/x", "w") == "allow"
    assert decided(['allow: open("out/*", "w")'], asks, "files", "open", "/home/me/x", "w") == "ask"
    assert decided(["deny: os.system(*)"], Rights("approved"), "programs", "os.system", "ls") == "refuse"
    assert decided(["ask: os.system(*)"], Rights("allow"), "programs", "os.system", "ls") == "ask"
    assert decided(["ask: os.system(*)"], Rights("approved"), "programs", "os.system", "ls") == "allow"
    assert decided(["allow: *(*)"], Rights("refuse", why="no"), "programs", "os.system", "ls") == "refuse"


def test_a_link_leads_out_of_an_allowed_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    os.symlink("/etc", tmp_path / "out" / "link")
    rules = ['allow: open("out/*", "w")']
    assert decided(rules, Rights(), "files", "open", str(tmp_path / "out" / "x"), "w", folder=str(tmp_path)) == "allow"
    assert decided(rules, Rights(), "files", "open", str(tmp_path / "out" / "link" / "x"), "w", folder=str(tmp_path)) == "ask"


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ("df.head()", ("allow: read_only",)),
        ("df.to_csv('a*\\n\"b', index=False)", ("allow: read_only", 'allow: df.to_csv("a[*]\\n\\"b", *)')),
        ("df.head().to_csv(name)", ("allow: read_only", "allow: *.to_csv(*)")),
        ("import subprocess\nsubprocess.run(['ls'])", ("allow: read_only", "allow: subprocess.run(*)")),
        ("eval(x)", ("allow: read_only", "allow: eval(*)")),
        ("__import__('os')", ()),
        ("f = os.remove", ("allow: read_only", "allow: os.remove(*)")),
        ("!ls", ()),
    ],
)
def test_the_smallest_rules_for_code_are_told(code: str, rules: tuple[str, ...]) -> None:
    assert rules_for(code, ()) == rules


def test_code_of_100000_characters_is_read_in_linear_time() -> None:
    assert verdict_of(rules_of(("allow: read_only",)), "x = 1\n" * 16_000).action == "allow"
    assert verdict_of(rules_of(("allow: read_only",)), "f(" * 2_000 + ")" * 2_000).action == ""
    assert verdict_of(rules_of(("allow: read_only",)), "a" + ".b" * 30_000).action in ("", "allow")
