"""Folds the records of a session into the entries of an export."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.prompt import (
    HiddenEntries,
    answer_entry,
    cell_entry,
    question_entry,
    tool_entry,
)
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.slicing import parse_plain_python
from mahtab_tui.bus.terminal_screen import collapse

_TITLE = 300
"""Maximum characters of an annotation's title."""


class Part(NamedTuple):
    """A text of an annotation."""

    kind: Literal["line", "text", "code", "output"]
    """A line is the title of the call whose texts follow."""
    text: str


_KINDS: dict[type[Record], Literal["text", "code", "output"]] = {
    records.SearchReplIn: "code",
    records.SearchReplOut: "output",
    records.SearchFinal: "text",
}
"""How the records of a search are shown."""


@dataclass(eq=False)
class Annotation:
    """A tool call with its result, a search with all its calls, or a warning, which has no
    parts."""

    kind: Literal["tool", "search", "notice"]
    title: str
    """On one line."""
    party: str
    turn: int | None
    entry: str
    """Its name in `bus.prompt.HiddenEntries`; for a search, that of the cell that made it. Empty if
    there is none."""
    calls: list[list[Part]] = field(default_factory=list)
    """The texts of each call, in the order in which the calls began."""

    def mask_texts(self, mask: Callable[[str], str]) -> None:
        """Replace each text by the result of `mask`."""
        self.title = mask(self.title)
        for call in self.calls:
            call[:] = [part._replace(text=mask(part.text)) for part in call]


class AnnotationFolder:
    """Makes annotations from records, in the order in which they begin, and updates them from later
    records."""

    def __init__(self, add: Callable[[Annotation], None]) -> None:
        self._add = add
        self._tools: dict[str, Annotation] = {}
        self._searches: dict[str, _SearchFolder] = {}
        self._folds: dict[type[Record], Callable[[Any], None]] = {
            records.AssistantTool: self._tool,
            records.Notice: self._warning,
            records.Kernel: self._warning,
            records.SearchBegin: self._begin,
            records.SearchReplIn: self._search_event,
            records.SearchReplOut: self._search_event,
            records.SearchFinal: self._search_event,
            records.Usage: self._search_event,
        }

    def fold(self, record: Record) -> None:
        if fold := self._folds.get(type(record)):
            fold(record)

    def _tool(self, record: records.AssistantTool) -> None:
        annotation = self._tools.get(record.call or "")
        if annotation is None:
            annotation = Annotation(
                "tool", "", record.party or "model", record.turn, tool_entry(record.call)
            )
            self._tools[record.call or ""] = annotation
            self._add(annotation)
        ended = "" if record.state in ("ok", "running") else f" · {record.state}"
        annotation.title = _line(f"{record.name} {record.arguments}") + ended
        annotation.calls = [[Part("output", record.text)]] if record.text else []

    def _warning(self, record: records.Notice | records.Kernel) -> None:
        if (
            record.level != "info"
            if isinstance(record, records.Notice)
            else record.state == "dead" and record.text
        ):
            self._add(Annotation("notice", _line(record.text), "", None, ""))

    def _begin(self, record: records.SearchBegin) -> None:
        search = self._searches.get(record.tree)
        if search is None:
            search = self._searches[record.tree] = _SearchFolder(record)
            self._add(search.annotation)
        search.begin(record)

    def _search_event(self, record: records.SearchRecord | records.Usage) -> None:
        if (search := self._searches.get(record.tree or "")) is not None:
            search.fold(record)


