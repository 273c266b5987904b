"""From an error to its source, in the person's own editor and after the session is opened again."""

from __future__ import annotations

import os
from pathlib import Path

from tests.e2e.conftest import Start

IDLE = r"● kernel .*idle"
EDITOR = """#!/usr/bin/env python3
import sys
print("\\x1b[2J\\x1b[Hediting", *sys.argv[1:], flush=True)
sys.stdin.readline()
"""


def test_frame_opens_in_the_editor_at_its_line_also_after_a_resume(
    start: Start, project: Path
) -> None:
    (project / "lib.py").write_text("def divide(a, b):\n    return a / b\n")
    editor = project / "myedit"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    env = {"EDITOR": str(editor), "PATH": os.environ["PATH"]}
    first = start(env=env)
    first.wait(IDLE)
    first.enter("import lib; lib.divide(1, 0)")
    first.wait("ZeroDivisionError")
    first.press("ctrl+o")
    first.type("t")
    first.press("enter")
    first.wait("Run again")
    first.press_until("enter", r"Error of cell 1 .*line 2 of .*lib\.py")
    first.wait(r"2▸ +return a / b")
    first.type("e")
    first.wait(rf"editing \+2 {project}/lib\.py")
    first.press("enter")
    first.wait(r"2▸ +return a / b")
    first.type("q")
    assert first.leave() == 0
    again = start("--model", "demo", "--continue")
    again.wait(IDLE)
    again.press("ctrl+o")
    again.type("t")
    again.press("enter")
    again.wait("Run again")
    again.press_until("enter", r"Error of cell 1 .*line 2 of .*lib\.py")
    again.press("up")
    again.wait(r"1▸ +import lib; lib\.divide\(1, 0\)")
