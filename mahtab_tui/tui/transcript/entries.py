"""The entries of the transcript, as data."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.prompt import number_entry
from mahtab_tui.bus.records import AnswerFigure, Change, Record
from mahtab_tui.bus.sanitize import plain, visible
from mahtab_tui.kernel.values import TracebackFrame
from mahtab_tui.tui.transcript.output import LOCATION, OutputBuffer


@dataclass(kw_only=True, eq=False)
class Entry:
    """An item of the transcript."""

    version: int = 0
    """Increases with every visible change."""
    gap: bool = True
    """Whether there is an empty row above it."""
    joined: bool = False
    """Whether it continues the entry above, of the same author: the bar runs through the gap."""
    hidden: bool = False
    """Whether it was dropped: it was streamed, but is not part of the complete answer."""
    key: str = ""
    """Its name in the model's conversation, from `bus.prompt.HiddenEntries`; empty if it is not
    part of it."""
    removed: Literal["", "hidden", "replaced"] = ""
    """Why the model no longer gets it."""
    collapsed: bool = False
    """Whether only its first rows are shown."""


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


@dataclass(kw_only=True, eq=False)
class Words(Entry):
    """The model's words in Markdown, complete or still streaming."""

    author: str
    source: str = ""
    revision: int = 0
    """Increases when `source` is replaced rather than extended."""
    thought: bool = False
    """Whether they are the model's thinking, not its answer."""
    named: bool = True
    """Whether the author's name comes first; only for the first words of a step."""
    mark: str = ""
    """Either "stopped", or "cut off" if the program was killed; empty if the answer ended
    normally."""
    figures: Sequence[AnswerFigure] = ()
    """Figures of the answer, once it is complete."""

    @property
    def own_figures(self) -> list[AnswerFigure]:
        """The figures in these words."""
        return [figure for figure in self.figures if figure.text in self.source]


@dataclass(kw_only=True, eq=False)
class Cell(Entry):
    """Code of the user, the model or an agent: proposed, waiting, running or done."""

    author: str
    person: bool
    agent_index: int | None = None
    """Colour index of an agent, from 0; None for cells of the user and the model."""
    code: str = ""
    block: int | None = None
    """Index of the code block in the streamed answer."""
    number: int | None = None
    """None if it has not run."""
    started: float | None = None
    """Start time in seconds since the epoch; None if it is not running."""
    status: str = ""
    """A `kernel.values.Status` value after it ended; "cut off" if the program was killed."""
    duration: float | None = None
    """Seconds."""
    approval: str = ""
    """One of "waiting", "skipped", "stopped" and "refused"; if the program was killed, "cut off"
    while it was being written and "not run" while it waited."""
    part: str = ""
    """Its number among the waiting code blocks, such as "1/2"; empty if it is the only one."""
    reason: str = ""
    """Why it was skipped."""
    edited: bool = False
    """Whether the user edited the code before it ran."""
    output: OutputBuffer = field(default_factory=OutputBuffer)
    displays: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Text, MIME type, data and key of displayed values, until the cell ends. The text is also part
    of the output."""
    frames: Sequence[TracebackFrame] = ()
    offers_explanation: bool = False
    """Whether to show the key that asks about the error, because the user's last cell failed."""
    late_output: OutputBuffer | None = None
    """Output that came after the cell had ended."""
    undone: bool = False
    """Whether its changes were undone."""
    changes: Sequence[Change] = ()
    cell_number: int | None = None
    """The number of the notebook's cell that it is, or that it ran."""
    ran_as: int | None = None
    """The execution count stored in the notebook."""

    @property
    def own_frame(self) -> int:
        """Index of the last frame whose code the traceback shows and that is not in a library;
        otherwise of the last frame."""
        shown = [
            index
            for index, frame in enumerate(self.frames)
            if (line := self.output.from_end(frame.row)) and LOCATION.match(line.text)
        ]
        return shown[-1] if shown else len(self.frames) - 1

    @property
    def exception(self) -> str:
        """The first lines of the traceback after the last frame; empty if unknown."""
        rows = range(self.frames[-1].row - 1, 0, -1) if self.frames else range(0)
        texts = [line.text for row in rows[:20] if (line := self.output.from_end(row)) is not None]
        start = next(
            (index for index, text in enumerate(texts) if text and not text[0].isspace()),
            len(texts),
        )
        return "\n".join(texts[start : start + 3])


@dataclass(kw_only=True, eq=False)
class NotebookWords(Words):
    """A Markdown or raw cell of the notebook."""

    cell_number: int


@dataclass(kw_only=True, eq=False)
class ToolUse(Entry):
    """A tool call by the model, and its result."""

    author: str
    name: str
    arguments: str
    """The exact arguments, as JSON."""
    state: str = "running"
    text: str = ""
    """The result, or why there is none."""


@dataclass(kw_only=True, eq=False)
class Note(Entry):
    """A message from the program itself."""

    level: str
    """``info``, ``warning``, ``error``, or ``quiet`` for a mere marker."""
    text: str


def ends_with_bar(entry: Entry) -> bool:
    """Return whether an entry's last row has the model's bar."""
    if isinstance(entry, Cell):
        return not (entry.person or len(entry.output) or entry.changes)
    return isinstance(entry, Words | ToolUse) and not isinstance(entry, NotebookWords)


WORDS = 20_000
"""Maximum characters of a cell rendered as Markdown; more would block the screen."""

_TICKS = re.compile("`+")


