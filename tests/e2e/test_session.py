"""The main features in a real terminal."""

from __future__ import annotations

import re
from operator import attrgetter

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.e2e.conftest import Replay, Start
from tests.e2e.screen import EmulatedScreen, Stream

CODE = "I'll add them up.\n\n```python\ntotal = sum(numbers)\ntotal\n```\n"
COMPLETE = '{"is_complete": true, "reasoning": "the sum was computed", "next_action": ""}'
WORDS = "The total is sixty."

FRAME = "import pandas as pd; df = pd.DataFrame({'n': range(1_000_000), 'half': [n / 2 for n in range(1_000_000)]})"

COLUMNS = 12
LINES = 5
CURSOR = attrgetter("cursor.x", "cursor.y", "cursor.attrs")
PIECES = st.one_of(
    st.text("ab é─▌漢\u0301\u200b\r\n\t\b\x7f", min_size=1, max_size=15),
    st.builds("\x1b[{};{}{}".format, st.integers(0, 9), st.integers(0, 9), st.sampled_from("Hmr")),
    st.builds("\x1b[{}{}".format, st.sampled_from(["", 1, 2]), st.sampled_from("ABCDGJKLMPXd@")),
    st.sampled_from(
        "\x1b[m \x1b[38;2;1;2;3m \x1b[1;38;5;9;48;5;200m \x1b[4h \x1b[4l \x1b[?7l \x1b[?7h \x1b(0 \x1b7 \x1b8".split()
    ),
)


def test_compute_ask_approve_and_use_the_variable(cold_start: Start, replay: Replay) -> None:
    screen = cold_start(
        "--model", replay(CODE, {"text": COMPLETE, "match": "is_complete"}, WORDS)
    ).idle()
    screen.enter("numbers = [10, 20, 30]", r"numbers\s+list")
    screen.enter("`what is the total?", "waits for you")
    assert not re.search(r"total\s+int", screen.text), "code has run before it was approved"
    screen.wait("run all from now on")
    screen.press("f7")
    screen.press_until("y", r"total\s+int\s+60", prompt_pattern="run all from now on")
    screen.wait(WORDS)
    screen.press("f2")
    screen.enter("total + 1", r"\b61\b")
    screen.leave()


def test_endless_loop_is_interrupted_and_the_session_continues(start: Start) -> None:
    screen = start().idle()
    screen.type("while True: pass")
    screen.press("enter", "enter", pattern="busy")
    screen.press("escape", pattern="KeyboardInterrupt")
    screen.idle()
    screen.enter("6 * 7", r"\b42\b")


def test_input_getpass_and_breakpoint_ask_on_the_screen(start: Start) -> None:
    screen = start().idle()
    screen.enter("name = input('your name? ')", "Enter answers")
    screen.enter("Ada", r"name\s+str\s+'Ada'")
    screen.wait_gone(r"(?m)^ +your name")
    screen.enter("import getpass; word = getpass.getpass('secret: ')", "Enter answers")
    screen.type("xyzzy", "•••••")
    assert "xyzzy" not in screen.text
    screen.press("enter", pattern=r"word\s+str\s+'•+'")
    screen.enter("print(word, '\\x1b[31m'.join(word), len(word))", r"•+ •+ 5")
    assert "xyzzy" not in screen.text


@pytest.mark.thorough
def test_input_entered_during_a_cell_waits_and_can_be_withdrawn(start: Start) -> None:
    screen = start().idle()
    screen.type("while True: pass")
    screen.press("enter", "enter", pattern="busy")
    screen.enter("later = 1", r"queued.*later = 1")
    screen.enter("never = 1", r"❯ never = 1 ✕")
    screen.click("never = 1 ✕")
    screen.wait_gone("never = 1 ✕")
    screen.press("ctrl+c", pattern="1 queued cell was not run")
    # What was withdrawn is in the editor.
    screen.press("ctrl+c", gone_pattern="❯ never = 1")
    screen.press("enter", pattern=r"later\s+int")
    assert not re.search(r"never\s+int", screen.text)


def test_screen_works_at_80_by_24_and_survives_resizing(start: Start) -> None:
    screen = start(size=(80, 24)).idle()
    screen.enter("x = 1", r"\+ x int 1")
    screen.resize(200, 50)
    screen.wait("NAMESPACE")
    screen.resize(20, 5)
    screen.wait("(?s)^.{0,20}idle")
    screen.resize(80, 24)
    screen.idle()
    screen.leave()


@pytest.mark.thorough
def test_table_opens_scrolls_and_sorts_while_a_cell_runs(start: Start) -> None:
    screen = start().idle()
    screen.enter(FRAME, "1,000,000 × 2")
    screen.idle()
    screen.enter("exec('while True: pass')", "kernel .*busy")
    screen.press("ctrl+o")
    screen.send("n", "Look inside")
    screen.press("enter", pattern="row 1 of 1,000,000")
    screen.send("s", "n ▲")
    screen.send("s", "n ▼")
    screen.wait("999999")
    screen.press("escape", pattern="while True: pass")
    screen.press("ctrl+c")
    screen.idle()


def test_mutations_by_a_cell_are_undone_and_redone(start: Start) -> None:
    screen = start(size=(120, 35)).idle()
    screen.enter("items = [1, 2]")
    screen.enter("items.append(3); more = 1")
    screen.wait(r"items\s+3 items\s+list")
    screen.enter("`/undo", "Undo cell 2")
    screen.wait(r"items\s+list 3 items → 2 items")
    screen.press("y", pattern="Cell 2 was undone")
    screen.wait(r"items\s+2 items\s+list")
    screen.enter("/redo", "Cell 2 was redone")
    screen.wait(r"items\s+3 items\s+list")
    screen.leave()


# Our faster emulator draws the same screen as pyte.


@given(st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=4))
@example(["漢漢", "\x1b[1;2Hx"])
@example(["\x1b[5;12Hab\n", "c"])
def test_same_bytes_give_the_same_screen(reads: list[str]) -> None:
    plain = pyte.Screen(COLUMNS, LINES)
    quick = EmulatedScreen(COLUMNS, LINES)
    streams = pyte.ByteStream(plain), Stream(quick)
    for read in reads:
        for stream in streams:
            stream.feed(read.encode())
        expected = [[plain.buffer[y][x] for x in range(COLUMNS)] for y in range(LINES)]
        assert [[quick.buffer[y][x] for x in range(COLUMNS)] for y in range(LINES)] == expected
        assert CURSOR(quick) == CURSOR(plain)
        again = EmulatedScreen(COLUMNS, LINES)
        again.buffer.update(quick.buffer)
        assert quick.text == again.text
