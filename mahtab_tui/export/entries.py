"""Folds the records of a session into the entries of an export."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from mahtab_tui.bus import conversation, records
from mahtab_tui.bus.answers import AnswerPart
from mahtab_tui.bus.conversation import (
    Cell,
    Entry,
    Note,
    Question,
    ToolUse,
    Words,
    parse_plain_python,
)
from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import Record, cell_entry
from mahtab_tui.bus.sanitize import one_line, plain

_TITLE = 300


@dataclass(kw_only=True, eq=False)
class Search(Entry):
    """A search and its answer. Its key is that of its cell."""

    texts = ("query", "text")
    query: str
    root: str
    text: str = ""
    asked: int = 0
    cost: float = 0.0
    ended: str = ""

    @property
    def title(self) -> str:
        cost = f" · ${self.cost:.4f}" if self.cost else ""
        ended = "" if self.ended in ("done", "") else f" · {self.ended}"
        return f"Search: {self.query} · {self.asked:,} call{'s' * (self.asked != 1)}{cost}{ended}"


def to_title(text: str) -> str:
    line = one_line(text).strip()
    return line if len(line) <= _TITLE else f"{line[:_TITLE]}…"


_TEXTS = ("text/markdown", "text/html")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*+")


class Output(NamedTuple):
    """A part of a cell's output."""

    kind: str
    """See `records.ReplOutStream`."""
    text: str
    mime: str = ""
    """Empty if it is only text."""
    data: str = ""

    def masked(self, mask: Callable[[str], str]) -> Output:
        data = self.data if self.mime.startswith("image/") else mask(self.data)
        return self._replace(text=mask(self.text), data=data)


class WholeOutput(OutputBuffer):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Output] = []

    def clear(self) -> None:
        self.received = 0
        self.parts.clear()

    def feed(self, kind: str, text: str) -> None:
        if text:
            self.received += len(text)
            self.parts.append(Output(kind, text))

    def show(self, text: str, mime: str, data: str, value: str = "") -> None:
        self.received += len(text)
        known = mime in _TEXTS or (mime in records.PICTURES and BASE64.fullmatch(data))
        self.parts.append(Output("display", text, *((mime, data) if known else ())))


def outputs(cell: Cell) -> list[Output]:
    buffers = (cell.output, cell.late_output)
    return [part for each in buffers if isinstance(each, WholeOutput) for part in each.parts]


ASIDES = ToolUse | Search | Note


def has_run(entry: Entry) -> TypeGuard[Cell]:
    return isinstance(entry, Cell) and entry.number is not None


