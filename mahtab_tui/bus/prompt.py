"""Collects what happened since the model last answered."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import KINDS, Record, cell_entry, code_entry, encode, get_record
from mahtab_tui.bus.terminal_screen import UNSEEN, escape_for_model, escape_output

PRIVATE_CELL = "[Held back: this cell uses a variable that the user keeps private.]"
"""Sent instead of its output."""


class HiddenEntries:
    """Tracks which entries are hidden from the model."""

    def __init__(self) -> None:
        self._entries: dict[str, None] = {}
        self._ran: dict[str, str] = {}
        """Cells by the names of their code blocks."""
        self._hidden: set[str] = set()
        self._replaced: set[str] = set()
        self.private: set[str] = set()
        self._uses: dict[str, set[str]] = {}
        """Private variables of each cell."""

    def fold(self, record: Record) -> None:
        if isinstance(record, records.Hide):
            (self._hidden.add if record.hidden else self._hidden.discard)(record.entry)
        elif isinstance(record, records.Replace):
            names = list(self._entries)
            first = names.index(record.entry) if record.entry in self._entries else 0
            self._replaced.update(names[first:])
        elif isinstance(record, records.Private):
            (self.private.add if record.private else self.private.discard)(record.name)
            for cell in record.cells:
                self._uses.setdefault(cell_entry(cell), set()).add(record.name)
        elif name := record.entry_name:
            self._entries.setdefault(name)
            if isinstance(record, records.ReplOut) and record.private:
                self._uses.setdefault(name, set()).update(record.private)
            if isinstance(record, records.AssistantReplIn) and record.block is not None:
                self._ran[code_entry(record.turn, record.step, record.block)] = name

    def __bool__(self) -> bool:
        return bool(self._hidden or self._replaced or self.private)

    def is_private(self, entry: str) -> bool:
        return not self.private.isdisjoint(self._uses.get(entry, ()))

    def __contains__(self, entry: str) -> bool:
        return entry in self._hidden or entry in self._replaced

    def is_replaced(self, entry: str) -> bool:
        return entry in self._replaced

    def hides_code(self, turn: int | None, step: int | None, block: int) -> bool:
        name = code_entry(turn, step, block)
        return name in self or self._ran.get(name, "") in self


_OURS = tuple(tag for tag, _ in KINDS if "-" in tag)
"""Tags that content must not forge; others, such as ``<input>``, are only escaped in their own
record."""

_IN_ATTRIBUTE = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


def _tag_remainder(names: Iterable[str]) -> str:
    """Match the rest of a tag after its ``<``. A model may also accept ``< /USER-CHAT``."""
    return rf"\s*+(?:/\s*+)?(?:{'|'.join(sorted(names, key=len, reverse=True))})(?![\w-])"


@lru_cache(maxsize=64)
def _patterns(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of the characters to escape in a tag's content, and of their escapes."""
    rest = _tag_remainder({*_OURS, tag})
    return (
        re.compile(rf"<(?=(?i:{rest}))|&(?=(?i:(?:amp;)*+lt;{rest}))"),
        re.compile(rf"&lt;(?={rest})|&amp;(?=(?:amp;)*+lt;{rest})", re.IGNORECASE),
    )


def defuse(text: str, tag: str = records.UserReplOut.tag) -> str:
    """Escape content so that it cannot start or end a record: ``<`` only before our own tags, and
    ``&`` only where it would read as that escape, so that code stays code."""
    return _patterns(tag)[0].sub(lambda found: "&lt;" if found[0] == "<" else "&amp;", text)


def restore(text: str, tag: str = records.UserReplOut.tag) -> str:
    return _patterns(tag)[1].sub(lambda found: "<" if found[0].lower() == "&lt;" else "&", text)


@lru_cache(maxsize=64)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=(?i:{_tag_remainder(names)}))")


def escape_tags(text: str, *names: str) -> str:
    return _tags(names).sub("&lt;", text)


_UNSEEN = re.compile(f"[{UNSEEN}]")
_MAYBE_TAG = re.compile(rf"<[\s/{UNSEEN}]*+[\w{UNSEEN}-]*+")


