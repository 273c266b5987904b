"""Pictures, in the transcript and on the whole screen, are drawn by the terminal's own graphics
where it says that it has them."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from tests.e2e.conftest import Start
from tests.e2e.terminal import DEADLINE, Terminal

QUESTION = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[c"
CELL = "\x1b[6;20;10t"
KITTY_KEEPS = rb"\x1b_Ga=t,f=100,"
KITTY_DRAWS = rb"\x1b7\x1b\[\d+;\d+H\x1b_Ga=p,"
SIXEL_DRAWS = rb"\x1b7\x1b\[\d+;\d+H\x1bP0;1;0q"
REMOVED = rb"\x1b_Ga=d,d=[iI],"
CLEARED = rb"\x1b_Ga=d,d=A,"


def sent(screen: Terminal, pattern: bytes, since: int = 0) -> int:
    """Wait until the program has sent something; returns where it ends."""
    end = time.monotonic() + DEADLINE
    while not (found := re.compile(pattern).search(screen.raw, since)):
        assert time.monotonic() < end, f"{pattern!r} was not sent"
        screen.pump(0.1)
    return found.end()


def with_picture(start: Start, **env: str) -> Terminal:
    """The program with a picture in its transcript."""
    screen = start(env=env)
    screen.wait("Python")
    screen.pump(0.5)
    assert QUESTION not in screen.raw
    screen.enter("from PIL import Image; Image.new('RGB', (30, 20), 'red')")
    screen.wait("▀▀▀")
    return screen


def on_the_whole_screen(screen: Terminal) -> Terminal:
    screen.press("ctrl+o")
    screen.type("t")
    screen.wait("⏎ Actions")
    screen.press("enter")
    screen.wait("Run again")
    screen.press("enter")
    screen.wait("Picture of cell 1")
    screen.wait("30 × 20 pixels")
    return screen


def back_in_the_editor(screen: Terminal) -> None:
    """Go back, and see that nothing but what is typed now stands in the input."""
    screen.press("escape")
    screen.wait("⏎ Actions")
    screen.press("ctrl+o")
    screen.wait("e──")
    screen.type("e")
    screen.wait("Python / Ask  esc Stop  f8 Approval  .o Jump  f3")
    screen.wait_gone("⏎ Actions")
    screen.enter("'ty' + 'ped'")
    screen.wait("▌ 'typed'")
    assert not re.search(r"31;OK|62;4|6;20|\?1;0|NameError|SyntaxError", screen.text)


def test_kitty_graphics_are_used_until_quitting(start: Start) -> None:
    screen = with_picture(start)
    sent(screen, re.escape(QUESTION))
    screen.send("\x1b_Gi=31;OK\x1b\\" + CELL + "\x1b[?62;22c")
    drawn = sent(screen, KITTY_DRAWS, sent(screen, KITTY_KEEPS))
    on_the_whole_screen(screen)
    drawn = sent(screen, KITTY_DRAWS, sent(screen, REMOVED, drawn))
    screen.resize(100, 30)
    drawn = sent(screen, KITTY_DRAWS, sent(screen, REMOVED, drawn))
    screen.wait("s Save")
    screen.press("ctrl+s")
    screen.wait("Save to the file")
    removed = sent(screen, REMOVED, drawn)
    screen.press("escape")
    drawn = sent(screen, KITTY_DRAWS, removed)
    back_in_the_editor(screen)
    drawn = sent(screen, KITTY_DRAWS, sent(screen, REMOVED, drawn))
    screen.enter("exit()")
    assert screen.wait_end() == 0
    assert screen.raw.rfind(b"\x1b_Ga=d,d=A,") > screen.raw.rfind(b"\x1b_Ga=p,")
    assert b"\x1bP0" not in screen.raw


def test_sixel_is_used_once_its_limits_are_known(start: Start) -> None:
    screen = with_picture(start)
    sent(screen, re.escape(QUESTION))
    screen.send(CELL + "\x1b[?62;4c")
    sent(screen, re.escape(b"\x1b[?1;1;0S\x1b[?2;1;0S\x1b[c"))
    assert not re.search(SIXEL_DRAWS, screen.raw)
    screen.send("\x1b[?1;0;256S\x1b[?2;0;1000;1000S\x1b[?62;4c")
    drawn = sent(screen, SIXEL_DRAWS)
    on_the_whole_screen(screen)
    drawn = sent(screen, SIXEL_DRAWS, drawn)
    back_in_the_editor(screen)
    sent(screen, SIXEL_DRAWS, drawn)
    assert b"\x1b_Ga=" not in screen.raw


def test_suspended_program_leaves_nothing_and_resumes_whole(cold_start: Start) -> None:
    screen = with_picture(cold_start)
    sent(screen, re.escape(QUESTION))
    screen.send("\x1b_Gi=31;OK\x1b\\" + CELL + "\x1b[?62;22c")
    drawn = sent(screen, KITTY_DRAWS)
    for _ in range(2):
        os.kill(screen.pid, signal.SIGTSTP)
        left = sent(screen, rb"\x1b\[\?1049l", sent(screen, CLEARED, drawn))
        os.waitid(os.P_PID, screen.pid, os.WSTOPPED)
        screen.screen.reset()
        os.kill(screen.pid, signal.SIGCONT)
        drawn = sent(screen, KITTY_DRAWS, sent(screen, rb"\x1b\[\?1049h", left))
        screen.wait("TRANSCRIPT")
        screen.wait("▀▀▀")
    screen.enter("6 * 7")
    screen.wait("▌ 42")


@pytest.mark.parametrize(
    ("env", "reply"),
    [
        ({}, ""),
        ({}, CELL + "\x1b[?62;22c"),
        ({}, "\x1b_Gi=31;OK\x1b\\\x1b[?62c"),
        ({"TERM": "tmux-256color"}, None),
        ({"TERM": "screen-256color"}, None),
        ({"MAHTAB_PICTURES": "blocks"}, None),
    ],
)
def test_half_blocks_are_used_without_graphics_support(
    start: Start, env: dict[str, str], reply: str | None
) -> None:
    screen = on_the_whole_screen(with_picture(start, **env))
    back_in_the_editor(screen)
    if reply is not None:
        sent(screen, re.escape(QUESTION))
        screen.send(reply)  # late: where keys would be typed
    screen.enter("'af' + 'ter'")
    screen.wait("▌ 'after'")
    assert not re.search(r"31;OK|62;|6;20", screen.text)
    assert (QUESTION in screen.raw) == (reply is not None)
    assert b"\x1b_Ga=" not in screen.raw
    assert b"\x1bP0" not in screen.raw


def test_setting_selects_the_graphics_protocol(start: Start) -> None:
    screen = on_the_whole_screen(with_picture(start, MAHTAB_PICTURES="sixel"))
    sent(screen, re.escape(QUESTION))
    screen.send("\x1b_Gi=31;OK\x1b\\" + CELL + "\x1b[?62c")
    sent(screen, SIXEL_DRAWS)
    back_in_the_editor(screen)
