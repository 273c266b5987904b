"""The menu of an entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mahtab_tui.bus.tags import PICTURES
from mahtab_tui.tui.cell_output.output import DisplayLine
from mahtab_tui.tui.commands.entries import TRANSCRIPT_COMMANDS
from mahtab_tui.tui.commands.pane_command import PaneCommand
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, NotebookWords, Question

MOST_BLOCKS = 9
"""Maximum number of code blocks with a digit."""


def has_pictures(entry: Entry) -> bool:
    """Return whether a cell has displayed pictures."""
    return isinstance(entry, Cell) and any(isinstance(line, DisplayLine) and line.mime in PICTURES for line in entry.output)


def has_error(entry: Entry) -> bool:
    """Return whether a cell has failed."""
    return isinstance(entry, Cell) and entry.status == "error"


def _has_output(entry: Entry) -> bool:
    return isinstance(entry, Cell) and bool(len(entry.output) or entry.later)


def _can_run(entry: Entry) -> bool:
    return isinstance(entry, Question) or (isinstance(entry, Cell) and bool(entry.code.strip()))


def place_of(entry: Entry) -> int | None:
    """Return the cell of the notebook that an entry is, or has run."""
    return entry.place if isinstance(entry, Cell | NotebookWords) else None


_FITS: Mapping[str, Callable[[Entry], bool]] = {
    "entry-open": _has_output,
    "entry-copy-output": _has_output,
    "entry-edit": _can_run,
    "entry-again": _can_run,
    "entry-run-to": lambda entry: place_of(entry) is not None,
    "entry-run-all": lambda entry: place_of(entry) is not None,
    "entry-replace": lambda entry: isinstance(entry, Question) or (isinstance(entry, Cell) and entry.person and entry.place is None),
    "entry-explain": has_error,
    "entry-frames": has_error,
    "entry-traceback": has_error,
    "entry-mention": lambda entry: has_pictures(entry) and isinstance(entry, Cell) and entry.number is not None,
}
"""For commands that do not apply to every entry: whether one applies."""


_OF_CELLS = ("entry-undo", "entry-branch")
"""Offered where the entry's cells can be undone."""


def offers(entry: Entry, *, pinned: bool, undoable: bool, blocks: Sequence[str]) -> list[PaneCommand]:
    """Return the rows of an entry's menu.

    pinned: whether any entry is pinned. undoable: whether the entry's cells can be undone. blocks: the code blocks of the last answer.
    """
    left_out = {id for id, offered in (("entry-pinned", pinned), *((id, undoable) for id in _OF_CELLS)) if not offered}
    commands = [
        command
        for command in TRANSCRIPT_COMMANDS
        if (command.menu or command.id in _FITS or command.id == "entry-undo")
        and command.id not in left_out
        and (command.id not in _FITS or _FITS[command.id](entry))
    ]
    return commands + [
        PaneCommand(f"entry-block-{number}", f"code_block({number})", str(number), f"Code block {number}", code.strip(), "Transcript", menu=True)
        for number, code in enumerate(blocks[:MOST_BLOCKS], 1)
    ]
