"""The menu of an entry, and what an undo of it takes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mahtab_tui.bus.tags import PICTURES
from mahtab_tui.tui.cell_output.output import DisplayLine
from mahtab_tui.tui.commands.in_panes import TRANSCRIPT_COMMANDS
from mahtab_tui.tui.commands.pane_command import PaneCommand
from mahtab_tui.tui.panes.transcript.entries import (
    Cell,
    Entry,
    Note,
    NotebookWords,
    Question,
    Words,
)

MOST_FIGURES = 4
"""Maximum number of figures of an answer that lead to their cells."""
_LONGEST_FIGURE = 24
"""Maximum characters of such a figure; longer ones are cut."""


def has_pictures(entry: Entry) -> bool:
    return isinstance(entry, Cell) and any(
        isinstance(line, DisplayLine) and line.mime in PICTURES for line in entry.output
    )


def has_error(entry: Entry) -> bool:
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
    "entry-replace": lambda entry: (
        isinstance(entry, Question)
        or (isinstance(entry, Cell) and entry.person and entry.place is None)
    ),
    "entry-explain": has_error,
    "entry-frames": has_error,
    "entry-mention": lambda entry: (
        has_pictures(entry) and isinstance(entry, Cell) and entry.number is not None
    ),
}
"""For commands that do not apply to every entry: whether one applies."""


def offers(entry: Entry, *, pinned: bool, undoable: bool) -> list[PaneCommand]:
    """Return the rows of an entry's menu. pinned: whether any entry is pinned. undoable: whether
    the entry's cells can be undone."""
    offered = {"entry-pinned": pinned, "entry-undo": undoable}
    commands = [
        command
        for command in TRANSCRIPT_COMMANDS
        if (command.menu or command.id in _FITS or command.id == "entry-undo")
        and offered.get(command.id, True)
        and (command.id not in _FITS or _FITS[command.id](entry))
    ]
    return [*commands, *_figure_rows(entry)]


def _figure_rows(entry: Entry) -> list[PaneCommand]:
    """Return the rows that lead from an answer's figures to the cells that printed them."""
    figures = (
        [figure for figure in entry.own_figures if figure.cell is not None]
        if isinstance(entry, Words)
        else []
    )
    rows = []
    for number, (text, _, cell) in enumerate(figures[:MOST_FIGURES], 1):
        shown = text if len(text) <= _LONGEST_FIGURE else f"{text[: _LONGEST_FIGURE - 1]}…"
        title = f"Go to where {shown} comes from (cell {cell})"
        rows.append(
            PaneCommand(
                f"entry-figure-{number}",
                f"go_to_cell({cell})",
                "",
                title,
                "",
                "Transcript",
                menu=True,
            )
        )
    return rows


def cell_to_undo(entries: Sequence[Entry], entry: Entry) -> Cell | None:
    """Return the cell from which an undo of an entry begins; None if no cell belongs to it.

    That is a cell itself. For a question, and for words and tool calls of its answer, it is the
    answer's first cell that was not undone, so that one undo takes back the whole answer.
    """
    if isinstance(entry, Cell):
        return entry if entry.number is not None else None
    if isinstance(entry, Note | NotebookWords) or entry not in entries:
        return None
    ran = list(_cells_of_answer(entries, entries.index(entry)))
    return next((cell for cell in ran if not cell.undone), ran[0] if ran else None)


def _cells_of_answer(entries: Sequence[Entry], place: int) -> Iterator[Cell]:
    """Yield the cells that the model has run for the question to which an entry belongs."""
    first = next(
        (number for number in range(place, -1, -1) if isinstance(entries[number], Question)), 0
    )
    for entry in entries[first + 1 :]:
        if isinstance(entry, Question):
            return
        if (
            isinstance(entry, Cell)
            and not entry.person
            and entry.guest is None
            and entry.number is not None
        ):
            yield entry
