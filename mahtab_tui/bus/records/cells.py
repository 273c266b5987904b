"""Records of cells: code that runs, its output, its changes to the namespace, and the cells of a
notebook, which have not run.

`cell` is the number of a cell in the session. `guest` is the number of an agent's colour, from 0;
None for cells of the user and the model.
"""

from __future__ import annotations

from typing import NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import Data, Flag, Name, Record, Word

Frame = tuple[str, int, str, int]
"""File, line, function and row, as `kernel.values.TracebackFrame` has them."""


class OfCell(Record):
    """Data of a record about a cell."""

    cell: int | None = None
    party: Word | None = None
    """Who wrote the code: "you", the model's short name, or an agent's name."""
    turn: int | None = None
    """For the model's code: the numbers of the question, the answer (`step`), and the answer's code
    block, from 0."""
    step: int | None = None
    block: int | None = None
    guest: int | None = None
    call: Word | None = None
    """The id of an agent's call."""
    place: int | None = None
    """The notebook's cell that runs."""


class ReplIn(OfCell):
    """A cell starts. Text: its code."""


class UserReplIn(ReplIn, tag=tags.USER_REPL_IN, in_prompt=True):
    """The user's code."""


class AssistantReplIn(ReplIn, tag=tags.ASSISTANT_REPL_IN, in_prompt=True):
    """Code of the model or an agent."""


class ReplOut(OfCell):
    """A cell has ended. Text: its whole output; with `late`, output that came afterwards."""

    status: Word | None = None
    """A `kernel.values.Status` value; None for late output."""
    duration: float | None = None
    """Seconds."""
    kinds: tuple[tuple[Word, int], ...] | None = None
    """The kinds of output with their lengths in characters, in the order of the text; None: all was
    printed."""
    detail: str | None = None
    """An additional sentence about how the cell ended."""
    frames: tuple[Frame, ...] | None = None
    """The frames of a traceback."""
    private: tuple[Name, ...] | None = None
    """The private variables that the code uses, so that a model is not told the output; without
    those whose output the user has allowed."""
    rewritten: Flag = False
    """Some of the output was overwritten and is not in the text."""
    late: Flag = False
    """The output came after the cell had ended (a thread printed it), or before the first cell."""
    cut: Flag = False
    """The program was killed before the cell ended; this is the output until then."""


class UserReplOut(ReplOut, tag=tags.USER_REPL_OUT, in_prompt=True):
    """Output of the user's cell."""


class AssistantReplOut(ReplOut, tag=tags.ASSISTANT_REPL_OUT, in_prompt=True):
    """Output of a cell of the model or an agent."""


class ReplOutStream(Record):
    """A piece of output."""

    cell: int | None = None
    kind: Word = "stdout"
    """"stdout" for printed text, "value" for the last expression, "traceback", "display" for the
    text of a displayed value."""
    late: Flag = False

    @property
    def stream(self) -> tuple[object, ...]:
        """Equal for all pieces that make one text."""
        return self.tag, self.cell, self.kind, self.late


class UserReplOutStream(ReplOutStream, tag=tags.USER_REPL_OUT_STREAM, in_store=False):
    """A piece of output of the user's cell."""


class AssistantReplOutStream(ReplOutStream, tag=tags.ASSISTANT_REPL_OUT_STREAM, in_store=False):
    """A piece of output of a cell of the model or an agent."""


class Display(Record, tag=tags.DISPLAY):
    """A displayed value that is more than text. Text: the same as in the next piece of output, of
    kind "display"."""

    cell: int | None = None
    mime: Word
    data: Data
    """Base64 for pictures."""
    value: Word = ""
    """The key with which the kernel opens the value; empty if it cannot."""


class Change(NamedTuple):
    """The change of one name."""

    name: Name
    change: Word
    """"added", "rebound", "changed", "perhaps" (it may have been changed in place) or "deleted". Of
    names that an earlier kernel had: "restoring" (it comes back), "absent" (it does not; `summary`
    says why)."""
    type: Name | None = None
    summary: str | None = None
    kind: Word | None = None
    """"data", "module", "function" or "class"."""
    was_type: Name | None = None
    """The previous type, and the previous summary, if they differ."""
    was: str | None = None


class Namespace(Record, tag=tags.NAMESPACE):
    """The changes of a cell to the namespace."""

    cell: int | None = None
    """0 for the kernel's start."""
    party: Word | None = None
    fresh: bool = False
    """The namespace was cleared first."""
    changes: tuple[Change, ...] = ()
    guest: int | None = None
    restored: Flag = False
    """An undo or a redo brought it about; `cell` and `party` say who has made the names."""


class NotebookFile(Record, tag=tags.NOTEBOOK_FILE, in_prompt=True):
    """A notebook is opened; its cells follow. Text: a sentence for the user and the model."""

    file: Name
    """Absolute."""
    digest: Word
    """Hash of the file's bytes; empty if there is no file yet."""
    first: int
    """The place of its first cell: places are counted on when a file is read again."""
    cells: int
    kept: Flag = False
    """The file is kept up to date."""


class NotebookCell(Record, tag=tags.NOTEBOOK_CELL, in_prompt=True):
    """A cell as it stands in the notebook: it has not run. Text: its source."""

    place: int
    """Its number in the session, from 1."""
    kind: Word
    """"code", "markdown" or "raw"."""


class NotebookOutput(Record, tag=tags.NOTEBOOK_OUTPUT):
    """An output as it stands in the notebook, after its cell. It is of an earlier run and may be
    wrong now, so the model is not told."""

    place: int
    kind: Word = "stdout"
    """As in `ReplOutStream`."""
    mime: Word = ""
    """Type of `data`; empty if the output is text only."""
    data: Data = ""


class NotebookWritten(Record, tag=tags.NOTEBOOK_WRITTEN):
    """The notebook was written."""

    digest: Word
    """Hash of the file's bytes now."""
    file: Name = ""
    """Absolute; empty in records of earlier versions: the file that was opened."""
