"""The records of cells: their code, output, displays, and what they change."""

from __future__ import annotations

from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.marks import Data, Flag, Name, Word
from mahtab_tui.bus.records.record import INDEXED_INPUT_CHARS, INDEXED_OUTPUT_CHARS, Record, Stream
from mahtab_tui.bus.values import Change, FileChange, TracebackFrame

PICTURES = frozenset(("image/png", "image/jpeg"))
"""MIME types of pictures."""


class CellRecord(Record):
    """Something that happens to a cell."""

    cell: int | None = None
    """Its number, from 1; None for output that belongs to no cell."""
    party: Word | None = None
    """The author: "you", the model's short name, or an agent's name."""
    turn: int | None = None
    """The number of the question for which the model runs the code, from 1."""
    step: int | None = None
    """The answer to that question to which the code belongs, from 0."""
    block: int | None = None
    """The code block of that answer, from 0."""
    guest: int | None = None
    """The number of the colour of the joined agent whose code it is, from 0."""
    call: Word | None = None
    """The tool call that runs the code, such as "2.0.1"; None if no tool does."""
    position: int | None = None
    """The position of the cell in its notebook; None if it stands in none."""

    @property
    def entry_name(self) -> str:
        if self.cell is None:
            return ""
        return cell_entry(self.cell)


class ReplIn(CellRecord, indexed=INDEXED_INPUT_CHARS):
    """A cell starts. Text: its code."""


class UserReplIn(ReplIn, tag="user-repl-in", in_prompt=True):
    """The user's code."""


class AssistantReplIn(ReplIn, tag="assistant-repl-in", in_prompt=True):
    """Code of the model or an agent."""


class ReplOut(CellRecord, indexed=INDEXED_OUTPUT_CHARS):
    """A cell has ended. Text: its whole output; with `late`, output that came later.

    It is a `kernel.values.CellResult` as it is stored. The changes and displays of the cell are
    records of their own."""

    status: Word | None = None
    """A `bus.values.Status` value; None for late output."""
    duration: float | None = None  # seconds
    kinds: tuple[tuple[Word, int], ...] | None = None
    """Kinds of output with their lengths in characters, in order; None if all was printed."""
    detail: str | None = None
    """A sentence about how it ended, such as why the kernel died; None if there is none."""
    frames: tuple[TracebackFrame, ...] | None = None
    """The frames of the traceback, if the code has failed."""
    private: tuple[Name, ...] | None = None
    """Private variables that the code uses and the user has not allowed: models do not get the
    output."""
    rewritten: Flag = False
    """Whether the text replaces some of the output that was streamed before."""
    late: Flag = False
    """Whether it came after the cell had ended (from a thread), or before the first cell."""
    cut: Flag = False
    """Whether the program was killed before the cell ended."""


class UserReplOut(ReplOut, tag="user-repl-out", in_prompt=True):
    """Output of the user's cell."""


class AssistantReplOut(ReplOut, tag="assistant-repl-out", in_prompt=True):
    """Output of a cell of the model or an agent."""


class ReplOutStream(Stream):
    """A piece of output."""

    cell: int | None = None
    kind: Word = "stdout"
    """"stdout", "value" (of the last expression), "traceback", or "display" (a value's text)."""
    late: Flag = False


class UserReplOutStream(ReplOutStream, tag="user-repl-out-stream", in_store=False):
    """A piece of output of the user's cell."""


class AssistantReplOutStream(ReplOutStream, tag="assistant-repl-out-stream", in_store=False):
    """A piece of output of a cell of the model or an agent."""


OUTPUTS = (UserReplOut.tag, AssistantReplOut.tag)
"""The tags of the records that have the whole output of a cell."""


class DisplayRecord(Record, tag="display"):
    """A displayed value that is more than text. The kernel reports it without a cell, which is added
    when it is logged.

    Text: what is shown instead where the data cannot be shown. It is also the next piece of output,
    of kind "display"."""

    cell: int | None = None
    mime: Word
    data: Data
    """Base64 for a picture, else the text itself."""
    value: Word = ""
    """The key with which the kernel opens the value; empty if it cannot."""
    name: Word = ""
    """The name by which the cell updates it; empty if it cannot."""
    action: Word = "show"
    """What to do with it. "update": put it in the place of the one with its name. "clear": remove
    all output of the cell so far; the display itself is empty."""


class Namespace(Record, tag="namespace"):
    """Changes of the namespace by a cell."""

    cell: int | None = None
    """0 for the kernel's start."""
    party: Word | None = None
    fresh: bool = False
    """Whether these are all names, so that those of earlier records no longer count."""
    changes: tuple[Change, ...] = ()
    guest: int | None = None
    """The number of the colour of the joined agent that made the changes; None if none did."""
    restored: Flag = False
    """Whether an undo or redo caused it; `cell` and `party` name the author of the variables."""


class FileChanges(CellRecord, tag="cell-files", in_prompt=True):
    """What a cell has done to files. Text: the same in words, for the model."""

    changes: tuple[FileChange, ...] = ()


class Undo(Record, tag="user-undo", in_prompt=True):
    """Cells were undone, or redone. Text: a sentence for the user and the model."""

    cells: tuple[int, ...]
    undone: bool


class Restore(Record, tag="restore", in_prompt=True):
    """Saved variables were restored in a new kernel. Text: a sentence for the user and the
    model."""