class _SearchFolder:
    """A search: its calls in the order in which they began, each with all its texts."""

    def __init__(self, begin: records.SearchBegin) -> None:
        entry = "" if begin.cell is None else cell_entry(begin.cell)
        self.annotation = Annotation("search", "", begin.model or "model", None, entry)
        self._query = _line(begin.text)
        self._calls: dict[str, list[Part]] = {}
        """The texts of each call, by its node."""
        self._asked = 0
        """Number of model calls."""
        self._cost = 0.0
        self._ended = ""

    def begin(self, record: records.SearchBegin) -> None:
        if record.node in self._calls:
            return
        part = f" · part {record.index + 1:,} of {record.of:,}" if record.of > 1 else ""
        self._calls[record.node] = [
            Part("line", _line(f"{record.node} · {record.model}{part} · {record.text}"))
        ]
        self.annotation.calls.append(self._calls[record.node])
        self._update()

    def fold(self, record: records.SearchRecord | records.Usage) -> None:
        if isinstance(record, records.Usage):
            self._asked += 1
            self._cost += record.cost or 0.0
        elif (parts := self._calls.get(record.node)) is not None:
            kind = _KINDS.get(type(record))
            if kind is not None and (record.text or kind == "code"):
                parts.append(Part(kind, record.text))
            if isinstance(record, records.SearchFinal) and record.node == next(iter(self._calls)):
                self._ended = record.state
        self._update()

    def _update(self) -> None:
        cost = f" · ${self._cost:.4f}" if self._cost else ""
        ended = "" if self._ended in ("done", "") else f" · {self._ended}"
        self.annotation.title = (
            f"Search: {self._query} · {self._asked:,} call{'s' * (self._asked != 1)}{cost}{ended}"
        )


def _line(text: str) -> str:
    line = one_line(text).strip()
    return line if len(line) <= _TITLE else f"{line[:_TITLE]}…"


_TEXTS = ("text/markdown", "text/html")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*+")

Author = Literal["user", "model", "agent"]


class Output(NamedTuple):
    """A part of a cell's output."""

    kind: str
    """See `records.ReplOutStream`."""
    text: str
    mime: str = ""
    """Type of `data`; empty if the output is only text."""
    data: str = ""
    """Base64 for pictures."""


@dataclass(eq=False)
class TextEntry:
    """A question, a part of an answer, or code of an answer that did not run."""

    kind: Literal["question", "answer", "code"]
    text: str
    party: str
    turn: int | None
    entry: str
    """Its name in `bus.prompt.HiddenEntries`."""
    attached: list[str] = field(default_factory=list)
    """Labels of the question's attachments."""


@dataclass(eq=False)
class Cell:
    """Code that ran, and its output."""

    number: int
    code: str
    author: Author
    party: str
    turn: int | None
    outputs: list[Output] = field(default_factory=list)
    status: str = ""
    """A `kernel.values.Status` value; "cut off" if the program was killed; empty if unknown."""
    duration: float | None = None
    undone: bool = False
    cell_number: int | None = None
    """The number of the notebook's cell that it ran."""

    @property
    def entry(self) -> str:
        return cell_entry(self.number)


Entry = TextEntry | Cell | Annotation


