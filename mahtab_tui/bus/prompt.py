"""From the bus to the model: what happened since it last spoke."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from mahtab_tui.bus import tags
from mahtab_tui.bus.filters import TagFilter
from mahtab_tui.bus.formatters import to_xml
from mahtab_tui.bus.left_out import LeftOut, entry_of
from mahtab_tui.bus.records import Record
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

_MESSAGES = frozenset((tags.USER_CHAT, tags.ASSISTANT_CHAT, tags.ASSISTANT_REPL_IN, tags.ASSISTANT_REPL_OUT, tags.ASSISTANT_TOOL))
"""These are messages of the conversation already: the model wrote the code and called the tool, and was told what came of it."""


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
        self._take(Record.of(record))

    def resume(self, past: Iterable[Record]) -> None:
        """Take in what went over the bus before the session was resumed."""
        for record in past:
            if (route := tags.ROUTES.get(record.tag)) is not None and route.prompt:
                self._take(record)
        if self._records:
            self._remember(Record(tags.KERNEL, RESUMED, {}, 0.0))

    def _take(self, record: Record) -> None:
        self.left_out.fold(record)
        told = record.tag in _MESSAGES and "guest" not in record.attrs
        if not told and record.tag not in (tags.HIDE, tags.REPLACE):
            self._remember(record)

    def _remember(self, record: Record) -> None:
        self._records.append(replace(record, text=shorten(record.text, _RAW * 2)))
        self._count += 1

    def get_context(self, max_chars: int = MAX_CHARS) -> str:
        """What went over the bus since `clear`, as XML of at most `max_chars` characters: the newest records, the long ones as head and
        tail; what there was no room for is counted. What the person has taken out comes too, in no one's room: it may be shown again."""
        self.acquire()
        records, count = list(self._records), self._count
        self.release()
        elements: list[str] = []
        room = max_chars - len(_earlier(count)) - 1
        for record in reversed(records):
            text = told_output(record.text, rewritten=bool(record.attrs.get("rewritten"))).rstrip("\n")
            element = to_xml(replace(record, text=shorten(text, min(LONGEST, max_chars // 2))))
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
