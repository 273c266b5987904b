"""Tells a user who looks elsewhere that something waits for them, or that a long cell has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mahtab_tui.settings.model import NotificationMode

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record

LONG_CELL_S = 10.0
"""Seconds after which the end of a cell is worth a notification."""
WAITING_TEXT = "mahtab waits for you"
CELL_ENDED_TEXT = "A cell in mahtab has ended"
NOTIFICATION_TEXTS = (WAITING_TEXT, CELL_ENDED_TEXT)
NOTIFICATION_SEQUENCES: dict[NotificationMode, str] = {
    "bell": "\x07",
    "osc9": "\x1b]9;{text}\x07",
    "osc777": "\x1b]777;notify;mahtab;{text}\x07",
    "off": "",
}
"""What a terminal gets, by the setting `notifications`."""


def notification_sequence(record: Record, mode: NotificationMode) -> str:
    """Return what the terminal gets for a record; empty if the user need not be told."""
    # Not needed before the first picture.
    from mahtab_tui.bus import records

    match record:
        case records.ReplOut(duration=seconds) if (seconds or 0) >= LONG_CELL_S:
            text = CELL_ENDED_TEXT
        case (
            records.Approval(state="waiting")
            | records.Input(state="waiting")
            | records.Review(state="waiting")
            | records.SearchFanOut(state="waiting")
        ):
            text = WAITING_TEXT
        case _:
            return ""
    return NOTIFICATION_SEQUENCES[mode].format(text=text)
