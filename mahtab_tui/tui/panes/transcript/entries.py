"""The transcript as data: what the screen shows a window of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.bus.records import Change
from mahtab_tui.kernel.base import TracebackFrame
from mahtab_tui.tui.cell_output.output import CellOutput


@dataclass(kw_only=True, eq=False)
class Entry:
    """One thing in the transcript."""

    version: int = 0
    """Grows with every change of what is drawn."""
    gap: bool = True
    """An empty row stands above it."""
    joined: bool = False
    """It goes on with what the same party said just above: the bar runs through the gap."""
    hidden: bool = False
    """It was drawn while it streamed, and turned out not to be there."""
    key: str = ""
    """Its name in the model's conversation, as `bus.left_out` makes it; empty where it is not in it."""
    left_out: Literal["", "hidden", "replaced"] = ""
    """The model is not told of it any more."""
    folded: bool = False
    """Only its first row is shown."""

    @property
    def ends_with_bar(self) -> bool:
        """Its last row bears the model's bar."""
        return False


class Attached(NamedTuple):
    """Something that went with a question, or did not."""

    label: str
    size: str
    problem: str


@dataclass(kw_only=True, eq=False)
class Question(Entry):
    """The user's words."""

    text: str
    attached: list[Attached] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class Words(Entry):
    """The model's words: Markdown, as much of it as has come."""

    party: str
    source: str = ""
    revision: int = 0
    """Grows when `source` was replaced and not only lengthened."""
    named: bool = True
    """The party's name stands before it: only before its first words of a step."""
    mark: str = ""
    """How it ended, if not by itself: "stopped"; "cut off" where the whole program was killed."""

    @property
    def ends_with_bar(self) -> bool:
        return True


@dataclass(kw_only=True, eq=False)
class Cell(Entry):
    """Code of the user's, the model's or another agent's: proposed, waiting, running or done."""

    party: str
    person: bool
    guest: int | None = None
    """The number of the colour of another agent, from 0; None of the user's and the model's own."""
    code: str = ""
    block: int | None = None
    """The number that the stream gave to this piece of an answer."""
    number: int | None = None
    """None as long as it has not run."""
    started: float | None = None
    """Seconds since the epoch; None if it does not run now."""
    status: str = ""
    """A `kernel.base.Status` value once it has ended; "cut off" where the whole program was killed."""
    duration: float | None = None
    """Seconds."""
    approval: str = ""
    """What is worth telling of its approval: waiting, skipped, stopped; "cut off" like the status."""
    reason: str = ""
    """Why it was skipped."""
    edited: bool = False
    """The user changed the code of the model's or agent's before it ran."""
    output: CellOutput = field(default_factory=CellOutput)
    displays: list[tuple[str, str, str]] = field(default_factory=list)
    """Text, type and data of what is shown where that text comes in the output; until the cell ends."""
    frames: Sequence[TracebackFrame] = ()
    """The places that its traceback names."""
    offers_explanation: bool = False
    """It is the user's, has failed, and no cell has run since: the key that asks about it is shown."""
    whole_traceback: bool = False
    """Also of a long traceback, all is shown."""
    later: CellOutput | None = None
    """What was printed after it had ended."""
    changes: Sequence[Change] = ()
    """What it did to the namespace, as the record tells it."""

    @property
    def exception(self) -> str:
        """Of a cell that has failed: what its traceback says behind the last frame, its first lines; empty where that is not known."""
        rows = range(self.frames[-1].row - 1, 0, -1) if self.frames else range(0)
        texts = [line.text for row in rows[:20] if (line := self.output.from_end(row)) is not None]
        start = next((place for place, text in enumerate(texts) if text and not text[0].isspace()), len(texts))
        return "\n".join(texts[start : start + 3])

    @property
    def ends_with_bar(self) -> bool:
        return not (self.person or len(self.output) or self.changes)


@dataclass(kw_only=True, eq=False)
class ToolUse(Entry):
    """A call of a tool by the model, and what it gave."""

    party: str
    name: str
    arguments: str
    """As JSON: exactly what the tool gets."""
    state: str = "running"
    text: str = ""
    """What it gave, or why it did not."""

    @property
    def ends_with_bar(self) -> bool:
        return True


@dataclass(kw_only=True, eq=False)
class Note(Entry):
    """One line from the program itself."""

    level: str
    """``info``, ``warning``, ``error``, or ``quiet`` for what only marks a place."""
    text: str