def escape_unseen_tags(text: str, *names: str) -> str:
    """Escape the ``<`` of tags with unseen characters, which `defuse` and `escape_tags` do not
    recognise."""
    if not _UNSEEN.search(text):
        return text
    tag = _tags((*_OURS, *names))

    def escape(found: re.Match[str]) -> str:
        seen = _UNSEEN.sub("", found[0])
        return f"&lt;{found[0][1:]}" if seen != found[0] and tag.match(seen) else found[0]

    return _MAYBE_TAG.sub(escape, text)


def attributes(attrs: Mapping[str, Any]) -> str:
    """Format attributes as XML, each with a preceding space. None and collections are left out."""
    parts = []
    for name, value in attrs.items():
        if value is None or isinstance(value, list | tuple | dict) or not name.isidentifier():
            continue
        word = str(value).lower() if isinstance(value, bool) else escape_for_model(str(value))
        parts.append(f' {name}="{"".join(_IN_ATTRIBUTE.get(char, char) for char in word)}"')
    return "".join(parts)


def to_xml(record: Record, *names: str) -> str:
    """Format a record as XML that cannot forge another one. names: its fields; all by default."""
    fields = encode(record)
    shown = attributes({name: fields.get(name) for name in names} if names else fields)
    return f"<{record.tag}{shown}>{defuse(record.text, record.tag)}</{record.tag}>"


MAX_CHARS = 20_000
"""Characters of the whole context."""

LONGEST = 4_000
"""Characters of one record."""

RECORDS = 1_000

_RAW = 32_000

RESUMED = "The session was resumed here with a new kernel: the variables of what ran before are gone, but for those that are said to be back."

_MESSAGES = (
    records.UserChat
    | records.AssistantChat
    | records.AssistantReplIn
    | records.AssistantReplOut
    | records.AssistantTool
)
"""Records that are already messages in the conversation, except other agents' cells."""


class PromptHandler(logging.Handler):
    """Collects what the model gets with the user's next question."""

    def __init__(self) -> None:
        super().__init__()
        self._records: deque[Record] = deque(maxlen=RECORDS)
        self._count = 0
        self.hidden = HiddenEntries()

    def emit(self, record: logging.LogRecord) -> None:
        self.add_record(get_record(record))

    def resume(self, past: Iterable[Record], *, same_kernel: bool = False) -> None:
        """Add the records of a resumed session. same_kernel: its variables still exist."""
        for record in past:
            self.add_record(record)
        if self._records and not same_kernel:
            self._remember(records.Kernel(RESUMED))

    def add_record(self, record: Record) -> None:
        if not record.in_prompt:
            return
        self.hidden.fold(record)
        of_agent = isinstance(record, records.CellRecord) and record.guest is not None
        is_mark = isinstance(record, records.Hide | records.Replace | records.Private)
        if is_mark or (isinstance(record, _MESSAGES) and not of_agent):
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
        """Return the newest records since `clear` as XML. Hidden records do not count towards the
        limit, because the user may show them again."""
        self.acquire()
        remembered, count = list(self._records), self._count
        self.release()
        elements: list[str] = []
        room = max_chars - len(_earlier(count)) - 1
        for record in reversed(remembered):
            rewritten = isinstance(record, records.ReplOut) and record.rewritten
            text = escape_output(record.text, rewritten=rewritten).rstrip("\n")
            element = to_xml(record.changed(text=shorten(text, min(LONGEST, max_chars // 2))))
            entry = record.entry_name
            room -= 0 if entry in self.hidden or self.hidden.is_private(entry) else len(element) + 1
            if room < 0:
                break
            elements.append(element)
        omitted = count - len(elements)
        return "\n".join([*([_earlier(omitted)] if omitted else []), *reversed(elements)])

    def clear(self) -> None:
        self.acquire()
        self._records.clear()
        self._count = 0
        self.release()


def shorten(text: str, limit: int, advice: str = "") -> str:
    """Leave out the middle of a text that has more than `limit` characters.

    Args:
        limit: Characters of the text that are left, without the note about the others.
        advice: The end of that note, such as how to see the whole text.
    """
    if len(text) <= limit:
        return text
    head_chars = limit * 2 // 3
    tail_start = len(text) - (limit - head_chars)
    note = f"[… {len(text) - limit:,} characters left out{advice} …]"
    return f"{text[:head_chars]}\n{note}\n{text[tail_start:]}"


def _earlier(count: int) -> str:
    return f"[{count:,} earlier records left out]"
