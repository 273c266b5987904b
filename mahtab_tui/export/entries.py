"""Folds the records of a session to what an export shows, in order: words and cells, and what
stands beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.hidden_entries import HiddenEntries, answer_entry, cell_entry, question_entry
from mahtab_tui.bus.parser import parse_response
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.slicing import parsed
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.export.annotations import Annotation, Asides

_TEXTS = ("text/markdown", "text/html")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*+")

Author = Literal["user", "model", "agent"]


class Output(NamedTuple):
    """A stretch of a cell's output."""

    kind: str
    """As in `records.ReplOutStream`."""
    text: str
    mime: str = ""
    """Type of `data`; empty if the output is text only."""
    data: str = ""
    """Base64 for pictures."""


@dataclass(eq=False)
class Words:
    """A question, a stretch of an answer, or code of an answer that did not run."""

    kind: Literal["question", "answer", "code"]
    text: str
    party: str
    turn: int | None
    entry: str
    """Its name in `bus.left_out`."""
    attached: list[str] = field(default_factory=list)
    """Labels of a question's attachments."""


@dataclass(eq=False)
class Cell:
    """Code that ran, and its output."""

    number: int
    code: str
    by: Author
    party: str
    turn: int | None
    outputs: list[Output] = field(default_factory=list)
    status: str = ""
    """A `kernel.values.Status` value; "cut off" if the program was killed; empty if its end is not
    known."""
    duration: float | None = None
    undone: bool = False
    place: int | None = None
    """The cell of the opened notebook that it ran."""

    @property
    def entry(self) -> str:
        return cell_entry(self.number)


Entry = Words | Cell | Annotation


