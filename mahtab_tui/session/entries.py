"""Actions of the user on entries of the conversation."""

from __future__ import annotations

import logging

from mahtab_tui.bus.records import Hide, Pin, Replace, emit

_REPLACED = "The greyed entries are removed from the conversation; the namespace stays as it is."


class Entries:
    """Hides, pins and replaces entries. entry: its name, from `bus.left_out`."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def hide(self, entry: str, hidden: bool) -> None:
        """Hide an entry from the model from the next question on, or unhide it."""
        emit(self._log, Hide(entry=entry, hidden=hidden))

    def pin(self, entry: str, pinned: bool) -> None:
        """Pin an entry to the top of the transcript, or unpin it."""
        emit(self._log, Pin(entry=entry, pinned=pinned))

    def replace(self, entry: str) -> None:
        """Remove an entry from the model's conversation with all after it. The namespace stays."""
        emit(self._log, Replace(_REPLACED, entry=entry))
