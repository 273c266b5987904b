"""Folds the records of a session into entries. The transcript and exports add to it what only they
need."""

from __future__ import annotations

import ast
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from mahtab_tui.bus import records
from mahtab_tui.bus.answers import AnswerPart, parse_response
from mahtab_tui.bus.output import LOCATION, DisplayedValue, DisplayLine, OutputBuffer
from mahtab_tui.bus.records import AnswerFigure, Change, Frame, Record, code_entry
from mahtab_tui.bus.sanitize import plain, visible
from mahtab_tui.bus.terminal_screen import collapse

MAX_CORRECTED_CHARS = 200_000
"""Characters of an answer up to which its streamed pieces are compared with the whole answer. For a
million, that takes a second."""


@dataclass(kw_only=True, eq=False)
class Entry:
    texts: ClassVar[tuple[str, ...]] = ("text",)
    """Fields that are masked before they are written to a file."""

    version: int = 0
    gap: bool = True
    joined: bool = False
    """Whether it continues the entry above: the bar runs through the gap."""
    hidden: bool = False
    """Whether it was streamed, but is not part of the complete answer."""
    key: str = ""
    """From `Record.entry_name`; empty if the model does not get it."""
    author: str = ""
    turn: int | None = None
    removed: Literal["", "hidden", "replaced"] = ""
    """Why the model no longer gets it."""
    collapsed: bool = False

    @property
    def plain_text(self) -> str:
        raise NotImplementedError


class AttachmentChip(NamedTuple):
    """An attachment of a question, or why it is missing."""

    label: str
    size: str
    problem: str


@dataclass(kw_only=True, eq=False)
class Question(Entry):
    """The user's words."""

    text: str
    attached: list[AttachmentChip] = field(default_factory=list)

    @property
    def plain_text(self) -> str:
        return plain(self.text)


@dataclass(kw_only=True, eq=False)
class Words(Entry):
    """The model's words in Markdown."""

    texts = ("source",)
    source: str = ""
    revision: int = 0
    """Increases when `source` is replaced rather than extended."""
    thought: bool = False
    named: bool = True
    mark: str = ""
    """Either "stopped", or "cut off" if the program was killed."""
    figures: Sequence[AnswerFigure] = ()

    @property
    def plain_text(self) -> str:
        return plain(self.source.strip("\n"))

    @property
    def own_figures(self) -> list[AnswerFigure]:
        return [figure for figure in self.figures if figure.text in self.source]


@dataclass(kw_only=True, eq=False)
class Cell(Entry):
    """Code of the user, the model or an agent: proposed, waiting, running or done."""

    texts = ("code",)
    person: bool
    agent_index: int | None = None
    """None for cells of the user and the model."""
    code: str = ""
    block: int | None = None
    step: int | None = None
    """The step of its question, from 0."""
    number: int | None = None
    """None if it has not run."""
    started: float | None = None
    """In seconds since the epoch; None if it is not running."""
    status: str = ""
    """A `kernel.values.Status` value, or "cut off" if the program was killed."""
    duration: float | None = None
    approval: str = ""
    """One of "waiting", "skipped", "stopped" and "refused"; after a crash, "cut off" and "not
    run"."""
    part: str = ""
    """Its number among the waiting blocks, such as "1/2"."""
    reason: str = ""
    edited: bool = False
    output: OutputBuffer = field(default_factory=OutputBuffer)
    displays: list[DisplayedValue] = field(default_factory=list)
    """Until the cell ends."""
    named_displays: dict[str, int] = field(default_factory=dict)
    """Indexes in `displays` of those that the cell may update, by their names."""
    frames: Sequence[Frame] = ()
    offers_explanation: bool = False
    """Whether to show the key that asks about the error."""
    late_output: OutputBuffer | None = None
    undone: bool = False
    changes: Sequence[Change] = ()
    cell_number: int | None = None
    ran_as: int | None = None

    @property
    def plain_text(self) -> str:
        return visible(self.code.strip("\n"))

    @property
    def has_picture(self) -> bool:
        return any(
            isinstance(line, DisplayLine) and line.mime.startswith("image/") for line in self.output
        )

    @property
    def own_frame(self) -> int:
        """Index of the last shown frame outside libraries; else of the last frame."""
        shown = [
            index
            for index, (*_, row) in enumerate(self.frames)
            if (line := self.output.from_end(row)) and LOCATION.match(line.text)
        ]
        return shown[-1] if shown else len(self.frames) - 1

    @property
    def exception(self) -> str:
        rows = range(self.frames[-1][-1] - 1, 0, -1) if self.frames else range(0)
        texts = [line.text for row in rows[:20] if (line := self.output.from_end(row)) is not None]
        while texts and (not texts[0] or texts[0][0].isspace()):
            del texts[0]
        return "\n".join(texts[:3])

    def feed(self, kind: str, text: str, displays: Iterator[DisplayedValue]) -> None:
        """Add a piece of output. The record of a displayed value arrives before its text."""
        display: DisplayedValue | None = None
        if kind == "display":
            display = next((display for display in displays if display[0] == text), None)
        if display is None:
            self.output.feed(kind, text)
        else:
            self.output.show(*display)

    def clear_output(self) -> None:
        """Remove what was printed and displayed so far."""
        self.output.clear()
        self.displays.clear()
        self.named_displays.clear()

    def add_display(self, display: DisplayedValue, name: str) -> None:
        """Keep a displayed value until its text arrives; name: empty if it is never updated."""
        if name:
            self.named_displays[name] = len(self.displays)
        self.displays.append(display)

    def update_display(self, display: DisplayedValue, name: str) -> None:
        """Replace a displayed value by its name."""
        index = self.named_displays.get(name)
        if index is not None:
            self.output.replace_display(self.displays[index], display)
            self.displays[index] = display

    def feed_late(self, text: str) -> None:
        if self.late_output is None:
            self.late_output = type(self.output)()
        self.late_output.feed("stdout", text)