class Conversation:
    """The entries of a session."""

    def __init__(self, past: Iterable[Record] = (), *, asides: bool = False) -> None:
        """asides: with tool calls, searches and warnings."""
        self.entries: list[Entry] = []
        self.left_out = HiddenEntries()
        self.costs: dict[int, float] = {}
        """US dollars by question, as far as prices are known."""
        self._cells: dict[int, Cell] = {}
        self._displays: dict[int, list[Output]] = {}
        self._blocks: dict[tuple[int | None, int | None, int], Words] = {}
        """Code of answers that has not run yet."""
        self._asides = Asides(self.entries.append) if asides else None
        self._folds: dict[type[Record], Callable[[Any], None]] = {
            records.UserChat: self._question,
            records.UserAttachment: self._attachment,
            records.AssistantChat: self._answer,
            records.UserReplIn: self._code,
            records.AssistantReplIn: self._code,
            records.Display: self._display,
            records.UserReplOut: self._output,
            records.AssistantReplOut: self._output,
            records.Undo: self._undo,
            records.Usage: self._usage,
        }
        for record in past:
            self.fold(record)

    def fold(self, record: Record) -> None:
        self.left_out.fold(record)
        if fold := self._folds.get(type(record)):
            fold(record)
        if self._asides is not None:
            self._asides.fold(record)

    @property
    def title(self) -> str:
        """The beginning of the first question, or of the first cell."""
        questions = (
            entry.text
            for entry in self.entries
            if isinstance(entry, Words) and entry.kind == "question"
        )
        codes = (entry.code for entry in self.entries if isinstance(entry, Cell))
        first = next(questions, None) or next(codes, "")
        return next((line.strip()[:100] for line in first.splitlines() if line.strip()), "")

    def hidden(self, entry: Entry) -> bool:
        """Return whether the user has hidden or replaced an entry."""
        return entry.entry in self.left_out

    def private(self, entry: Entry) -> bool:
        """Return whether an entry is a cell that uses a private variable, or a search that such a
        cell made."""
        return isinstance(entry, Cell | Annotation) and self.left_out.held_back(entry.entry)

    def private_texts(self) -> Iterator[str]:
        """Return what is known of private variables without the kernel: the strings and the outputs
        of the cells that use them."""
        for cell in (
            entry for entry in self.entries if isinstance(entry, Cell) and self.private(entry)
        ):
            tree = parsed(cell.code)
            for node in ast.walk(tree) if tree is not None else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
            for output in cell.outputs:
                if output.kind != "traceback":
                    yield from (output.text, output.text.strip().strip("'\""))

    def cover(self, told: Callable[[str], str]) -> None:
        """Replace each text by what `told` returns for it."""
        for entry in self.entries:
            if isinstance(entry, Annotation):
                entry.cover(told)
                continue
            if isinstance(entry, Words):
                entry.text = told(entry.text)
                entry.attached[:] = map(told, entry.attached)
                continue
            entry.code = told(entry.code)
            entry.outputs = [
                output._replace(
                    text=told(output.text),
                    data=output.data if output.mime.startswith("image/") else told(output.data),
                )
                for output in entry.outputs
            ]

    def _question(self, record: records.UserChat) -> None:
        self.entries.append(
            Words("question", record.text, "you", record.turn, question_entry(record.turn))
        )

    def _attachment(self, record: records.UserAttachment) -> None:
        for entry in reversed(self.entries):
            if isinstance(entry, Words) and entry.kind == "question":
                if entry.turn == record.turn and not record.problem:
                    entry.attached.append(record.label)
                return

    def _answer(self, record: records.AssistantChat) -> None:
        name, block = answer_entry(record.turn, record.step), 0
        for part in parse_response(record.text, ended=not (record.stopped or record.cut)).parts:
            if part.kind == "thought":
                continue
            words = Words(
                "code" if part.kind == "code" else "answer",
                part.text,
                record.party or "model",
                record.turn,
                name,
            )
            if part.kind == "code":
                self._blocks[record.turn, record.step, block] = words
                block += 1
            self.entries.append(words)

    def _code(self, record: records.ReplIn) -> None:
        if record.cell is None:
            return
        model = isinstance(record, records.AssistantReplIn)
        by: Author = "agent" if record.guest is not None else "model" if model else "user"
        cell = Cell(
            record.cell, record.text, by, record.party or "you", record.turn, place=record.place
        )
        self._cells[record.cell] = cell
        block = (
            self._blocks.pop((record.turn, record.step, record.block), None)
            if record.block is not None
            else None
        )
        if block is None:
            self.entries.append(cell)
        else:
            self.entries[self.entries.index(block)] = cell

    def _display(self, record: records.Display) -> None:
        if record.cell is not None:
            known = record.mime in _TEXTS or (
                record.mime in tags.PICTURES and BASE64.fullmatch(record.data)
            )
            mime, data = (record.mime, record.data) if known else ("", "")
            self._displays.setdefault(record.cell, []).append(
                Output("display", record.text, mime, data)
            )

    def _output(self, record: records.ReplOut) -> None:
        cell = self._cells.get(record.cell or 0)
        if cell is None:
            return
        if record.late:
            cell.outputs.append(Output("stdout", record.text))
            return
        cell.outputs = list(_stretches(record, iter(self._displays.pop(cell.number, ()))))
        cell.status = "cut off" if record.cut else record.status or ""
        cell.duration = record.duration

    def _undo(self, record: records.Undo) -> None:
        for number in record.cells:
            if (cell := self._cells.get(number)) is not None:
                cell.undone = record.undone

    def _usage(self, record: records.Usage) -> None:
        if record.turn is not None and record.tree is None and record.cost is not None:
            self.costs[record.turn] = self.costs.get(record.turn, 0.0) + record.cost


def _stretches(record: records.ReplOut, displays: Iterator[Output]) -> Iterator[Output]:
    """Cut a cell's output by its kinds. A displayed value's record has come before its text."""
    position = 0
    for kind, length in record.kinds or (("stdout", len(record.text)),):
        text = record.text[position : position + length]
        position += length
        if record.cut:  # raw output, since the cell did not end
            text = collapse(text)
        shown = (
            next((display for display in displays if display.text == text), None)
            if kind == "display"
            else None
        )
        if shown is not None:
            yield shown
        elif text:
            yield Output(kind, text)
