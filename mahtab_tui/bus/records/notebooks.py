"""The records of an opened notebook."""

from __future__ import annotations

from mahtab_tui.bus.entry_names import unrun_cell_entry
from mahtab_tui.bus.marks import Data, Flag, Name, Word
from mahtab_tui.bus.records.record import INDEXED_INPUT_CHARS, INDEXED_OUTPUT_CHARS, Record


class NotebookOpened(Record, tag="notebook-file", in_prompt=True):
    """A notebook is opened; its cells follow. Text: a sentence for the user and the model."""

    file: Name
    digest: Word
    """Hash of the file's bytes; empty if there is no file yet."""
    first: int
    """Position of its first cell. Positions continue when a file is read again."""
    cells: int
    """How many cells it has."""
    rewritable: Flag = False
    """Whether the program may write the file."""


class NotebookCell(Record, tag="notebook-cell", in_prompt=True, indexed=INDEXED_INPUT_CHARS):
    """A cell stored in the notebook, which has not run. Text: its source."""

    position: int
    kind: Word
    """One of "code", "markdown" and "raw"."""

    @property
    def entry_name(self) -> str:
        return unrun_cell_entry(self.position)


class NotebookOutput(Record, tag="notebook-output", indexed=INDEXED_OUTPUT_CHARS):
    """A stored output of the preceding notebook cell.

    It may be outdated, so the model does not get it.
    """

    position: int
    kind: Word = "stdout"
    mime: Word = ""
    data: Data = ""


class NotebookWritten(Record, tag="notebook-written"):
    """The notebook was written."""

    digest: Word
    file: Name = ""
    """Absolute; empty in records of earlier versions, where it is the opened file."""
