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

MAX_CONTEXT_CHARS = 20_000
"""Characters of the whole context."""
MAX_RECORD_CHARS = 4_000
"""Characters of one record in the context."""
MAX_RECORDS = 1_000
MAX_STORED_CHARS = 64_000
"""Characters of one record that are kept, before sequences in it are escaped."""

PRIVATE_CELL = "[Held back: this cell uses a variable that the user keeps private.]"
"""Sent instead of its output."""
RESUMED = "The session was resumed here with a new kernel: the variables of what ran before are gone, but for those that are said to be back."

_OUR_TAGS = tuple(tag for tag, _ in KINDS if "-" in tag)
"""Tags that content must not forge; others, such as ``<input>``, are only escaped in their own
record."""
_ATTRIBUTE_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\n": "&#10;",
    "\t": "&#9;",
}
_UNSEEN = re.compile(f"[{UNSEEN}]")
_PERHAPS_TAG = re.compile(rf"<[\s/{UNSEEN}]*+[\w{UNSEEN}-]*+")

_MESSAGES = (
    records.UserChat
    | records.AssistantChat
    | records.AssistantReplIn
    | records.AssistantReplOut
    | records.AssistantTool
)
"""Records that are already messages in the conversation, except other agents' cells."""


class HiddenEntries:
    """Tracks which entries are hidden from the model."""

    def __init__(self) -> None:
        self._entries: dict[str, None] = {}
        self._cells_by_block: dict[str, str] = {}
        """Cells by the names of their code blocks."""
        self._hidden: set[str] = set()
        self._replaced: set[str] = set()
        self.private: set[str] = set()
        """Names of private variables."""
        self._private_uses: dict[str, set[str]] = {}
        """Private variables of each cell."""

    def fold(self, record: Record) -> None:
        """Note what a record says about entries, or that it is one."""
        match record:
            case records.Hide(hidden=True):
                self._hidden.add(record.entry)
            case records.Hide():
                self._hidden.discard(record.entry)
            case records.Replace():
                entries = list(self._entries)
                first = 0
                if record.entry in self._entries:
                    first = entries.index(record.entry)
                self._replaced.update(entries[first:])
            case records.Private():
                if record.private:
                    self.private.add(record.name)
                else:
                    self.private.discard(record.name)
                for cell in record.cells:
                    self._private_uses.setdefault(cell_entry(cell), set()).add(record.name)
            case _:
                self._fold_entry(record)

    def _fold_entry(self, record: Record) -> None:
        entry = record.entry_name
        if not entry:
            return
        self._entries.setdefault(entry)
        if isinstance(record, records.ReplOut) and record.private:
            self._private_uses.setdefault(entry, set()).update(record.private)
        if isinstance(record, records.AssistantReplIn) and record.block is not None:
            block = code_entry(record.turn, record.step, record.block)
            self._cells_by_block[block] = entry

    def __bool__(self) -> bool:
        return bool(self._hidden or self._replaced or self.private)

    def is_private(self, entry: str) -> bool:
        """Whether an entry is a cell that uses a variable which is private now."""
        return not self.private.isdisjoint(self._private_uses.get(entry, ()))

    def __contains__(self, entry: str) -> bool:
        return entry in self._hidden or entry in self._replaced

    def is_replaced(self, entry: str) -> bool:
        """Whether a later answer replaces an entry."""
        return entry in self._replaced

    def hides_code(self, turn: int | None, step: int | None, block: int) -> bool:
        """Whether a code block of an answer is hidden, or the cell that it became."""
        entry = code_entry(turn, step, block)
        return entry in self or self._cells_by_block.get(entry, "") in self


def _tag_remainder(names: Iterable[str]) -> str:
    """Match the rest of a tag after its ``<``. A model may also accept ``< /USER-CHAT``."""
    return rf"\s*+(?:/\s*+)?(?:{'|'.join(sorted(names, key=len, reverse=True))})(?![\w-])"


