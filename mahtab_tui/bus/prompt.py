"""Collects for the model what happened since it last answered."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from mahtab_tui.bus import records
from mahtab_tui.bus.escaping import escape_output
from mahtab_tui.bus.formatters import to_xml
from mahtab_tui.bus.hidden_entries import HiddenEntries, entry_of
from mahtab_tui.bus.records import Record, record_of

MAX_CHARS = 20_000
"""Default limit of the whole context, in characters."""

LONGEST = 4_000
"""Limit of one record in the context, in characters."""

RECORDS = 1_000
"""Records remembered between two questions; older ones are only counted."""

_RAW = 32_000
"""Characters remembered of each end of a record."""

RESUMED = "The session was resumed here with a new kernel: the variables of what ran before are gone, but for those that are said to be back."
"""Note to the model after the cells of the earlier kernel."""

_MESSAGES = (
    records.UserChat
    | records.AssistantChat
    | records.AssistantReplIn
    | records.AssistantReplOut
    | records.AssistantTool
)
"""Records that are already messages of the conversation, except other agents' cells."""


class PromptHandler(logging.Handler):
    """Collects what the model is told with the user's next question."""

    def __init__(self) -> None:
        super().__init__()
        self._records: deque[Record] = deque(maxlen=RECORDS)
        self._count = 0
        self.left_out = HiddenEntries()
        """The entries that the model is not told."""

    def emit(self, record: logging.LogRecord) -> None:
        self.take(record_of(record))

    def resume(self, past: Iterable[Record], *, same_kernel: bool = False) -> None:
        """Add the records from before the session was resumed. same_kernel: its kernel has waited,
        so that its variables are there."""
        for record in past:
            self.take(record)
        if self._records and not same_kernel:
            self._remember(records.Kernel(RESUMED))

    def take(self, record: Record) -> None:
        if not record.in_prompt:
            return
        self.left_out.fold(record)
        of_agent = isinstance(record, records.ReplIn | records.ReplOut) and record.guest is not None
        if isinstance(record, records.Hide | records.Replace | records.Private) or (
            isinstance(record, _MESSAGES) and not of_agent
        ):
            return
        if isinstance(record, records.ReplOut):
            if record.status == "ok" and not record.text.strip() and not record.detail:
                return
            record = record.changed(duration=None, detail=record.detail or None)
        self._remember(record)

    def _remember(self, record: Record) -> None:
        self._records.append(record.changed(text=shorten(record.text, _RAW * 2)))
        self._count += 1

    def get_context(self, max_chars: int = MAX_CHARS) -> str:
        """Return the newest records since `clear` as XML of at most `max_chars` characters; long
        ones are shortened, left-out ones counted.

        Records that the user has hidden are included, but not counted against the limit: the user
        may unhide them.
        """
        self.acquire()
        remembered, count = list(self._records), self._count
        self.release()
        elements: list[str] = []
        room = max_chars - len(_earlier(count)) - 1
        for record in reversed(remembered):
            rewritten = isinstance(record, records.ReplOut) and record.rewritten
            text = escape_output(record.text, rewritten=rewritten).rstrip("\n")
            element = to_xml(record.changed(text=shorten(text, min(LONGEST, max_chars // 2))))
            entry = entry_of(record)
            room -= (
                0 if entry in self.left_out or self.left_out.held_back(entry) else len(element) + 1
            )
            if room < 0:
                break
            elements.append(element)
        left_out = count - len(elements)
        return "\n".join([*([_earlier(left_out)] if left_out else []), *reversed(elements)])

    def clear(self) -> None:
        """Forget all records: the model knows them now."""
        self.acquire()
        self._records.clear()
        self._count = 0
        self.release()


def shorten(text: str, limit: int) -> str:
    """Return the head and tail of a long text, and between them the number of characters left
    out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit - limit * 2 // 3
    return f"{text[:head]}\n[… {len(text) - limit:,} characters left out …]\n{text[len(text) - tail :]}"


def _earlier(count: int) -> str:
    return f"[{count:,} earlier records left out]"
