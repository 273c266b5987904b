"""The entries of a transcript: questions, answers, cells, calls of tools and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.output_lines import LOCATION, DisplayedValue, DisplayLine
from mahtab_tui.bus.records import PICTURE_MIMES, AnswerFigure, ReplOut
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.stale_inputs import StaleInput, describe_stale
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.bus.values import Change, FileChange, TracebackFrame

MAX_EXCEPTION_ROWS = 20
"""Rows after the last frame in which an exception's message is looked for."""
MAX_EXCEPTION_LINES = 3
NOT_RUN = frozenset({"skipped", "stopped", "refused", "not run"})
"""Values of a cell's `approval` if its code will not run."""

Removal = Literal["", "hidden", "replaced"]
"""Why the model does not get an entry; empty if it does."""


@dataclass(kw_only=True, eq=False)
class Entry:
    """One item of the transcript."""

    texts: ClassVar[tuple[str, ...]] = ("text",)
    """Fields that are masked before they are written to a file."""

    version: int = 0
    """Increases with each change, after which it must be drawn again."""
    gap: bool = True
    """Whether there is a blank row above it."""
    joined: bool = False
    """Whether it continues the entry above: the bar runs through the gap."""
    hidden: bool = False
    """Whether it was streamed, but is not part of the complete answer."""
    key: str = ""
    """The `Record.entry_name`; empty if the model does not get the entry."""
    author: str = ""
    """The name above it, such as "you"."""
    turn: int | None = None
    """The number of its question; None if it belongs to none."""
    removed: Removal = ""
    """Why the model no longer gets it."""
    collapsed: bool = False
    """Whether only its first rows are drawn."""

    @property
    def plain_text(self) -> str:
        """The entry as text for the clipboard and searches."""
        raise NotImplementedError


class AttachmentChip(NamedTuple):
    """An attachment of a question, or why it is missing."""

    label: str
    """What the user wrote for it, such as "@notes.txt"."""
    size: str
    """Its size in words, such as "20 lines"."""
    problem: str
    """Why it is missing; empty if it is not."""


@dataclass(kw_only=True, eq=False)
class Question(Entry):
    """The user's words."""

    text: str
    attachments: list[AttachmentChip] = field(default_factory=list)
    plan: Sequence[PlanStep] = ()
    """The steps that the model is asked to carry out."""

    @property
    def plain_text(self) -> str:
        return plain(self.text)


