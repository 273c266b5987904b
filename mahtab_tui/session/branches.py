"""Branches: sessions that begin as this one was before a cell, with its conversation and its namespace."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mahtab_tui.bus.handlers import Store, StoreError
from mahtab_tui.bus.records import emit
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.undo import Undo
from mahtab_tui.settings.model import Settings

if TYPE_CHECKING:
    from mahtab_tui.store.branches import BranchRow
    from mahtab_tui.store.sqlite import SqliteStore


class Branches:
    """Makes and lists the branches of a session. Methods wait, and raise `KernelError`."""

    def __init__(self, log: logging.Logger, settings: Settings, store: Store | None, kernel: Kernel, cells: Cells, undo: Undo) -> None:
        self._log = log
        self._settings = settings
        self._store = store
        self._kernel = kernel
        self._cells = cells
        self._undo = undo

    @property
    def session(self) -> str:
        """The id of this session."""
        return self._saved().session

    def create(self, cell: int | None = None) -> str:
        """Make a branch that begins before a cell, or before the question that the cell answers; returns its id. cell: None for what was run last."""
        store = self._saved()
        if not self._settings.keep_namespace:
            raise KernelError("A branch keeps the namespace on disk, and the setting keep_namespace is off.")
        from mahtab_tui.store.branches import branch_session
        from mahtab_tui.store.namespaces import keep_place, remove_namespace
        from mahtab_tui.store.resume import new_id

        copy = new_id()
        place = keep_place(copy, self._settings.keep_namespace_mb)
        if place is None:
            raise KernelError("The folder for kept variables cannot be written.")
        first = self._undo.last_step() if cell is None else self._cells.first_of_answer(cell)
        try:
            self._kernel.branch(first, place)
            for handler in self._log.handlers:
                handler.flush()
            record = branch_session(store.path, store.session, copy, first)
        except (KernelError, StoreError) as error:
            remove_namespace(copy)
            raise KernelError(str(error)) from None
        emit(self._log, record)
        return copy

    def family(self) -> list[BranchRow]:
        """Return the sessions that are connected with this one by branches, itself included, in the order of a tree."""
        store = self._saved()
        from mahtab_tui.store.branches import family_of

        try:
            return family_of(store.path, store.session)
        except StoreError as error:
            raise KernelError(str(error)) from None

    def _saved(self) -> SqliteStore:
        from mahtab_tui.store.sqlite import SqliteStore

        if not isinstance(self._store, SqliteStore):
            raise KernelError("This session is not saved, so it has no branches.")
        return self._store