@dataclass(kw_only=True, eq=False)
class ToolUse(Entry):
    texts = ("name", "arguments", "text")
    name: str
    arguments: str
    state: str = "running"
    text: str = ""

    @property
    def plain_text(self) -> str:
        return plain(f"{self.name} {self.arguments}\n{self.text}".rstrip())


@dataclass(kw_only=True, eq=False)
class Note(Entry):
    """A message from the program itself."""

    level: str
    """``info``, ``warning``, ``error``, or ``quiet`` for a mere marker."""
    text: str

    @property
    def plain_text(self) -> str:
        return plain(self.text)


_NOTES: Mapping[type[Record], Callable[[Any], tuple[str, str]]] = {
    records.Notice: lambda record: (record.level, record.text),
    records.Kernel: lambda record: ("error" if record.state == "dead" else "info", record.text),
    **dict.fromkeys(
        (records.Undo, records.Replace, records.Restore, records.Branch),
        lambda record: ("quiet", record.text),
    ),
    records.Skill: lambda record: (
        "quiet",
        f"the skill {record.name} is "
        + (f"loaded ({record.chars:,} characters)" if record.loaded else "no longer loaded"),
    ),
}

PieceT = TypeVar("PieceT", bound=Words | Cell)

Step = tuple[int | None, int | None]