@dataclass(kw_only=True, eq=False)
class AnswerText(Entry):
    """The model's words in Markdown."""

    texts = ("source",)
    source: str = ""
    revision: int = 0
    """Increases when `source` is replaced rather than extended."""
    is_thought: bool = False
    """Whether it was thought before the answer."""
    shows_author: bool = True
    """Whether the author's name stands above it."""
    mark: str = ""
    """Either "stopped", or "cut off" if the program was killed."""
    figures: Sequence[AnswerFigure] = ()
    doubtful_cells: Sequence[Cell] = ()
    """The cells whose output it was written from, and whose output no longer holds."""

    @property
    def plain_text(self) -> str:
        return plain(self.source.strip("\n"))

    def correct(self, source: str) -> bool:
        """Replace what was streamed by the text of the whole answer. Return whether it differs."""
        if self.source.strip("\n") == source.strip("\n"):
            return False
        self.source = source
        self.revision += 1
        return True

    @property
    def own_figures(self) -> list[AnswerFigure]:
        """The figures of the answer that stand in these words."""
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
    """The code block of an answer that it was streamed as, from 0; None if it was not."""
    step: int | None = None
    """The step of its question, from 0; None if the steps of a plan count instead."""
    plan_part: str = ""
    """The step of a plan that it carries out, such as "2 of 5"."""
    number: int | None = None
    """The cell's number, such as 3 for ``In [3]``; None if it has not run."""
    started: float | None = None
    """In seconds since the epoch; None if it is not running."""
    status: str = ""
    """A `bus.values.Status` value, or "cut off" if the program was killed."""
    duration: float | None = None
    """In seconds; None until it has ended."""
    approval: str = ""
    """One of "waiting", "skipped", "stopped" and "refused"; after a crash, "cut off" and "not
    run"."""
    block_position: str = ""
    """Its number among the blocks that wait, such as "1/2"."""
    reason: str = ""
    """Why the user skipped or stopped it; empty if the user gave no reason."""
    edited: bool = False
    """Whether the user has edited the code before it ran."""
    output: OutputBuffer = field(default_factory=OutputBuffer)
    displays: list[DisplayedValue] = field(default_factory=list)
    """The displayed values, until the cell ends."""
    named_displays: dict[str, int] = field(default_factory=dict)
    """Indexes in `displays` of those that the cell may update, by their names."""
    frames: Sequence[TracebackFrame] = ()
    """The frames of the traceback in the output, the innermost last."""
    offers_explanation: bool = False
    """Whether to show the key that asks about the error."""
    late_output: OutputBuffer | None = None
    """What threads printed after the cell had ended; None if nothing."""
    undone: bool = False
    changes: Sequence[Change] = ()
    """What it has changed in the namespace."""
    files: Sequence[FileChange] = ()
    """What it has done to files."""
    stale_inputs: Sequence[StaleInput] = ()
    """Variables that it has used and that are different now: its output may not hold."""
    rerun_number: int | None = None
    """If it is stale: the next cell that has run the same code and was not undone."""
    cell_number: int | None = None
    """The position in the notebook of a cell that comes from one."""
    ran_as: int | None = None
    """The number with which a cell of a notebook has run last."""

    @property
    def plain_text(self) -> str:
        return visible(self.code.strip("\n"))

    @property
    def pictures(self) -> list[DisplayLine]:
        """The pictures among the output."""
        displays = (line for line in self.output if isinstance(line, DisplayLine))
        return [display for display in displays if display.mime in PICTURE_MIMES]

    @property
    def ran_for_question(self) -> bool:
        """Whether it is code of the model, not of an agent or the user, and has run."""
        return self.number is not None and not self.person and self.agent_index is None

    @property
    def has_table(self) -> bool:
        """Whether it shows a table or another value of several lines, or printed one."""
        return any(isinstance(line, DisplayLine) for line in self.output) or len(self.output) > 1

    @property
    def own_frame(self) -> int:
        """Index of the last frame in the output outside libraries; else of the last frame."""
        last_index = len(self.frames) - 1
        for index in range(last_index, -1, -1):
            line = self.output.from_end(self.frames[index].row)
            if line and LOCATION.match(line.text):
                return index
        return last_index

    @property
    def exception(self) -> str:
        """The first lines of the exception's message, which follow the last frame."""
        if not self.frames:
            return ""
        # Rows count from the end of the output.
        first_row = self.frames[-1].row - 1
        lines = [
            line.text
            for row in range(first_row, max(0, first_row - MAX_EXCEPTION_ROWS), -1)
            if (line := self.output.from_end(row)) is not None
        ]
        # The source of the frame is indented.
        while lines and (not lines[0] or lines[0][0].isspace()):
            del lines[0]
        return "\n".join(lines[:MAX_EXCEPTION_LINES])

    def correct(self, code: str) -> bool:
        """Replace what was streamed by the code of the whole answer. Return whether it differs."""
        # Code that ran stays as it ran.
        if self.number is not None or self.code == code:
            return False
        self.code = code
        return True

    def end(self, record: ReplOut) -> None:
        """Take over how the cell has ended, and the output if the pieces so far are not all."""
        is_incomplete = self.output.received < len(record.text)
        if is_incomplete or record.rewritten:
            self._replace_output(record)
        self.displays.clear()
        self.status = "cut off" if record.cut else record.status or ""
        self.duration = record.duration

    def _replace_output(self, record: ReplOut) -> None:
        self.output.clear()
        displays = iter(self.displays)
        position = 0
        for kind, length in record.kinds or (("stdout", len(record.text)),):
            text = record.text[position : position + length]
            if record.cut:  # raw output, because the cell did not end
                text = collapse(text)
            self.feed(kind, text, displays)
            position += length

    def feed(self, kind: str, text: str, displays: Iterator[DisplayedValue]) -> None:
        """Add a piece of output.

        Args:
            kind: See `records.ReplOutStream`.
            text: The piece; of a displayed value, its text.
            displays: The displayed values whose texts may follow; their records arrive first.
        """
        display: DisplayedValue | None = None
        if kind == "display":
            display = next((display for display in displays if display.text == text), None)
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
        """Add what was printed after the cell had ended."""
        if self.late_output is None:
            self.late_output = type(self.output)()
        self.late_output.feed("stdout", text)


PlanState = Literal["to do", "runs", "done", "failed", "skipped", "undone", "answered"]


@dataclass(eq=False)
class PlanStep:
    """A step of a plan. Its state is that of the code that ran for it, not what the model says."""

    text: str
    cells: list[Cell] = field(default_factory=list)
    """The code of the last answer that carries it out."""
    is_answered: bool = False
    """Whether an answer without code begins with its name."""

    @property
    def state(self) -> PlanState:
        """How far it is."""
        if not self.cells:
            if self.is_answered:
                return "answered"
            return "to do"
        if any(cell.undone for cell in self.cells):
            return "undone"
        statuses = [cell.status for cell in self.cells]
        if any(status not in ("", "ok") for status in statuses):
            return "failed"
        if any(cell.approval in NOT_RUN for cell in self.cells):
            return "skipped"
        if all(statuses):
            return "done"
        has_started = any(cell.number is not None for cell in self.cells)
        return "runs" if has_started else "to do"


@dataclass(kw_only=True, eq=False)
class ToolUse(Entry):
    """A call of a tool by the model, with its result."""

    texts = ("name", "arguments", "text")
    name: str
    arguments: str
    state: str = "running"
    """See `records.AssistantTool`; "cut off" if the program was killed."""
    text: str = ""
    """The result, or why there is none."""

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


def describe_staleness(cell: Cell) -> str:
    """Say why a cell's results no longer hold: ``stale: uses `df` from In 4, changed by In 9``.

    Empty if they hold, or there are none.
    """
    has_result = cell.output.received > 0 or len(cell.changes) > 0
    if not cell.stale_inputs or cell.undone or not has_result:
        return ""
    text = f"stale: {one_line(describe_stale(cell.stale_inputs))}"
    return text if cell.rerun_number is None else f"{text}; run again as In {cell.rerun_number}"


def describe_doubt(cells: Iterable[Cell]) -> str:
    """Say that an answer rests on cells whose output no longer holds: ``rests on In 3 (stale)``."""
    names = [f"In {cell.number} ({'undone' if cell.undone else 'stale'})" for cell in cells]
    return f"rests on {', '.join(names)}"
