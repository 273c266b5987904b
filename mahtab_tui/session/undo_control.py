"""Undoes and redoes cells, alone or with the conversation about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.provenance import Provenance
from mahtab_tui.kernel.restorations import (
    describe_restoration,
    describe_restored_files,
    not_restored,
)
from mahtab_tui.kernel.values import WHOLE_UNDO, Restoration, UndoScope
from mahtab_tui.session.cell_ranges import format_cell_ranges
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.entry_changes import Entries
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.runtime import Runtime

_KERNEL_REPLACED = (
    "Variables and files stay as they are: the kernel is another one since the rewind."
)
BUSY = "Something is running. Wait, or press Esc, then try again."
NOTHING_RESTORED = Restoration(changes=(), not_restored=(), exact=True, files_unwatched="")


class UndoTarget(NamedTuple):
    """What an undo takes back."""

    cell: int | None
    """The first cell to undo; None for none."""
    scope: UndoScope = WHOLE_UNDO
    """What is taken back of the cells."""
    entry: str = ""
    """The first entry that leaves the conversation; empty for none."""


class _DoneUndo(NamedTuple):
    """An undo that was done, which a redo reverses."""

    target: UndoTarget
    cells: tuple[int, ...]
    """The cells whose changes of the namespace were undone."""
    provenance: Provenance
    """The authors of names before the undo."""
    last_cell: int
    """The newest cell at the undo."""
    last_turn: int
    """The newest question at the undo."""
    kernel_pid: int
    """The process of the kernel at the undo. Another one cannot reverse it."""


class UndoControl:
    """Undoes and redoes cells. Methods wait for the kernel and raise `KernelError`."""

    def __init__(
        self,
        runtime: Runtime,
        cells: Cells,
        namespace_store: NamespaceStore,
        entries: Entries,
        is_answering: Callable[[], bool],
        last_turn: Callable[[], int],
    ) -> None:
        """
        Args:
            runtime: What the session works with.
            cells: Runs the cells.
            namespace_store: Saves the variables.
            entries: Removes entries from the conversation.
            is_answering: Whether the model answers a question.
            last_turn: The number of the newest question.
        """
        self._runtime = runtime
        self._cells = cells
        self._namespace_store = namespace_store
        self._entries = entries
        self._is_answering = is_answering
        self._last_turn = last_turn
        self._lock = threading.Lock()
        self.undone_cells: set[int] = set()
        """Cells whose changes of the namespace are undone now."""
        for record in runtime.past:
            if isinstance(record, records.Undo):
                self._mark_undone(record.cells, undone=record.undone)
        self._done_undos: list[_DoneUndo] = []
        """What can be done again, the newest last."""

    def last_step(self) -> int:
        """Return the cell that ran last, or the first cell of its answer. Raises `KernelError`."""
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
        cells = self.remaining_cells(cell)
        if not cells:
            raise KernelError(f"There is nothing to undo from cell {cell} on.")
        return cells

    def remaining_cells(self, cell: int) -> tuple[int, ...]:
        """Return a cell and those after it, without those already undone; perhaps none."""
        numbers = range(max(cell, 1), self._cells.last + 1)
        return tuple(number for number in numbers if number not in self.undone_cells)

    def undo(self, cell: int, *, during_turn: bool = False) -> Restoration:
        """Restore the namespace and files to the state before a cell.

        Args:
            cell: The first cell to undo. Those after it are also undone.
            during_turn: Whether this is allowed while a question is being answered.

        Returns:
            What was restored, and what could not be.
        """
        return self.take_back(UndoTarget(cell), during_turn=during_turn)

    def take_back(self, target: UndoTarget, *, during_turn: bool = False) -> Restoration:
        """Take back what a target names, as one step. Arguments and result are those of `undo`."""
        authors = self._cells.authors
        with self._lock:
            self._refuse_while_running(turns=not during_turn)
            cells: tuple[int, ...] = ()
            restoration = NOTHING_RESTORED
            provenance = authors.provenance
            if target.cell is not None:
                restoration = self._runtime.kernel.undo(target.cell, target.scope)
                if target.scope.namespace:
                    cells = self.cells_from(target.cell)
                    authors.provenance = provenance.before(target.cell)
            done_undo = _DoneUndo(
                target=target,
                cells=cells,
                provenance=provenance,
                last_cell=self._cells.last,
                last_turn=self._last_turn(),
                kernel_pid=self._kernel_pid,
            )
            self._done_undos.append(done_undo)
            self._mark_undone(cells, undone=True)
            if target.cell is not None:
                moment = f"before cell {target.cell} ran"
                self._report(target.scope, cells, restoration, moment, undone=True)
            if target.entry:
                self._entries.replace(target.entry)
            return restoration

    def redo(self) -> Restoration:
        """Reverse the last undo, if no other cell has run since.

        If the kernel has been replaced, only the conversation comes back.
        """
        with self._lock:
            self._refuse_while_running()
            last_undo = self._last_undo()
            self._refuse_if_continued(last_undo)
            restoration = NOTHING_RESTORED
            is_same_kernel = last_undo.kernel_pid == self._kernel_pid
            if last_undo.target.cell is not None and is_same_kernel:
                restoration = self._redo_cells(last_undo)
            self._done_undos.pop()
            if last_undo.target.entry:
                self._entries.restore(last_undo.target.entry)
            if last_undo.target.cell is not None and not is_same_kernel:
                emit(self._runtime.log, records.Notice(_KERNEL_REPLACED, level="warning"))
            return restoration

    def _redo_cells(self, last_undo: _DoneUndo) -> Restoration:
        """Do again what an undo has taken back of cells."""
        scope = last_undo.target.scope
        restoration = self._runtime.kernel.redo(scope)
        if scope.namespace:
            self._cells.authors.provenance = last_undo.provenance
        self._mark_undone(last_undo.cells, undone=False)
        self._report(scope, last_undo.cells, restoration, "before the undo", undone=False)
        return restoration

    @property
    def _kernel_pid(self) -> int:
        return self._runtime.kernel.info().pid

    def _last_undo(self) -> _DoneUndo:
        """Return the last undo of which anything can be done again. Raises `KernelError`."""
        while self._done_undos:
            last_undo = self._done_undos[-1]
            if last_undo.target.entry or last_undo.kernel_pid == self._kernel_pid:
                return last_undo
            self._done_undos.pop()
        raise KernelError("There is nothing to redo.")

    def _refuse_if_continued(self, last_undo: _DoneUndo) -> None:
        """Raise `KernelError` if the session has gone on since an undo that the kernel alone does not
        know completely."""
        target = last_undo.target
        is_known_to_kernel = target.scope.namespace and not target.entry
        if not is_known_to_kernel and last_undo.last_cell != self._cells.last:
            raise KernelError("There is nothing to redo: cells have run since the last undo.")
        if target.entry and last_undo.last_turn != self._last_turn():
            raise KernelError("There is nothing to redo: you have asked the model since.")

    def _mark_undone(self, cells: Sequence[int], *, undone: bool) -> None:
        """Note that cells were undone or redone."""
        if undone:
            self.undone_cells.update(cells)
        else:
            self.undone_cells.difference_update(cells)

    def _refuse_while_running(self, *, turns: bool = True) -> None:
        """Raise `KernelError` while a cell runs.

        Args:
            turns: Also while the model answers a question.
        """
        if self._cells.running or (turns and self._is_answering()):
            raise KernelError(BUSY)

    def _report(
        self,
        scope: UndoScope,
        cells: tuple[int, ...],
        restoration: Restoration,
        moment: str,
        *,
        undone: bool,
    ) -> None:
        """Log an undo or a redo, and the changes that it made.

        Args:
            scope: What was taken back or done again.
            cells: The cells that were undone or redone.
            restoration: What was restored.
            moment: The moment of the restored state, such as ``before cell 2 ran``.
            undone: Whether this was an undo.
        """
        self._namespace_store.schedule_write()
        text = describe_restored_parts(scope, restoration, moment)
        if scope.namespace:
            auxiliary = "was" if len(cells) == 1 else "were"
            verb = "undone" if undone else "redone"
            text = f"{name_cells(cells).capitalize()} {auxiliary} {verb}. {text}"
        emit(self._runtime.log, records.Undo(text, cells=cells, undone=undone))
        self._cells.authors.report_restoration(restoration.changes)


def describe_restored_parts(scope: UndoScope, restoration: Restoration, moment: str) -> str:
    """Return sentences about what an undo or a redo has restored, what it could not restore, and
    what it has left alone.

    Args:
        scope: What was taken back or done again.
        restoration: What was restored.
        moment: The moment of the restored state, such as ``before cell 2 ran``.
    """
    if not scope.namespace:
        return _describe_files(restoration, moment)
    text = describe_restoration(restoration, moment)
    if not scope.files:
        text += " Files stay as they are."
    return text


def _describe_files(restoration: Restoration, moment: str) -> str:
    """Say that files alone were restored.

    Args:
        moment: That of their state.
    """
    subject = "Files are" if restoration.exact else "All files but the following are"
    sentences = (
        f"{subject} as they were {moment}; variables stay as they are.",
        not_restored(restoration),
        describe_restored_files(restoration),
    )
    return " ".join(filter(None, sentences))


def name_cells(cells: Sequence[int]) -> str:
    """Name cells in ascending order, as in ``cell 2`` or ``cells 2, 4 and 6 to 9``."""
    noun = "cell" if len(cells) == 1 else "cells"
    return f"{noun} {format_cell_ranges(cells)}"
