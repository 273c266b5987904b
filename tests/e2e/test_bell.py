"""Calling the person back to a window that they look away from."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal

AWAY, BACK = "\x1b[O", "\x1b[I"
"""Reports of a terminal when its window loses the focus and gets it."""


def bells(screen: Terminal) -> int:
    """Count the bells that the terminal was sent; a bell at the end of a sequence is none."""
    return sum(
        map(bool, re.findall(rb"\x1b\]\d+;[^\x07\x1b]*(?:\x07|\x1b\\)|(\x07)", bytes(screen.raw)))
    )


def test_long_cell_and_waiting_code_ring_when_the_window_is_unfocused(
    start: Start, replay: Callable[..., str]
) -> None:
    screen = start("--model", replay("```python\nz = 1\n```"))
    screen.wait("kernel .*idle")
    screen.send(AWAY)
    screen.enter("'short'")
    screen.wait("▌ 'short'(?s:.*)▌ 'short'")
    assert bells(screen) == 0
    # As long as it has to be; nothing here depends on how long it takes.
    screen.enter("import time; time.sleep(10.01)")
    screen.wait("busy")
    screen.wait(r"\+ time module")
    screen.wait("kernel .*idle")
    assert bells(screen) == 1
    screen.enter("`go")
    screen.wait("waits for you")
    assert bells(screen) == 2


def test_focused_window_does_not_ring(start: Start, replay: Callable[..., str]) -> None:
    screen = start("--model", replay("```python\nz = 1\n```"))
    screen.wait("kernel .*idle")
    screen.send(AWAY + BACK)
    screen.enter("`go")
    screen.wait("waits for you")
    assert bells(screen) == 0
