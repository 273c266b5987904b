"""Tells a user who looks elsewhere that something waits for them, or that a long cell has ended."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.settings.model import (
    CELL_ENDED_TEXT,
    NOTIFICATION_SEQUENCES,
    WAITING_TEXT,
    NotificationMode,
)

LONG_CELL_S = 10.0
"""Seconds after which the end of a cell is worth a notification."""


def notification_sequence(record: records.Record, mode: NotificationMode) -> str:
    """Return what the terminal gets for a record; empty if the user need not be told."""
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
