"""Single features in a real terminal: completion, frames, hidden entries, review, MCP servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Replay, Start
from tests.servers import configure, plain

KNOWS = {
    "match": r"\A(?![\s\S]*secret)(?![\s\S]*pear)[\s\S]*apple",
    "text": "I know only of the apple.",
}


def test_completion_help_and_magics_work(start: Start) -> None:
    screen = start().idle()
    screen.enter("prices = {'first one': 1}", r"prices +dict")
    screen.type("prices['", "first one +key")
    screen.press("tab")
    screen.type("]", r"❯ prices\['first one'\]")
    screen.press("enter", pattern=r"▌ 1\b")
    screen.type("len(")
    screen.send("\x1bh", "Return the number of items")
    screen.enter("Out)")
    screen.enter("%magik", "There is no %magik")


@pytest.mark.thorough
def test_wide_screen_previews_the_selected_variable(start: Start) -> None:
    screen = start(size=(200, 50)).idle()
    screen.enter("words = {'low': 'a tide', 'bad': chr(27) + '[2J'}", r"'low'  'a tide'")
    assert "␛[2J" in screen.text or r"\x1b[2J" in screen.text
    screen.enter("words['low'] = 'changed'", r"'low'  'changed'")
    screen.enter(
        "import pandas as pd; df = pd.DataFrame({'n': [1, 22], 't': ['x', None]})",
        r"│ +22  –",
    )
    screen.press("ctrl+o")
    screen.type("n")
    screen.press_until("down", r"'low'  'changed'")


@pytest.mark.thorough
def test_frames_open_at_the_failing_line_also_after_a_resume(start: Start, project: Path) -> None:
    (project / "lib.py").write_text("def divide(a, b):\n    return a / b\n")
    first_terminal = start().idle()
    first_terminal.enter("import lib; lib.divide(1, 0)", "ZeroDivisionError")
    first_terminal.press("ctrl+o")
    first_terminal.enter("t", "Run again")
    first_terminal.press_until("enter", r"Error of cell 1 .*line 2 of .*lib\.py")
    first_terminal.wait(r"2▸ +return a / b")
    first_terminal.type("q")
    first_terminal.leave()
    again = start("--continue").idle()
    again.press("ctrl+o")
    again.enter("t", "Run again")
    again.press_until("enter", r"Error of cell 1 .*line 2 of .*lib\.py")
    again.press("up", pattern=r"1▸ +import lib; lib\.divide\(1, 0\)")


@pytest.mark.thorough
def test_hidden_and_rewound_entries_are_not_sent_even_after_a_resume(
    start: Start, replay: Replay
) -> None:
    screen = start("--model", replay(KNOWS)).idle()
    screen.enter("print('sec' + 'ret')", "▌ secret")
    screen.enter("fruit = 'pear'", r"\+ fruit str 'pear'")
    screen.click("▌ secret")
    screen.press("ctrl+o", pattern="tTRANSCRIPT")
    screen.type("t", "▐")
    screen.press("enter", pattern="Run again")
    screen.type("m", "hidden from the model")
    screen.press("down", "enter", pattern="R ↵ Rewind")
    screen.enter("R", "Go back to before In")
    screen.wait("/redo brings")
    screen.press("tab", "enter", pattern="have left the conversation")
    screen.press(*["backspace"] * 5)
    screen.enter("apple'", r"\+ fruit str 'apple'")
    screen.press("f2")
    screen.enter("what do you know?", "only of the apple")
    screen.leave()
    again = start("--model", replay(KNOWS), "--continue")
    again.wait("Conversation restored")
    again.wait("hidden from the model")
    again.wait("rewound")
    again.enter("`and now?", "has no matching answer left|only of the apple")


def block(code: str) -> str:
    return f"Let me do it.\n\n```python\n{code}\n```\n"


def test_models_changes_are_undone_and_then_accepted(start: Start, replay: Replay) -> None:
    after_undo = {
        "text": "As you like.",
        "match": r"The user undid this code \(block 1\) after it had run: too many",
    }
    model = replay(
        block("items.append(3); more = 1"),
        after_undo,
        block("items.clear()"),
        "Done.",
        block("open('../elsewhere', 'w')"),
        "Not then.",
    )
    screen = start("--model", model, "--approval", "review", size=(120, 35)).idle()
    screen.wait("review changes")
    screen.enter("items = [1, 2]", r"items\s+2 items\s+list")
    screen.enter("`add to it", "Keep or undo what cell 2 of replay changed")
    screen.wait(r"~ items  list 2 items → 3 items")
    screen.press("f7")
    screen.press_until("n", "say why, or nothing", prompt_pattern="n undo")
    screen.enter("too many", "As you like")
    screen.wait(r"items\s+2 items\s+list")
    screen.enter("clear it", "Keep or undo what cell 3 of replay changed")
    screen.press("f7")
    screen.press_until("y", "Done", prompt_pattern="y keep")
    screen.wait(r"items\s+0 items\s+list|items\s+empty\s+list")
    screen.enter("write", "Keep or undo what cell 4 of replay changed")
    screen.wait("Cannot be undone:")
    screen.wait("elsewhere: this file was opened for writing")
    screen.press("f8", pattern="auto-run")
    screen.press("f8", pattern="ask first")
    screen.press("escape")
    screen.idle()
    screen.leave()


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_server_is_inspected_started_and_used(
    start: Start, home: Path, size: tuple[int, int]
) -> None:
    configure(home, echo=plain(), broken=plain("exit"))
    screen = start(size=size).idle()
    screen.enter("`/mcp", "MCP servers")
    screen.wait(r"○ echo +not started")
    screen.send("\x12")  # Ctrl+R
    screen.wait("echo runs")
    screen.wait(r"● echo +running")
    screen.press("escape", gone_pattern="MCP servers")
    screen.type("`")
    screen.enter("print(echo.say(text='it ' + 'works'))", "it works")
    screen.leave()
