"""Hooks in a real terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.conftest import Start

IDLE = r"● kernel .*idle"
CHECK = """
import json, sys, time
code = json.load(sys.stdin)["code"]
if "hang" in code:
    time.sleep(1000)
print(json.dumps({"block": "not \\x1b]0;here\\x07here"} if "remove" in code else {"change": code.replace("bad", "good")}))
"""


def test_a_hook_blocks_changes_and_is_stopped_by_ctrl_c_while_keys_are_read(start: Start, home: Path) -> None:
    (home / ".mahtab").mkdir(exist_ok=True)
    (home / "check.py").write_text(CHECK)
    hook = json.dumps([sys.executable, str(home / "check.py")])
    (home / ".mahtab" / "config.toml").write_text(f"hook_seconds = 1000\n[hooks]\nbefore_cell = {hook}\n")
    screen = start("--model", "demo")
    screen.wait(IDLE)
    screen.enter("print('is', 'bad')")
    screen.wait("is good")
    screen.enter("remove = 1")
    screen.wait("The hook before_cell blocked it: not here. So your code did not")
    screen.enter("hang = 1")
    screen.wait("The hook before_cell is at work")
    screen.type("x = 'typed meanwhile'")
    screen.wait("typed meanwhile")
    screen.press("ctrl+c")
    screen.wait("was stopped by the user")
    screen.press("enter")
    screen.enter("print('is ' + x)")
    screen.wait("is typed meanwhile")
    assert screen.leave() == 0
