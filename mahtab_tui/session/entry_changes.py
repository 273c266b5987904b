"""Hides, removes and restores entries of a conversation, as the user asks."""

from __future__ import annotations

import logging

from mahtab_tui.bus.records import Hide, Replace, emit

_REMOVED = "The greyed entries have left the conversation. /redo brings them back, until you enter something else."
_RESTORED = "The entries that were greyed are part of the conversation again."


class Entries:
    """Changes what the model gets of the conversation.

    Entries have the names that `bus.hidden_entries.HiddenEntries` knows.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def hide(self, entry: str, hidden: bool) -> None:
        """Hide an entry from the model from the next question on, or show it again."""
        emit(self._log, Hide(entry=entry, hidden=hidden))

    def replace(self, entry: str) -> None:
        """Remove an entry, and everything after it, from the model's conversation."""
        emit(self._log, Replace(_REMOVED, entry=entry))

    def restore(self, entry: str) -> None:
        """Bring back what `replace` has removed last, from an entry on."""
        emit(self._log, Replace(_RESTORED, entry=entry, restored=True))
