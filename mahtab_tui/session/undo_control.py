"""Undoes and redoes cells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.provenance import Provenance
from mahtab_tui.kernel.restorations import describe_restoration
from mahtab_tui.kernel.values import Restoration
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.runtime import Runtime

BUSY = "Something is running. Wait, or press Esc, then try again."


class _LastUndo(NamedTuple):
    """The last undo, which a redo reverses."""

    cells: tuple[int, ...]
    provenance: Provenance
    """The authors of names before the undo."""


class UndoControl:
    """Undoes and redoes cells. Methods wait for the kernel and raise `KernelError`."""

    def __init__(
        self,
        runtime: Runtime,
        cells: Cells,
        namespace_store: NamespaceStore,
        is_answering: Callable[[], bool],
    ) -> None:
        """is_answering: whether the model answers a question."""
        self._runtime = runtime
        self._cells = cells
        self._namespace_store = namespace_store
        self._is_answering = is_answering
        self._lock = threading.Lock()
        self._undone: set[int] = set()
        """Cells whose changes are undone now."""
        self._last: _LastUndo | None = None
        """None if there is nothing to redo."""

    def last_step(self) -> int:
        """Return the cell that ran last, or the first cell of its answer."""
        cells = [step.cell for step in self._runtime.kernel.undo_steps()]
        if not cells:
            raise KernelError("There is nothing to undo.")

        turns = {ended.started.cell: ended.started.turn for ended in list(self._cells.finished)}
        first_cell = cells[-1]
        turn = turns.get(first_cell)
        if turn is None:
            return first_cell
        for cell in reversed(cells):
            if turns.get(cell) != turn:
                break
            first_cell = cell
        return first_cell

    def cells_from(self, cell: int) -> tuple[int, ...]:
        """Return a cell and those after it, without those already undone."""
        numbers = range(max(cell, 1), self._cells.last + 1)
        cells = tuple(number for number in numbers if number not in self._undone)
        if not cells:
            raise KernelError(f"There is nothing to undo from cell {cell} on.")
        return cells

    def undo(self, cell: int, *, during_turn: bool = False) -> Restoration:
        """Restore the namespace to the state before a cell.

        Args:
            cell: The first cell to undo; those after it are undone, too.
            during_turn: Whether this is allowed while a question is being answered.

        Returns:
            What was restored, and what could not be.
        """
        authors = self._cells.authors
        with self._lock:
            self._refuse_while_running(turns=not during_turn)
            restoration = self._runtime.kernel.undo(cell)
            undone_cells = self.cells_from(cell)
            self._last = _LastUndo(undone_cells, authors.provenance)
            self._undone.update(undone_cells)
            authors.provenance = authors.provenance.before(cell)
            self._report(undone_cells, restoration, f"before cell {cell} ran", undone=True)
            return restoration

    def redo(self) -> Restoration:
        """Reverse the last undo, if no other cell has run since."""
        with self._lock:
            self._refuse_while_running()
            if self._last is None:
                raise KernelError("There is nothing to redo.")
            restoration = self._runtime.kernel.redo()
            last_undo = self._last
            self._last = None
            self._cells.authors.provenance = last_undo.provenance
            self._undone.difference_update(last_undo.cells)
            self._report(last_undo.cells, restoration, "before the undo", undone=False)
            return restoration

    def _refuse_while_running(self, *, turns: bool = True) -> None:
        """Raise `KernelError` while a cell runs. turns: also while the model answers a question."""
        if self._cells.running or (turns and self._is_answering()):
            raise KernelError(BUSY)

    def _report(
        self, cells: tuple[int, ...], restoration: Restoration, moment: str, *, undone: bool
    ) -> None:
        """Log an undo or a redo, and the changes that it made.

        Args:
            cells: The cells that were undone or redone.
            restoration: What was restored.
            moment: That of the restored state, such as ``before cell 2 ran``.
            undone: Whether this was an undo.
        """
        self._namespace_store.schedule_write()
        auxiliary = "was" if len(cells) == 1 else "were"
        verb = "undone" if undone else "redone"
        sentence = f"{name_cells(cells).capitalize()} {auxiliary} {verb}."
        text = f"{sentence} {describe_restoration(restoration, moment)}"
        emit(self._runtime.log, records.Undo(text, cells=cells, undone=undone))
        self._cells.authors.report_restoration(restoration.changes)


def name_cells(cells: Sequence[int]) -> str:
    """Name cells that follow each other, as in ``cells 2 to 4``."""
    if len(cells) == 1:
        return f"cell {cells[0]}"
    return f"cells {cells[0]} to {cells[-1]}"
