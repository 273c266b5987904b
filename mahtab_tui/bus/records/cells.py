"""Records of cells: code that runs, what it prints and shows, and what it does to the namespace.

`cell` is the number of a cell in the session. `guest` is the number of the colour of another program's agent, from 0; None of the user's
and the model's own cells.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import Data, Flag, Name, Record, Word

Frame = tuple[str, int, str, int]
"""File, line, function and row, as `kernel.base.TracebackFrame` has them."""


class ReplIn(Record):
    """A cell begins to run. Text: its code."""

    cell: int | None = None
    party: Word | None = None
    """Who: "you", the model's short name, or an agent's name."""
    turn: int | None = None
    """Of the model's code: the question, the answer to it (`step`), and which of the answer's blocks this is, from 0."""
    step: int | None = None
    block: int | None = None
    guest: int | None = None
    call: Word | None = None
    """The id of an agent's call."""


class UserReplIn(ReplIn):
    """Code of the user's."""

    tag: ClassVar[str] = tags.USER_REPL_IN


class AssistantReplIn(ReplIn):
    """Code of the model's, or of another agent's."""

    tag: ClassVar[str] = tags.ASSISTANT_REPL_IN


class ReplOut(Record):
    """A cell has ended. Text: its whole output. Or what came later (`late`)."""

    cell: int | None = None
    party: Word | None = None
    """This and the next five: as of `ReplIn`."""
    turn: int | None = None
    step: int | None = None
    block: int | None = None
    guest: int | None = None
    call: Word | None = None
    status: Word | None = None
    """A `kernel.base.Status` value; None of late output."""
    duration: float | None = None
    """Seconds."""
    kinds: tuple[tuple[Word, int], ...] | None = None
    """The kinds of output with their characters, in order, as they make up the text; None: all was printed."""
    detail: str | None = None
    """What is to be said of its end besides, as a sentence."""
    frames: tuple[Frame, ...] | None = None
    """The places that a traceback names."""
    rewritten: Flag = False
    """More was printed than the text has: a part was written over."""
    late: Flag = False
    """It came after its cell had ended, as a thread's print does; or before the first one."""
    cut: Flag = False
    """The program was killed before the cell's end, and this is what had come."""


class UserReplOut(ReplOut):
    """Output of the user's cell."""

    tag: ClassVar[str] = tags.USER_REPL_OUT


class AssistantReplOut(ReplOut):
    """Output of a cell of the model's or of another agent's."""

    tag: ClassVar[str] = tags.ASSISTANT_REPL_OUT


class ReplOutStream(Record):
    """A piece of output, as it comes."""

    cell: int | None = None
    kind: Word = "stdout"
    """"stdout" for what was printed, "value" for the last expression, "traceback", "display" for the text of what was shown."""
    late: Flag = False

    @property
    def stream(self) -> tuple[object, ...]:
        """The same for all pieces that make one text."""
        return self.tag, self.cell, self.kind, self.late


class UserReplOutStream(ReplOutStream):
    """A piece of the output of the user's cell."""

    tag: ClassVar[str] = tags.USER_REPL_OUT_STREAM


class AssistantReplOutStream(ReplOutStream):
    """A piece of the output of a cell of the model's or of another agent's."""

    tag: ClassVar[str] = tags.ASSISTANT_REPL_OUT_STREAM


class Display(Record):
    """A value that is more than text. Text: the same as the next piece of output of kind "display", which follows."""

    tag: ClassVar[str] = tags.DISPLAY

    cell: int | None = None
    mime: Word
    data: Data
    """Of pictures: base64."""


class Change(NamedTuple):
    """What has become of one name."""

    name: Name
    change: Word
    """"added", "rebound", "changed", "perhaps" (it may have been changed in place) or "deleted"."""
    type: Name | None = None
    summary: str | None = None
    kind: Word | None = None
    """"data", "module", "function" or "class"."""
    was_type: Name | None = None
    """The type before, and the summary, where they were others."""
    was: str | None = None


class Namespace(Record):
    """What a cell has changed in the namespace."""

    tag: ClassVar[str] = tags.NAMESPACE

    cell: int | None = None
    """0: the kernel began with it."""
    party: Word | None = None
    fresh: bool = False
    """There is nothing else in the namespace any more."""
    changes: tuple[Change, ...] = ()
    guest: int | None = None
