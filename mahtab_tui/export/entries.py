"""Folds the records of a session into the entries of an export."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from mahtab_tui.bus.output import DisplayedValue, OutputBuffer
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line, plain

LONGEST = 1_000_000
"""Maximum characters of one output."""
_TITLE = 300


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

    def replace_display(self, old: DisplayedValue, new: DisplayedValue) -> None:
        """Do nothing: only cells that have ended are exported."""


def outputs(cell: Cell) -> list[Output]:
    buffers = (cell.output, cell.late_output)
    parts = (part for each in buffers if isinstance(each, WholeOutput) for part in each.parts)
    return [part._replace(text=shorten(part.text)) for part in parts]


ANNOTATIONS = ToolUse | Note


def has_run(entry: Entry) -> TypeGuard[Cell]:
    return isinstance(entry, Cell) and entry.number is not None


class Conversation(conversation.Conversation):
    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self.hidden_entries = HiddenEntries()
        self.fold(past)

    def fold(self, new_records: Iterable[Record]) -> None:
        for record in new_records:
            self.hidden_entries.fold(record)
            if not isinstance(record, records.ReplIn) or record.cell is not None:
                super().fold((record,))

    def append(self, entry: Entry) -> None:
        if isinstance(entry, Cell):
            entry.output = WholeOutput()
        if not isinstance(entry, Note) or entry.level in ("warning", "error"):
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
        """Return whether a cell uses a private variable."""
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


class NothingToExport(Exception):
    """There is nothing to export; the message is a sentence."""


class Selected(NamedTuple):
    entries: Sequence[Entry]
    title: str
    is_private: Callable[[Entry], bool]

    def sentence(self, file: str) -> str:
        cells = sum(map(has_run, self.entries))
        private = sum(map(self.is_private, self.entries))
        text = f"Exported {cells:,} cell{'s' * (cells != 1)} to {one_line(file)}."
        if private:
            text += f" Left out: {private:,} that use{'s' * (private == 1)} a private variable."
        return text


def shorten(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    note = f"… {len(text) - LONGEST:,} characters are left out here …"
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def select(conversation: Conversation) -> Selected:
    """Choose what to export: all but hidden, replaced and undone entries. Raises
    `NothingToExport`."""
    entries = [
        entry
        for entry in conversation.entries
        if not (entry.removed or (isinstance(entry, Cell) and entry.undone))
    ]
    if all(isinstance(entry, ANNOTATIONS) for entry in entries):
        raise NothingToExport("Nothing has been said or run yet.")
    return Selected(entries, plain(conversation.title), conversation.private)
