"""What widgets ask of the application: screens to open, and work for the session.

A widget posts a message and knows nothing of who answers it. `Navigation` opens the screens; the
application does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.events import Key
from textual.message import Message
from textual.widget import Widget

from mahtab_tui.tui.commands.declarations import PaneCommand

if TYPE_CHECKING:
    from mahtab_tui.bus.entries import Cell
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.search.tree import SearchTree
    from mahtab_tui.search.tree_nodes import SearchNode


class OpenScreen(Message):
    """The base class of messages that open a screen."""


@dataclass
class OpenMenu(OpenScreen):
    """Show the actions on something; the chosen one runs on its owner."""

    owner: Widget
    """Has the action of each command."""
    title: str
    commands: Sequence[PaneCommand]


@dataclass
class OpenVariable(OpenScreen):
    """Look inside a variable."""

    name: str


@dataclass
class OpenDisplayedValue(OpenScreen):
    """Look inside a value that a cell has displayed."""

    key: str
    """The kernel's key of the value."""


@dataclass
class OpenOutput(OpenScreen):
    """Show the whole output of a cell."""

    cell: int


@dataclass
class OpenStoredOutput(OpenScreen):
    """Show the output that a notebook's file has for a cell that has not run."""

    cell_number: int
    """Counts the cells of the notebook, from 1."""


@dataclass
class OpenText(OpenScreen):
    """Show a long text."""

    title: str
    text: str
    file: str
    """The suggested name for saving."""


@dataclass
class OpenPictures(OpenScreen):
    """Show the pictures of a cell."""

    cell: int
    pictures: Sequence[tuple[str, str]]
    """The MIME type of each, and its content in base64."""


@dataclass
class OpenFrames(OpenScreen):
    """Show the frames of a cell's error."""

    cell: Cell
    index: int
    """The frame to show first."""
    codes: Mapping[int, str]
    """The code of each cell, by its number, because a frame may be in another cell."""


@dataclass
class OpenSearchNode(OpenScreen):
    """Show one call of a search."""

    tree: SearchTree
    node: SearchNode


@dataclass
class AskToUndo(OpenScreen):
    """Show what an undo would do, and ask."""

    cell: int | None
    """The first cell to undo; None for what ran last."""


@dataclass
class AskToRewind(OpenScreen):
    """Show what a rewind would do, and ask."""

    entry: str
    """The key of the question or cell before which to go back."""


@dataclass
class AskToRun(OpenScreen):
    """Run code as a cell of the user's, if they say yes."""

    question: str
    code: str
    yes: str
    """The label of the answer that runs the code."""
    no: str


@dataclass
class AskToRename(Message):
    """Ask for the new name of a variable."""

    name: str
    label: str
    """The name as it is drawn."""


@dataclass
class RunInput(Message):
    """Run code, or ask a question, and scroll to it."""

    mode: Mode
    text: str


@dataclass
class RunCode(Message):
    """Run code as a cell of the user's; the transcript stays where it is."""

    code: str


@dataclass
class EditInput(Message):
    """Put code or a question into the editor."""

    mode: Mode
    text: str
    keeps_draft: bool = False
    """Whether what was in the editor comes back after it."""


@dataclass
class ReplaceInput(Message):
    """Put a cell of the notebook into the editor; Enter runs it in its place."""

    mode: Mode
    text: str
    entry: str
    """The key of the cell before it has run."""


@dataclass
class RunNotebookCell(Message):
    """Run a cell of the notebook."""

    cell_number: int
    """Counts the cells of the notebook, from 1."""
    code: str


@dataclass
class MentionInQuestion(Message):
    """Begin a question about something."""

    target: str
    """The target as it is typed: ``@cell:3``."""


@dataclass
class HideEntry(Message):
    """Hide an entry from the model, or show it again."""

    entry: str
    """The key of the entry."""
    hidden: bool
    """Whether the model is not to see it from now on."""


@dataclass
class MarkPrivate(Message):
    """Hide a variable from models, or show it again."""

    name: str
    private: bool
    """Whether models are not to see it from now on."""


@dataclass
class RebuildVariable(Message):
    """Put the cells that made a variable into the editor, because its value is lost."""

    name: str
    reason: str
    """A sentence."""


class FindInTranscript(Message):
    """Open the line in which the user types what to find."""


@dataclass
class TypeInEditor(Message):
    """Give the editor keys that were pressed elsewhere."""

    keys: Sequence[Key]