class Conversation(conversation.Conversation):
    def __init__(self, past: Iterable[Record] = (), *, asides: bool = False) -> None:
        super().__init__()
        self.hidden_entries = HiddenEntries()
        self._asides = asides
        self._searches: dict[str, Search] = {}
        if asides:
            self._folds[records.SearchBegin] = self._begin_search
            self._folds |= dict.fromkeys((records.Usage, records.SearchFinal), self._search_event)
        self.fold(past)

    def fold(self, new_records: Iterable[Record]) -> None:
        for record in new_records:
            self.hidden_entries.fold(record)
            if not isinstance(record, records.ReplIn) or record.cell is not None:
                super().fold((record,))

    def append(self, entry: Entry) -> None:
        if isinstance(entry, Cell):
            entry.output = WholeOutput()
        quiet = isinstance(entry, Note) and entry.level not in ("warning", "error")
        if not quiet and (self._asides or not isinstance(entry, ASIDES)):
            super().append(entry)

    def _drop(self, piece: Words | Cell) -> None:
        self.entries.remove(piece)
        super()._drop(piece)

    def _mark(self, record: records.AssistantChat, pieces: list[Words | Cell]) -> None:
        """Do nothing, because only the screen shows which answers were stopped."""

    def _answer_parts(self, text: str) -> Sequence[AnswerPart]:
        return [part for part in super()._answer_parts(text) if part.kind != "thought"]

    @property
    def title(self) -> str:
        questions = (entry.text for entry in self.entries if isinstance(entry, Question))
        codes = (entry.code for entry in self.entries if has_run(entry))
        first = next(questions, None) or next(codes, "")
        return next((line.strip()[:100] for line in first.splitlines() if line.strip()), "")

    def private(self, entry: Entry) -> bool:
        """Return whether a cell uses a private variable, or a search belongs to such a cell."""
        return self.hidden_entries.is_private(entry.key)

    def private_texts(self) -> Iterator[str]:
        """Yield the texts of private variables that are known without the kernel."""
        for cell in self.entries:
            if not isinstance(cell, Cell) or not self.private(cell):
                continue
            tree = parse_plain_python(cell.code)
            for node in ast.walk(tree) if tree is not None else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
            for output in outputs(cell):
                if output.kind != "traceback":
                    yield from (output.text, output.text.strip().strip("'\""))

    def mask_texts(self, mask: Callable[[str], str]) -> None:
        for entry in self.entries:
            for name in entry.texts:
                setattr(entry, name, mask(getattr(entry, name)))
            if isinstance(entry, Cell):
                for output in (entry.output, entry.late_output):
                    if isinstance(output, WholeOutput):
                        output.parts = [part.masked(mask) for part in output.parts]
            elif isinstance(entry, Question):
                entry.attached = [chip._replace(label=mask(chip.label)) for chip in entry.attached]

    def _begin_search(self, record: records.SearchBegin) -> None:
        if record.tree in self._searches:
            return
        key = "" if record.cell is None else cell_entry(record.cell)
        author, query = record.model or "model", to_title(record.text)
        search = Search(author=author, query=query, root=record.node, key=key)
        self._searches[record.tree] = search
        self.append(search)

    def _search_event(self, record: records.SearchFinal | records.Usage) -> None:
        search = self._searches.get(record.tree or "")
        if search is None:
            return
        if isinstance(record, records.Usage):
            search.asked += 1
            search.cost += record.cost or 0.0
        elif record.node == search.root:
            search.text, search.ended = record.text, record.state


LONGEST = 100_000


class NothingToExport(Exception):
    """There is nothing to export; the message is a sentence."""


class Selected(NamedTuple):
    entries: Sequence[Entry]
    session: str
    title: str
    is_private: Callable[[Entry], bool]
    longest: int
    """Characters of an output at most."""

    def sentence(self, file: str) -> str:
        cells = sum(map(has_run, self.entries))
        private = sum(map(self.is_private, self.entries))
        long = sum(map(self._is_long, self.entries))
        text = f"Exported {cells:,} cell{'s' * (cells != 1)} to {one_line(file)}."
        if private:
            text += f" Left out: {private:,} that use{'s' * (private == 1)} a private variable."
        if long:
            text += (
                f" Outputs of {long:,} are shortened: add whole (--whole) to keep them complete."
            )
        return text

    def _is_long(self, entry: Entry) -> bool:
        if isinstance(entry, Cell):
            return any(len(each.text) > self.longest for each in outputs(entry))
        return isinstance(entry, ToolUse | Search) and len(entry.text) > self.longest

    def text(self, entry: ToolUse | Search) -> str:
        return shorten(entry.text, self.longest)

    def outputs(self, cell: Cell) -> list[Output]:
        return [each._replace(text=shorten(each.text, self.longest)) for each in outputs(cell)]


def shorten(text: str, longest: int, advice: str = "") -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    note = f"… {len(text) - longest:,} characters are left out here{advice} …"
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def select(
    conversation: Conversation, session: str, *, shown: bool = False, longest: int = LONGEST
) -> Selected:
    """Choose what to export. shown: without hidden, replaced and undone entries. Raises
    `NothingToExport`."""
    entries: Sequence[Entry] = conversation.entries
    if shown:
        undone = {entry.key for entry in entries if isinstance(entry, Cell) and entry.undone}
        entries = [entry for entry in entries if not entry.removed and entry.key not in undone]
    entries = [
        entry
        for entry in entries
        if not (isinstance(entry, Search) and conversation.private(entry))
    ]
    if all(isinstance(entry, ASIDES) for entry in entries):
        raise NothingToExport("Nothing has been said or run yet.")
    title = plain(conversation.title)
    return Selected(entries, session, title, conversation.private, longest)
