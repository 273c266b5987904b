"""From the bus to the model: what happened since it last spoke."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.formatters import to_xml
from mahtab_tui.bus.left_out import LeftOut, entry_of
from mahtab_tui.bus.records import Record, record_of
from mahtab_tui.bus.told import told_output

MAX_CHARS = 20_000
"""Characters of the whole context, unless asked otherwise."""

LONGEST = 4_000
"""Characters of one record in it."""

RECORDS = 1_000
"""Records that are remembered between two questions; older ones are only counted."""

_RAW = 32_000
"""Characters that are remembered of one record's beginning, and of its end."""

RESUMED = "The session was resumed here with a new kernel: the variables of what ran before are gone."
"""What the model is told behind the cells of before."""

_MESSAGES = records.UserChat | records.AssistantChat | records.AssistantReplIn | records.AssistantReplOut | records.AssistantTool
"""These are messages of the conversation already, but for other agents' cells: the model wrote the code and called the tool, and was told what came
of it."""


class PromptHandler(logging.Handler):
    """Gathers what the model is told with the person's next turn."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(TagFilter("prompt"))
        self._records: deque[Record] = deque(maxlen=RECORDS)
        self._count = 0
        self.left_out = LeftOut()
        """What of the conversation the model is not told."""

    def emit(self, record: logging.LogRecord) -> None:
        self.take(record_of(record))

    def resume(self, past: Iterable[Record]) -> None:
        """Take in what went over the bus before the session was resumed."""
        for record in past:
            if tags.ROUTES[record.tag].prompt:
                self.take(record)
        if self._records:
            self._remember(records.Kernel(RESUMED))

    def take(self, record: Record) -> None:
        """Take in a record."""
        self.left_out.fold(record)
        of_agent = isinstance(record, records.ReplIn | records.ReplOut) and record.guest is not None
        if not isinstance(record, records.Hide | records.Replace) and (of_agent or not isinstance(record, _MESSAGES)):
            self._remember(record)

    def _remember(self, record: Record) -> None:
        self._records.append(record.changed(text=shorten(record.text, _RAW * 2)))
        self._count += 1

    def get_context(self, max_chars: int = MAX_CHARS) -> str:
        """What went over the bus since `clear`, as XML of at most `max_chars` characters: the newest records, the long ones as head and
        tail; what there was no room for is counted. What the person has taken out comes too, in no one's room: it may be shown again."""
        self.acquire()
        remembered, count = list(self._records), self._count
        self.release()
        elements: list[str] = []
        room = max_chars - len(_earlier(count)) - 1
        for record in reversed(remembered):
            rewritten = isinstance(record, records.ReplOut) and record.rewritten
            text = told_output(record.text, rewritten=rewritten).rstrip("\n")
            element = to_xml(record.changed(text=shorten(text, min(LONGEST, max_chars // 2))))
            room -= 0 if entry_of(record) in self.left_out else len(element) + 1
            if room < 0:
                break
            elements.append(element)
        left_out = count - len(elements)
        return "\n".join([*([_earlier(left_out)] if left_out else []), *reversed(elements)])

    def clear(self) -> None:
        """Forget all: the model knows it now."""
        self.acquire()
        self._records.clear()
        self._count = 0
        self.release()


def shorten(text: str, limit: int) -> str:
    """The head and the tail of a long text, and between them how many characters are left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit - limit * 2 // 3
    return f"{text[:head]}\n[… {len(text) - limit:,} characters left out …]\n{text[len(text) - tail :]}"


def _earlier(count: int) -> str:
    return f"[{count:,} earlier records left out]"
