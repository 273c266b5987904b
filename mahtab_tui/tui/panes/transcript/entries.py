"""The entries of the transcript, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.bus.records import AnswerFigure, Change
from mahtab_tui.kernel.values import TracebackFrame
from mahtab_tui.tui.cell_output.output import LOCATION, OutputBuffer


@dataclass(kw_only=True, eq=False)
class Entry:
    """One item of the transcript."""

    version: int = 0
    """Increases with every visible change."""
    gap: bool = True
    """Whether an empty row is above it."""
    joined: bool = False
    """Whether it continues the entry above, of the same party: the bar runs through the gap."""
    hidden: bool = False
    """Whether it was removed: it streamed, but is not part of the whole answer."""
    key: str = ""
    """Its name in the model's conversation, from `bus.left_out`; empty if it is not part of it."""
    left_out: Literal["", "hidden", "replaced"] = ""
    """Why the model is not told of it any more."""
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
    """The model's words in Markdown, as far as they have come."""

    party: str
    source: str = ""
    revision: int = 0
    """Increases when `source` is replaced, rather than extended."""
    thought: bool = False
    """Whether the model thinks them, beside its answer."""
    named: bool = True
    """Whether the party's name is in front: only for the first words of a step."""
    mark: str = ""
    """"stopped", or "cut off" if the program was killed; empty if it ended normally."""
    figures: Sequence[AnswerFigure] = ()
    """The figures of the whole answer, once it is complete."""

    @property
    def own_figures(self) -> list[AnswerFigure]:
        """The figures that stand in these words."""
        return [figure for figure in self.figures if figure.text in self.source]


@dataclass(kw_only=True, eq=False)
class Cell(Entry):
    """Code of the user, the model or an agent: proposed, waiting, running or done."""

    party: str
    person: bool
    guest: int | None = None
    """The number of an agent's colour, from 0; None for cells of the user and the model."""
    code: str = ""
    block: int | None = None
    """The number of the code block in the stream of the answer."""
    number: int | None = None
    """None if it has not run."""
    started: float | None = None
    """Seconds since the epoch; None if it does not run now."""
    status: str = ""
    """A `kernel.values.Status` value when it has ended; "cut off" if the program was killed."""
    duration: float | None = None
    """Seconds."""
    approval: str = ""
    """"waiting", "skipped", "stopped" or "refused"; "cut off" if the program was killed while it
    was written, "not run" if it waited then."""
    part: str = ""
    """Its number among the blocks of code that wait, as in "1/2"; empty if it is the only one."""
    reason: str = ""
    """Why it was skipped."""
    edited: bool = False
    """Whether the user changed the code before it ran."""
    output: OutputBuffer = field(default_factory=OutputBuffer)
    displays: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Text, MIME type, data and key of displayed values, until the cell ends. The text also comes
    in the output."""
    frames: Sequence[TracebackFrame] = ()
    offers_explanation: bool = False
    """Whether to show the key that asks about the error: the user's last cell has failed."""
    later: OutputBuffer | None = None
    """Output after the cell had ended."""
    undone: bool = False
    """Whether its changes were undone."""
    changes: Sequence[Change] = ()
    place: int | None = None
    """The cell of the opened notebook that it is, or that it ran."""
    ran_as: int | None = None
    """Number of the last run of a cell, as it stands in the notebook."""

    @property
    def own_frame(self) -> int:
        """The index of the last frame that the traceback shows with its code, which is no
        library's; of the last one if there is none."""
        shown = [
            index
            for index, frame in enumerate(self.frames)
            if (line := self.output.from_end(frame.row)) and LOCATION.match(line.text)
        ]
        return shown[-1] if shown else len(self.frames) - 1

    @property
    def exception(self) -> str:
        """The first lines of the traceback after the last frame; empty if they are not known."""
        rows = range(self.frames[-1].row - 1, 0, -1) if self.frames else range(0)
        texts = [line.text for row in rows[:20] if (line := self.output.from_end(row)) is not None]
        start = next(
            (place for place, text in enumerate(texts) if text and not text[0].isspace()),
            len(texts),
        )
        return "\n".join(texts[start : start + 3])


@dataclass(kw_only=True, eq=False)
class NotebookWords(Words):
    """A cell of the notebook that is no code, in Markdown."""

    place: int


@dataclass(kw_only=True, eq=False)
class ToolUse(Entry):
    """A tool call of the model, and its result."""

    party: str
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
    """Return whether the last row of an entry has the model's bar."""
    if isinstance(entry, Cell):
        return not (entry.person or len(entry.output) or entry.changes)
    return isinstance(entry, Words | ToolUse) and not isinstance(entry, NotebookWords)