def to_entry(record: records.NotebookCell) -> Cell | NotebookWords:
    """Return the entry for a notebook cell; a raw cell becomes a block of text."""
    key = number_entry(record.place)
    if record.kind == "code":
        return Cell(
            author="notebook", person=True, code=record.text, cell_number=record.place, key=key
        )
    text = record.text[:WORDS]
    if record.kind != "markdown":
        fence = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(text)), 3)
        text = f"{fence}\n{text}\n{fence}"
    if (omitted := len(record.text) - WORDS) > 0:
        text += f"\n\n… {omitted:,} characters left out"
    return NotebookWords(author="", named=False, source=text, cell_number=record.place, key=key)


def entry_text(entry: Entry) -> str:
    """Return the text of an entry: code, words, question, notice, or tool call with result."""
    match entry:
        case Cell():
            return visible(entry.code.strip("\n"))
        case Words():
            return plain(entry.source.strip("\n"))
        case ToolUse():
            return plain(f"{entry.name} {entry.arguments}\n{entry.text}".rstrip())
        case Question() | Note():
            return plain(entry.text)
    raise AssertionError(entry)


def output_text(cell: Cell) -> str:
    """Return a cell's stored output, including late output; a line marks omitted lines."""
    return "\n".join(_text(output) for output in (cell.output, cell.late_output) if output)


def _text(output: OutputBuffer) -> str:
    lines = [line.text for line in output]
    if output.omitted:
        lines.insert(len(output.head), f"… {output.omitted:,} lines left out …")
    text = "\n".join(lines)
    # Most output is plain text already.
    return text if plain(text) is text else "\n".join(map(plain, lines))


BUDGET = 32_000_000
"""Characters of long outputs and pictures kept in memory."""
LONG = 100_000
"""An output of this many characters is long, even if it has few lines."""
ENDS = 20
"""Lines to keep at each end of an output."""


class OutputMemory:
    """The cells with long outputs, oldest first."""

    def __init__(self) -> None:
        self._cells: deque[tuple[Cell, int]] = deque()
        self._chars = 0

    def add(self, cell: Cell) -> list[Cell]:
        """Add a cell that ended; returns the cells whose outputs were shortened to make room."""
        size = cell.output.size
        if len(cell.output) <= 2 * ENDS and size < LONG:
            return []
        self._cells.append((cell, size))
        self._chars += size
        shortened = []
        while self._chars > BUDGET and len(self._cells) > 1:
            oldest, size = self._cells.popleft()
            oldest.output.shrink(ENDS)
            self._chars -= size
            shortened.append(oldest)
        return shortened


_STATES = {
    "thinking": ("is thinking", "thinking"),
    "reflecting": ("is checking the result", "checking"),
    "summarising": ("is summarising the conversation", "summarising"),
    "max-turns": ("is summing up", "summing up"),
}


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that the model is doing or waiting for."""

    author: str
    doing: str
    """For example "is thinking"."""
    brief: str
    """Short form for the header, for example "thinking"."""
    since: float
    """Seconds since the epoch."""
    waits_for_person: bool = False


class Activities:
    """Tracks what the model is doing. since: seconds since the epoch; older records are past
    activities."""

    def __init__(self, since: float) -> None:
        self.current: Activity | None = None
        """None between two steps, and while code runs, because then the cell shows the time."""
        self.turn_running = False
        self._since = since

    def fold(self, record: Record) -> None:
        match record:
            case records.Agent():
                self._agent(record)
            case records.AssistantChatStream():
                if self.current is not None and self.current.brief != "writing":
                    self.current = Activity(
                        self.current.author, "is writing", "writing", self.current.since
                    )
            case records.AssistantTool():
                self._change(
                    record, f"waits for {record.name}", "using a tool", record.state == "running"
                )
            case records.Approval(guest=None):
                self._change(record, "waits for you", "waiting for you", record.state == "waiting")
            case records.Review():
                self._change(record, "waits for you", "waiting for you", record.state == "waiting")
            case records.AssistantChat() | records.AssistantReplIn(guest=None):
                self.current = None

    def _agent(self, record: records.Agent) -> None:
        doing, brief = _STATES.get(record.state, ("", ""))
        self.turn_running = bool(doing) and record.time >= self._since
        self._change(record, doing, brief, bool(doing))

    def _change(
        self,
        record: records.Agent | records.AssistantTool | records.Approval | records.Review,
        doing: str,
        brief: str,
        begins: bool,
    ) -> None:
        waits = brief == "waiting for you"
        author = record.party or "model"
        self.current = (
            Activity(author, doing, brief, record.time, waits)
            if begins and record.time >= self._since
            else None
        )


class PendingRequests:
    """Tracks what waits for the user: code, a search, or a line that code reads."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    def fold(self, record: Record) -> None:
        match record:
            case records.SearchFinal():  # a stopped call no longer waits for an answer
                self._since = {
                    key: since
                    for key, since in self._since.items()
                    if key[1:3] != (record.tree, record.node)
                }
            case records.SearchFanOut():
                self._fold((record.tag, record.tree, record.node, record.request), record)
            case records.Approval() | records.Review() | records.Input():
                self._fold((record.tag, record.request), record)

    def _fold(
        self,
        key: tuple[str, ...],
        record: records.SearchFanOut | records.Approval | records.Review | records.Input,
    ) -> None:
        if record.state == "waiting":
            self._since.setdefault(key, record.time)
        else:
            self._since.pop(key, None)

    @property
    def since(self) -> float | None:
        """Seconds since the epoch at which the oldest request began to wait; None if nothing
        waits."""
        return min(self._since.values(), default=None)
