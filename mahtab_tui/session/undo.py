"""Undo and redo of cells: the kernel restores the namespace, and records report it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Namespace, emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.cells import not_restored
from mahtab_tui.kernel.values import Author, Change, Provenance, Restoration
from mahtab_tui.session.cells import YOU
from mahtab_tui.session.info import change_row, variable_row

if TYPE_CHECKING:
    from mahtab_tui.session.components import Components

BUSY = "Something is running. Wait, or press Esc, then try again."


class Undo:
    """Undoes and redoes cells. Methods wait for the kernel and raise `KernelError`."""

    def __init__(self, parts: Components) -> None:
        self._log = parts.log
        self._kernel = parts.kernel
        self._namespace_store = parts.namespace_store
        self._cells = parts.cells
        self._turns = 0
        self._lock = threading.Lock()
        self._undone: set[int] = set()
        self._last: tuple[tuple[int, ...], Provenance] | None = None
        """The cells of the last undo, which a redo reverses, and the authors of names before it."""

    def describe_usage(self, steps: int, megabytes: int) -> str:
        """Describe how many cells can be undone, and how much memory only they use. steps,
        megabytes: the limits."""
        if not steps:
            return "Undo is off (undo_steps is 0)"
        undoable = self._kernel.undo_steps()
        used = sum(step.bytes for step in undoable) / 2**20
        return f"Undo: {len(undoable)} of {steps:,} cells, {used:,.0f} of {megabytes:,} MB"

    def last_step(self) -> int:
        """Return the cell that ran last, or the first cell of its answer."""
        steps = [step.cell for step in self._kernel.undo_steps()]
        if not steps:
            raise KernelError("There is nothing to undo.")
        turns = self._cells.turns
        first = steps[-1]
        turn = turns.get(first)
        for cell in reversed(steps[:-1]):
            if turn is None or turns.get(cell) != turn:
                break
            first = cell
        return first

    def cells_from(self, cell: int) -> tuple[int, ...]:
        """Return the cells that an undo covers: the given one and those after it, except those
        already undone."""
        numbers = range(max(cell, 1), self._cells.last + 1)
        found = tuple(number for number in numbers if number not in self._undone)
        if not found:
            raise KernelError(f"There is nothing to undo from cell {cell} on.")
        return found

    @contextmanager
    def during_turn(self) -> Iterator[None]:
        """Refuse `undo` and `redo` within this context, because a question is being answered."""
        self._turns += 1
        try:
            yield
        finally:
            self._turns -= 1

    def undo(self, cell: int) -> Restoration:
        """Restore the namespace to the state before a cell; the cells after it are undone too."""
        self._refuse_while_running(turns=True)
        return self.undo_during_turn(cell)

    def undo_during_turn(self, cell: int) -> Restoration:
        """Undo a cell and those after it, even while a question is being answered."""
        with self._lock:
            self._refuse_while_running()
            restored = self._kernel.undo(cell)
            undone = self.cells_from(cell)
            self._last = undone, self._cells.provenance.copy()
            self._undone.update(undone)
            self._cells.provenance.rewind(cell)
            text = f"undone: the namespace is as it was before cell {cell} ran."
            self._report(text, undone, restored, undone=True)
            return restored

    def redo(self) -> Restoration:
        """Reverse the last undo, if no other cell has run since."""
        with self._lock:
            self._refuse_while_running(turns=True)
            if self._last is None:
                raise KernelError("There is nothing to redo.")
            restored = self._kernel.redo()
            cells, authors = self._last
            self._last = None
            self._undone.difference_update(cells)
            self._cells.provenance.restore(authors)
            text = "redone: the namespace is as it was before the undo."
            self._report(text, cells, restored, undone=False)
            return restored

    def _refuse_while_running(self, *, turns: bool = False) -> None:
        if self._cells.running or (turns and self._turns):
            raise KernelError(BUSY)

    def _report(
        self, what: str, cells: tuple[int, ...], restored: Restoration, *, undone: bool
    ) -> None:
        self._namespace_store.schedule_write()
        subject = f"{name_cells(cells).capitalize()} {'was' if len(cells) == 1 else 'were'}"
        text = f"{subject} {what} {not_restored(restored)}".strip()
        emit(self._log, records.Undo(text, cells=cells, undone=undone))
        by_author: dict[Author | None, list[Change]] = {}
        for change in restored.changes:
            # Skip the environment, random numbers, and settings of libraries.
            if change.variable is None or change.variable.type:
                by_author.setdefault(self._cells.provenance.author(change.name), []).append(change)
        for author, changes in by_author.items():
            rows = tuple(change_row(change, change.before) for change in changes)
            party, cell = (author.party, author.cell) if author else (YOU, 0)
            emit(self._log, Namespace(changes=rows, cell=cell, party=party, restored=True))


def restored_rows(changes: Iterable[Change]) -> tuple[records.Change, ...]:
    """Convert the changes of a `Restoration` for records and the screen. A removed name keeps its
    current description."""
    return tuple(
        variable_row(change.before, change.change)
        if change.variable is None and change.before is not None
        else change_row(change, change.before)
        for change in changes
    )


def not_restored_rows(restoration: Restoration) -> tuple[records.NotRestored, ...]:
    return tuple(records.NotRestored(each.name, each.reason) for each in restoration.not_restored)


def name_cells(cells: Sequence[int]) -> str:
    """Name cells, such as `cell 3` or `cells 3 to 5`."""
    return f"cell {cells[0]}" if len(cells) == 1 else f"cells {cells[0]} to {cells[-1]}"
