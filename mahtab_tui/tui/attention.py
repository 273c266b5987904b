"""Calls the user back to a window that has not got the focus."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mahtab_tui.bus.sanitize import one_line

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record

LONG = 10.0
"""Seconds that a cell must run for its end to call the user."""

_NOTIFYING = ("iTerm.app", "WezTerm", "ghostty")


def reason(record: Record) -> str | None:
    """Why the user should look; None if there is no reason."""
    from mahtab_tui.bus import records

    match record:
        case records.ReplOut() if record.duration is not None and record.duration >= LONG:
            return f"Cell {record.cell} ended after {record.duration:.0f} s"
        case records.Approval(state="waiting"):
            return "Code waits for your approval"
        case records.Review(state="waiting"):
            return "Changes wait until you keep or undo them"
        case records.SearchFanOut(state="waiting"):
            return "A search asks before it makes many calls"
    return None


def notification(text: str) -> str:
    """The sequence that shows a desktop notification; empty if the terminal is not known to support it."""
    text = one_line(text)
    if os.environ.get("TERM_PROGRAM") in _NOTIFYING:
        return f"\x1b]9;{text}\x07"
    if os.environ.get("KITTY_WINDOW_ID"):
        return f"\x1b]99;;{text}\x1b\\"
    return ""


class Attention:
    """Calls the user for each record with a reason, while the window has not got the focus."""

    def __init__(self, call: Callable[[str], None], focused: Callable[[], bool]) -> None:
        """focused: whether the window has the focus."""
        self._call = call
        self._focused = focused

    def fold(self, records: Sequence[Record]) -> None:
        if not self._focused():
            for text in filter(None, map(reason, records)):
                self._call(text)