class Conversation:
    """The entries of a session, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._cells: dict[int, Cell] = {}
        self._last_cell: Cell | None = None
        self._tools: dict[str, ToolUse] = {}
        self._hidden: set[str] = set()
        """More pieces of a hidden answer may still arrive."""
        self._pieces: dict[Step, list[Words | Cell]] = {}
        """Entries of the current question's answers."""
        self._marked: set[int | None] = set()
        self._folds: dict[type[Record], Callable[[Any], None]] = {
            **dict.fromkeys(_NOTES, self._note),
            records.UserReplIn: self._user_code,
            records.AssistantReplIn: self._model_code,
            records.Display: self._display,
            records.UserReplOut: self._output,
            records.AssistantReplOut: self._output,
            records.Namespace: self._namespace,
            records.UserChat: self._question,
            records.UserAttachment: self._attachment,
            records.AssistantChat: self._answer,
            records.AssistantTool: self._tool,
            records.Hide: self._hide,
            records.Replace: self._replace,
            records.Undo: self._undo,
        }

    def fold(self, new_records: Iterable[Record]) -> None:
        for record in new_records:
            if fold := self._folds.get(type(record)):
                fold(record)

    def append(self, entry: Entry) -> None:
        if entry.key in self._hidden:
            entry.removed = "hidden"
        self.entries.append(entry)

    def touch(self, entry: Entry) -> None:
        """Mark an entry as changed."""

    def touch_output(self, cell: Cell) -> None:
        self.touch(cell)

    # Cells

    def _user_code(self, record: records.UserReplIn) -> None:
        cell = Cell(author=record.party or "you", person=True, code=record.text)
        self.append(cell)
        self._start(cell, record)

    def _model_code(self, record: records.AssistantReplIn) -> None:
        if record.guest is not None:
            cell = self._agent_cell(record)
        else:
            cell = self._block(record) or self._begin(
                self._pieces.setdefault(answer_step(record), []),
                Cell(author=answer_author(record), person=False),
            )
            cell.approval = ""
        cell.code = record.text
        self._start(cell, record)
        self.touch(cell)

    def _agent_cell(self, record: records.Approval | records.AssistantReplIn) -> Cell:
        author = record.party or "agent"
        cell = Cell(author=author, person=False, agent_index=record.guest, code=record.text)
        self.append(cell)
        return cell

    def _block(self, record: records.Approval | records.AssistantReplIn) -> Cell | None:
        blocks = code_blocks(self._pieces.get(answer_step(record), ()))
        if record.block is None or not 0 <= record.block < len(blocks):
            return None
        return blocks[record.block] if blocks[record.block].number is None else None

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        cell.number, cell.turn, cell.cell_number = record.cell, record.turn, record.position
        cell.step = record.step
        self._last_cell = cell
        if record.cell is not None:
            cell.key = record.entry_name
            self._cells[record.cell] = cell

    def _display(self, record: records.Display) -> None:
        cell = self._find_cell(record.cell)
        if cell is None:
            return
        display = (record.text, record.mime, record.data, record.value)
        if record.action == "clear":
            cell.clear_output()
        elif record.action == "update":
            cell.update_display(display, record.name)
        else:
            cell.add_display(display, record.name)
            return
        self.touch_output(cell)

    def _output(self, record: records.ReplOut) -> None:
        cell = self._find_cell(record.cell, late=record.late)
        if cell is None:
            if record.late and record.text.strip():
                # Kernel output before the first cell.
                self.append(Note(level="quiet", text=record.text.rstrip()))
            return
        if record.late:
            cell.feed_late(record.text)
        else:
            self._end(cell, record)
        self.touch_output(cell)

    def _end(self, cell: Cell, record: records.ReplOut) -> None:
        # No pieces arrived, some were missed, or parts were overwritten and this is the final
        # output.
        if cell.output.received < len(record.text) or record.rewritten:
            cell.output.clear()
            position, displays = 0, iter(cell.displays)
            for kind, length in record.kinds or (("stdout", len(record.text)),):
                text = record.text[position : position + length]
                if record.cut:  # raw output, because the cell did not end
                    text = collapse(text)
                cell.feed(kind, text, displays)
                position += length
        cell.displays.clear()
        cell.status = "cut off" if record.cut else record.status or ""
        cell.duration = record.duration

    def _find_cell(self, number: int | None, *, late: bool = False) -> Cell | None:
        """Find a cell; for late output without a number, the last one."""
        cell = None if number is None else self._cells.get(number)
        return self._last_cell if cell is None and late else cell

    def _namespace(self, record: records.Namespace) -> None:
        cell = self._find_cell(record.cell)
        if cell is not None and record.changes and not record.restored:
            cell.changes = record.changes
            self.touch_output(cell)

    # Questions and answers

    def _question(self, record: records.UserChat) -> None:
        # Earlier answers are complete, and a resumed session may reuse their numbers.
        self._pieces.clear()
        self._marked.clear()
        key, turn = record.entry_name, record.turn
        self.append(Question(author="you", text=record.text, key=key, turn=turn))

    def _attachment(self, record: records.UserAttachment) -> None:
        questions = (entry for entry in reversed(self.entries) if isinstance(entry, Question))
        question = next(questions, None)
        # The transcript may have been cleared meanwhile.
        if question is not None and question.turn == record.turn:
            question.attached.append(AttachmentChip(record.label, record.size, record.problem))
            self.touch(question)

    def _answer(self, record: records.AssistantChat) -> None:
        pieces = self._pieces.setdefault(answer_step(record), [])
        if not pieces or len(record.text) <= MAX_CORRECTED_CHARS:
            self._correct_pieces(pieces, record)
        for number, cell in enumerate(code_blocks(pieces)):
            if cell.number is None:
                cell.key = code_entry(record.turn, record.step, number)
        if record.figures:
            for piece in pieces:
                if isinstance(piece, Words):
                    piece.figures = record.figures
                    piece.revision += 1
                    self.touch(piece)
        self._mark(record, pieces)

    def _correct_pieces(self, pieces: list[Words | Cell], record: records.AssistantChat) -> None:
        """Make the streamed pieces those of the whole answer."""
        streamed = deque(pieces)
        for is_code, text in _split_code(self._answer_parts(record.text)):
            kind = Cell if is_code else Words
            indexes = (index for index, piece in enumerate(streamed) if isinstance(piece, kind))
            index = next(indexes, None)
            if index is None:
                self._begin_piece(pieces, record, text, code=is_code)
                continue
            # The streamed pieces before the next one of this kind are not in the whole answer.
            for _ in range(index):
                self._drop(streamed.popleft())
            self._correct(streamed.popleft(), text)
        for piece in streamed:
            self._drop(piece)

    def _answer_parts(self, text: str) -> Sequence[AnswerPart]:
        return parse_response(text).parts

    def _begin_piece(
        self,
        pieces: list[Words | Cell],
        record: records.AssistantChat | records.AssistantChatStream,
        text: str,
        *,
        code: bool,
        block: int | None = None,
    ) -> None:
        author, turn = answer_author(record), record.turn
        entry: Words | Cell
        if code:
            entry = Cell(author=author, person=False, code=text, block=block, turn=turn)
        else:
            key = record.entry_name
            entry = Words(author=author, source=text, named=not pieces, key=key, turn=turn)
        self._begin(pieces, entry)

    def _begin(self, pieces: list[Words | Cell], entry: PieceT) -> PieceT:
        entry.joined = bool(pieces)
        pieces.append(entry)
        self.append(entry)
        return entry

    def _correct(self, piece: Words | Cell, text: str) -> None:
        if isinstance(piece, Cell):
            if piece.number is not None or piece.code == text:
                return
            piece.code = text
        elif piece.source.strip("\n") == text.strip("\n"):
            return
        else:
            piece.source = text
            piece.revision += 1
        self.touch(piece)

    def _drop(self, piece: Words | Cell) -> None:
        piece.hidden = True
        self.touch(piece)

    def _mark(self, record: records.AssistantChat, pieces: list[Words | Cell]) -> None:
        mark = "stopped" if record.stopped else "cut off" if record.cut else ""
        if not mark:
            return
        self._marked.add(record.turn)
        shown = [piece for piece in pieces if not piece.hidden]
        if shown:
            last = shown[-1]
        else:
            words = Words(author=answer_author(record), key=record.entry_name, turn=record.turn)
            last = self._begin(pieces, words)
        if isinstance(last, Words):
            last.mark = mark
        else:
            last.approval = mark
        self.touch(last)

    def _tool(self, record: records.AssistantTool) -> None:
        key = record.entry_name
        use = self._tools.get(key)
        if use is None:
            author, turn = answer_author(record), record.turn
            use = ToolUse(name=record.name, arguments=record.arguments, author=author, turn=turn)
            use.key, use.collapsed, use.joined = key, True, True
            self._tools[key] = use
            self.append(use)
        use.state, use.text = record.state, record.text
        self.touch(use)

    # Marks

    def _hide(self, record: records.Hide) -> None:
        key, hidden = record.entry, record.hidden
        (self._hidden.add if hidden else self._hidden.discard)(key)
        for entry in self.entries:
            if entry.key == key and entry.removed != "replaced":
                entry.removed = "hidden" if hidden else ""
                self.touch(entry)

    def _replace(self, record: records.Replace) -> None:
        keys = [entry.key for entry in self.entries]
        first = keys.index(record.entry) if record.entry in keys else 0
        for entry in self.entries[first:]:
            entry.removed = "replaced"
            self.touch(entry)
        self._note(record)

    def _undo(self, record: records.Undo) -> None:
        for number in record.cells:
            if (cell := self._cells.get(number)) is not None:
                cell.undone = record.undone
                self.touch(cell)
        self._note(record)

    def _note(self, record: Record) -> None:
        level, text = _NOTES[type(record)](record)
        if text:
            self.append(Note(level=level, text=text))


AnswerRecord = records.ModelRecord | records.AssistantReplIn | records.Approval


def answer_author(record: AnswerRecord) -> str:
    return record.party or "model"


def answer_step(record: AnswerRecord) -> Step:
    return record.turn, record.step


def _split_code(parts: Sequence[AnswerPart]) -> Iterator[tuple[bool, str]]:
    for is_code, group in groupby(parts, key=lambda part: part.kind == "code"):
        texts = [part.text for part in group]
        if is_code:
            yield from ((True, text) for text in texts)
        elif words := "\n\n".join(text for text in texts if text.strip()):
            yield False, words


def code_blocks(pieces: Sequence[Words | Cell]) -> list[Cell]:
    return [piece for piece in pieces if isinstance(piece, Cell) and not piece.hidden]


def parse_plain_python(code: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about escapes go to stderr
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree: ast.AST = compile(code, "<cell>", "exec", flags, dont_inherit=True)
            return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