class Conversation:
    """The entries of a session."""

    def __init__(self, past: Iterable[Record] = (), *, asides: bool = False) -> None:
        """asides: include tool calls, searches and warnings."""
        self.entries: list[Entry] = []
        self.hidden_entries = HiddenEntries()
        self.costs: dict[int, float] = {}
        """US dollars by question, as far as prices are known."""
        self._cells: dict[int, Cell] = {}
        self._displays: dict[int, list[Output]] = {}
        self._blocks: dict[tuple[int | None, int | None, int], TextEntry] = {}
        """Code blocks of answers that have not run yet."""
        self._annotations = AnnotationFolder(self.entries.append) if asides else None
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
        self.hidden_entries.fold(record)
        if fold := self._folds.get(type(record)):
            fold(record)
        if self._annotations is not None:
            self._annotations.fold(record)

    @property
    def title(self) -> str:
        """The start of the first question, or of the first cell."""
        questions = (
            entry.text
            for entry in self.entries
            if isinstance(entry, TextEntry) and entry.kind == "question"
        )
        codes = (entry.code for entry in self.entries if isinstance(entry, Cell))
        first = next(questions, None) or next(codes, "")
        return next((line.strip()[:100] for line in first.splitlines() if line.strip()), "")

    def hidden(self, entry: Entry) -> bool:
        """Return whether the user hid or replaced an entry."""
        return entry.entry in self.hidden_entries

    def private(self, entry: Entry) -> bool:
        """Return whether an entry is a cell that uses a private variable, or a search made by such
        a cell."""
        return isinstance(entry, Cell | Annotation) and self.hidden_entries.is_private(entry.entry)

    def private_texts(self) -> Iterator[str]:
        """Return the texts of private variables that are known without the kernel: strings in the
        code, and outputs, of the cells that use them."""
        for cell in (
            entry for entry in self.entries if isinstance(entry, Cell) and self.private(entry)
        ):
            tree = parse_plain_python(cell.code)
            for node in ast.walk(tree) if tree is not None else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
            for output in cell.outputs:
                if output.kind != "traceback":
                    yield from (output.text, output.text.strip().strip("'\""))

    def mask_texts(self, mask: Callable[[str], str]) -> None:
        """Replace each text by the result of `mask`."""
        for entry in self.entries:
            if isinstance(entry, Annotation):
                entry.mask_texts(mask)
                continue
            if isinstance(entry, TextEntry):
                entry.text = mask(entry.text)
                entry.attached[:] = map(mask, entry.attached)
                continue
            entry.code = mask(entry.code)
            entry.outputs = [
                output._replace(
                    text=mask(output.text),
                    data=output.data if output.mime.startswith("image/") else mask(output.data),
                )
                for output in entry.outputs
            ]

    def _question(self, record: records.UserChat) -> None:
        self.entries.append(
            TextEntry("question", record.text, "you", record.turn, question_entry(record.turn))
        )

    def _attachment(self, record: records.UserAttachment) -> None:
        for entry in reversed(self.entries):
            if isinstance(entry, TextEntry) and entry.kind == "question":
                if entry.turn == record.turn and not record.problem:
                    entry.attached.append(record.label)
                return

    def _answer(self, record: records.AssistantChat) -> None:
        name, block = answer_entry(record.turn, record.step), 0
        for part in parse_response(record.text, ended=not (record.stopped or record.cut)).parts:
            if part.kind == "thought":
                continue
            words = TextEntry(
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
            record.cell,
            record.text,
            by,
            record.party or "you",
            record.turn,
            cell_number=record.place,
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
        cell.outputs = list(_split_output(record, iter(self._displays.pop(cell.number, ()))))
        cell.status = "cut off" if record.cut else record.status or ""
        cell.duration = record.duration

    def _undo(self, record: records.Undo) -> None:
        for number in record.cells:
            if (cell := self._cells.get(number)) is not None:
                cell.undone = record.undone

    def _usage(self, record: records.Usage) -> None:
        if record.turn is not None and record.tree is None and record.cost is not None:
            self.costs[record.turn] = self.costs.get(record.turn, 0.0) + record.cost


def _split_output(record: records.ReplOut, displays: Iterator[Output]) -> Iterator[Output]:
    """Split a cell's output by kind. The record of a displayed value comes before its text."""
    position = 0
    for kind, length in record.kinds or (("stdout", len(record.text)),):
        text = record.text[position : position + length]
        position += length
        if record.cut:  # raw output, because the cell did not end
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


LONGEST = 100_000
"""Maximum characters of a cell's output to export, unless everything is wanted."""


class NothingToExport(Exception):
    """There is nothing to export; the message is a sentence."""


class Selected(NamedTuple):
    """The entries to export, and related information."""

    entries: Sequence[Entry]
    session: str
    """The session's id."""
    title: str
    costs: Mapping[int, float]
    """US dollars by question."""
    is_hidden: Callable[[Entry], bool]
    is_private: Callable[[Entry], bool]
    longest: int | None
    """Maximum characters of a cell's output; None for no limit."""

    def sentence(self, file: str) -> str:
        cells = sum(isinstance(entry, Cell) for entry in self.entries)
        private = sum(map(self.is_private, self.entries))
        long = sum(map(self._is_long, self.entries))
        parts = [f"Exported {cells:,} cell{'s' * (cells != 1)} to {one_line(file)}."]
        if private:
            parts.append(
                f"Left out: {private:,} that use{'s' * (private == 1)} a private variable."
            )
        if long:
            parts.append(
                f"Outputs of {long:,} are shortened: add whole (--whole) to keep them complete."
            )
        return " ".join(parts)

    def _is_long(self, entry: Entry) -> bool:
        if self.longest is None:
            return False
        if isinstance(entry, Cell):
            return sum(len(output.text) for output in entry.outputs) > self.longest
        return isinstance(entry, Annotation) and sum(map(_size, entry.calls)) > self.longest

    def parts(self, annotation: Annotation) -> Iterator[Part]:
        """Return the texts of a tool call or a search; for a long one, the first texts and how much
        is left out."""
        room = self.longest
        for index, call in enumerate(annotation.calls):
            if room is not None and (room := room - _size(call)) < 0:
                if annotation.kind == "search" and index:
                    yield Part(
                        "line",
                        f"… {len(annotation.calls) - index:,} more calls are left out here …",
                    )
                    return
                call = [part._replace(text=_head(part.text, self.longest or 0)) for part in call]
            yield from call

    def outputs(self, cell: Cell) -> list[Output]:
        """Return a cell's output; for a long one, its start and end, and between them how much is
        left out."""
        if self.longest is None or not self._is_long(cell):
            return cell.outputs
        head, tail, rest = list[Output](), list[Output](), list(cell.outputs)
        _move_outputs(rest, head, self.longest // 2, last=False)
        _move_outputs(rest, tail, self.longest - self.longest // 2, last=True)
        left = sum(len(output.text) for output in rest)
        return [
            *head,
            Output("stdout", f"\n… {left:,} characters of the output are left out here …\n"),
            *reversed(tail),
        ]


def select(
    conversation: Conversation, session: str, *, shown: bool = False, longest: int | None = LONGEST
) -> Selected:
    """Choose what to export. shown: leave out what was hidden, replaced or undone. longest: maximum
    characters of a cell's output; None for no limit.

    Raises `NothingToExport`.
    """
    entries: Sequence[Entry] = conversation.entries
    if shown:
        undone = {entry.entry for entry in entries if isinstance(entry, Cell) and entry.undone}
        entries = [
            entry
            for entry in entries
            if not conversation.hidden(entry) and entry.entry not in undone
        ]
    entries = [
        entry
        for entry in entries
        if not (isinstance(entry, Annotation) and conversation.private(entry))
    ]
    if all(isinstance(entry, Annotation) for entry in entries):
        raise NothingToExport("Nothing has been said or run yet.")
    title = plain(conversation.title)
    return Selected(
        entries,
        session,
        title,
        conversation.costs,
        conversation.hidden,
        conversation.private,
        longest,
    )


def _size(call: Sequence[Part]) -> int:
    return sum(len(part.text) for part in call)


def _head(text: str, limit: int) -> str:
    return (
        text
        if len(text) <= limit
        else f"{text[:limit]}\n… {len(text) - limit:,} characters are left out here …"
    )


def _move_outputs(rest: list[Output], chosen: list[Output], room: int, *, last: bool) -> None:
    """Move outputs from one end, up to a number of characters; the rest of a truncated text
    stays."""
    while rest and room > 0:
        output = rest.pop(-1 if last else 0)
        if len(output.text) > room and output.mime:  # a display is moved whole, or left out
            rest.insert(len(rest) if last else 0, output)
            return
        piece = output.text[-room:] if last else output.text[:room]
        chosen.append(output._replace(text=piece))
        if len(piece) < len(output.text):
            rest.insert(
                len(rest) if last else 0,
                output._replace(
                    text=output.text[: -len(piece)] if last else output.text[len(piece) :]
                ),
            )
        room -= len(piece)