@lru_cache(maxsize=64)
def _patterns(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of the characters to escape in a tag's content, and of their escapes."""
    tag_end = _tag_remainder({*_OUR_TAGS, tag})
    return (
        re.compile(rf"<(?=(?i:{tag_end}))|&(?=(?i:(?:amp;)*+lt;{tag_end}))"),
        re.compile(rf"&lt;(?={tag_end})|&amp;(?=(?:amp;)*+lt;{tag_end})", re.IGNORECASE),
    )


def defuse(text: str, tag: str = records.UserReplOut.tag) -> str:
    """Escape content so that it cannot start or end a record: ``<`` only before our own tags, and
    ``&`` only where it would read as that escape, so that code stays code."""
    unescaped, _ = _patterns(tag)
    return unescaped.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", text)


def restore(text: str, tag: str = records.UserReplOut.tag) -> str:
    """Undo `defuse`."""
    _, escaped = _patterns(tag)
    return escaped.sub(lambda match: "<" if match[0].lower() == "&lt;" else "&", text)


@lru_cache(maxsize=64)
def _tag_starts(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of the ``<`` of these tags."""
    return re.compile(rf"<(?=(?i:{_tag_remainder(names)}))")


def escape_tags(text: str, *names: str) -> str:
    """Escape the ``<`` of these tags."""
    return _tag_starts(names).sub("&lt;", text)


def escape_unseen_tags(text: str, *names: str) -> str:
    """Escape the ``<`` of tags with unseen characters, which `defuse` and `escape_tags` do not
    recognise."""
    if not _UNSEEN.search(text):
        return text
    tag_start = _tag_starts((*_OUR_TAGS, *names))

    def escape(match: re.Match[str]) -> str:
        visible_text = _UNSEEN.sub("", match[0])
        if visible_text == match[0] or not tag_start.match(visible_text):
            return match[0]
        return f"&lt;{match[0][1:]}"

    return _PERHAPS_TAG.sub(escape, text)


def attributes(attrs: Mapping[str, Any]) -> str:
    """Format attributes as XML, each with a preceding space. None and collections are left out."""
    parts: list[str] = []
    for name, value in attrs.items():
        if value is None or isinstance(value, list | tuple | dict) or not name.isidentifier():
            continue
        if isinstance(value, bool):
            text = str(value).lower()
        else:
            text = escape_for_model(str(value))
        escaped = "".join(_ATTRIBUTE_ESCAPES.get(char, char) for char in text)
        parts.append(f' {name}="{escaped}"')
    return "".join(parts)


def to_xml(record: Record, *names: str) -> str:
    """Format a record as XML that cannot forge another one. names: its fields; all by default."""
    fields = encode(record)
    if names:
        fields = {name: fields.get(name) for name in names}
    tag = record.tag
    return f"<{tag}{attributes(fields)}>{defuse(record.text, tag)}</{tag}>"


class PromptHandler(logging.Handler):
    """Collects what the model gets with the user's next question."""

    def __init__(self) -> None:
        super().__init__()
        self._records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self._count = 0
        """Records since `clear`, with those that are dropped."""
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
        """Add a record if a model gets it, and not as a message of the conversation."""
        if not record.in_prompt:
            return
        self.hidden.fold(record)
        if isinstance(record, records.Hide | records.Replace | records.Private):
            return
        is_of_other_agent = isinstance(record, records.CellRecord) and record.guest is not None
        if isinstance(record, _MESSAGES) and not is_of_other_agent:
            return
        if isinstance(record, records.ReplOut):
            if record.status == "ok" and not record.text.strip() and not record.detail:
                return
            record = record.changed(duration=None, detail=record.detail or None)
        self._remember(record)

    def _remember(self, record: Record) -> None:
        self._records.append(record.changed(text=shorten(record.text, MAX_STORED_CHARS)))
        self._count += 1

    def get_context(self, max_chars: int = MAX_CONTEXT_CHARS) -> str:
        """Return the newest records since `clear` as XML. Hidden records do not count towards the
        limit, because the user may show them again."""
        self.acquire()
        new_records = list(self._records)
        count = self._count
        self.release()

        elements: list[str] = []
        max_record_chars = min(MAX_RECORD_CHARS, max_chars // 2)
        remaining_chars = max_chars - len(_omission_note(count)) - 1
        for record in reversed(new_records):
            is_rewritten = isinstance(record, records.ReplOut) and record.rewritten
            text = escape_output(record.text, rewritten=is_rewritten).rstrip("\n")
            element = to_xml(record.changed(text=shorten(text, max_record_chars)))
            entry = record.entry_name
            if entry not in self.hidden and not self.hidden.is_private(entry):
                remaining_chars -= len(element) + 1
            if remaining_chars < 0:
                break
            elements.append(element)

        omitted_count = count - len(elements)
        if omitted_count:
            elements.append(_omission_note(omitted_count))
        return "\n".join(reversed(elements))

    def clear(self) -> None:
        """Forget the records, because the model has them."""
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


def _omission_note(count: int) -> str:
    return f"[{count:,} earlier records left out]"
