"""The records of cells: their code, output, displays, and what they change."""

from __future__ import annotations

from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.marks import Data, Flag, Name, Word
from mahtab_tui.bus.records.record import INDEXED_INPUT_CHARS, INDEXED_OUTPUT_CHARS, Record, Stream
from mahtab_tui.bus.values import Change, FileChange, TracebackFrame

PICTURE_MIMES = frozenset(("image/png", "image/jpeg"))
"""The MIME types of pictures that are shown."""


class CellRecord(Record):
    """Something that happens to a cell."""

    cell: int | None = None
    """The number of the cell, from 1; None for output that belongs to no cell."""
    party: Word | None = None
    """The author of the code: "you", the model's short name, or an agent's name."""
    turn: int | None = None
    """The number of the question for which the model runs the code, from 1."""
    step: int | None = None
    """The answer to that question to which the code belongs, from 0."""
    block: int | None = None
    """The code block of that answer, from 0."""
    guest: int | None = None
    """The number of the colour of the joined agent whose code it is, from 0; None if it is nobody's
    who has joined."""
    call: Word | None = None
    """The tool call that runs the code, such as "2.0.1"; None if no tool does."""
    position: int | None = None
    """The position of the cell in its notebook; None if it stands in none."""

    @property
    def entry_name(self) -> str:
        """The entry of the cell in the conversation; empty if the record belongs to no cell."""
        if self.cell is None:
            return ""
        return cell_entry(self.cell)


class ReplIn(CellRecord, indexed=INDEXED_INPUT_CHARS):
    """A cell starts. The text is its code."""


class UserReplIn(ReplIn, tag="user-repl-in", in_prompt=True):
    """A cell of the user starts."""


class AssistantReplIn(ReplIn, tag="assistant-repl-in", in_prompt=True):
    """A cell of the model or an agent starts."""


class ReplOut(CellRecord, indexed=INDEXED_OUTPUT_CHARS):
    """A cell has ended, and the text is its whole output; or, with `late`, the text is output that
    came outside a cell.

    It is a `kernel.values.CellResult` as it is stored. The changes and displays of the cell are
    records of their own.
    """

    status: Word | None = None
    """How the cell has ended: a value of `bus.values.Status`; None for late output."""
    duration: float | None = None
    """How long the cell ran, in seconds."""
    kinds: tuple[tuple[Word, int], ...] | None = None
    """The kinds of output in the order of the text, each with its length in characters; None if all
    of it was printed. The kinds are those of `ReplOutStream`."""
    detail: str | None = None
    """A sentence about how the cell ended, such as why the kernel died; None if there is none."""
    frames: tuple[TracebackFrame, ...] | None = None
    """The frames of the traceback; None if the code has not failed."""
    private: tuple[Name, ...] | None = None
    """The private variables that the code uses although the user has not allowed it, because of which
    no model gets the output; None if there are none."""
    rewritten: Flag = False
    """Whether the text replaces some of the output that was streamed before."""
    late: Flag = False
    """Whether the output came after the cell had ended (from a thread), or before the first cell."""
    cut: Flag = False
    """Whether the program was killed before the cell ended."""


class UserReplOut(ReplOut, tag="user-repl-out", in_prompt=True):
    """The output of a cell of the user."""


class AssistantReplOut(ReplOut, tag="assistant-repl-out", in_prompt=True):
    """The output of a cell of the model or an agent."""


OUTPUT_TAGS = (UserReplOut.tag, AssistantReplOut.tag)
"""The tags of the records that have the whole output of a cell."""


class ReplOutStream(Stream):
    """A piece of the output of a cell, as it comes. The text is the piece."""

    cell: int | None = None
    """The number of the cell, from 1; None for output that belongs to no cell."""
    kind: Word = "stdout"
    """"stdout", "value" (of the last expression), "traceback", or "display" (the text of a displayed
    value)."""
    late: Flag = False
    """Whether the output came after the cell had ended, or before the first cell."""


class UserReplOutStream(ReplOutStream, tag="user-repl-out-stream", in_store=False):
    """A piece of the output of a cell of the user."""


class AssistantReplOutStream(ReplOutStream, tag="assistant-repl-out-stream", in_store=False):
    """A piece of the output of a cell of the model or an agent."""


class DisplayRecord(Record, tag="display"):
    """A cell has displayed a value that is more than text.

    The text is shown where the data cannot be shown. It is also the next piece of the cell's output,
    of kind "display".
    """

    cell: int | None = None
    """The number of the cell, from 1. The kernel does not tell it: it is added when the record is
    logged."""
    mime: Word
    """The MIME type of the data."""
    data: Data
    """The displayed form of the value: base64 for a picture, else the text itself."""
    value: Word = ""
    """The key by which the kernel finds the value, to inspect it; empty if it cannot."""
    name: Word = ""
    """The name by which the cell updates the display; empty if it cannot."""
    action: Word = "show"
    """What to do with the display. "show": add it to the output. "update": put it in the place of the
    one with its name. "clear": remove all output of the cell so far; the display itself is empty."""


class Namespace(Record, tag="namespace"):
    """The namespace has changed."""

    cell: int | None = None
    """The number of the cell that has changed it; 0 for the kernel's start."""
    party: Word | None = None
    """The author of the changes, as in `CellRecord`."""
    fresh: bool = False
    """Whether the changes are all names of a new namespace, so that earlier records no longer
    count."""
    changes: tuple[Change, ...] = ()
    """What has happened to each variable."""
    guest: int | None = None
    """The number of the colour of the joined agent that made the changes; None if none did."""
    restored: Flag = False
    """Whether an undo or redo caused the changes; `cell` and `party` name the author of the variables
    then."""


class FileChanges(CellRecord, tag="cell-files", in_prompt=True):
    """A cell has changed files. The text tells the model the same in words."""

    changes: tuple[FileChange, ...] = ()
    """What has happened to each file."""


class Undo(Record, tag="user-undo", in_prompt=True):
    """Cells were undone, or redone. The text is a sentence for the user and the model."""

    cells: tuple[int, ...]
    """The numbers of the cells."""
    undone: bool
    """Whether they were undone, rather than redone."""


class Restore(Record, tag="restore", in_prompt=True):
    """Saved variables were restored in a new kernel.

    The text is a sentence for the user and the model.
    """
