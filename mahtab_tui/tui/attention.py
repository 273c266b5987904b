"""Calling the person back to a window that they look away from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line

LONG = 10.0
"""Seconds after which the end of a cell is worth a call."""

_OUTPUTS = (tags.USER_REPL_OUT, tags.ASSISTANT_REPL_OUT)
_NOTIFYING = ("iTerm.app", "WezTerm", "ghostty")


def reason(record: Record) -> str | None:
    """Why the person should look, or None."""
    if record.tag in _OUTPUTS and (record.attrs.get("duration") or 0) >= LONG:
        return f"Cell {record.attrs['cell']} has ended after {record.attrs['duration']:.0f} s"
    if record.tag == tags.APPROVAL and record.attrs.get("state") == "waiting":
        return "Code waits for your approval"
    if record.tag == tags.RLM_CALL and record.attrs.get("event") == "fan-out" and record.attrs.get("state") == "waiting":
        return "A search asks before it makes many calls"
    return None


def notification(text: str) -> str:
    """The sequence that shows a desktop notification, where the terminal is known to have one; else nothing."""
    text = one_line(text)
    if os.environ.get("TERM_PROGRAM") in _NOTIFYING:
        return f"\x1b]9;{text}\x07"
    if os.environ.get("KITTY_WINDOW_ID"):
        return f"\x1b]99;;{text}\x1b\\"
    return ""


class Attention:
    """Rings once for each record that deserves it while the window has not the focus."""

    def __init__(self, call: Callable[[str], None]) -> None:
        self.focused = True
        self._call = call

    def fold(self, records: Sequence[Record]) -> None:
        if not self.focused:
            for text in filter(None, map(reason, records)):
                self._call(text)
