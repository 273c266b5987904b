"""Approval mode ``review``: the model's code runs at once, and what it has changed waits until the
user keeps or undoes it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Notice, NotRestored, Review, emit
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.results import taken_back
from mahtab_tui.session.undo import Undo, cells_named, not_restored_rows, restored_rows

_STATES = {"keep": "kept", "all": "kept", "undo": "undone", "stop": "stopped"}


class Reviews:
    """Asks the user about what cells of the model have changed."""

    def __init__(self, log: logging.Logger, kernel: Kernel, undo: Undo) -> None:
        self._log = log
        self._kernel = kernel
        self._undo = undo

    def review(
        self, cell: int, request: str, party: str, wait: Callable[[str], Decision]
    ) -> Decision:
        """Show what a cell has changed, and wait until the user keeps or undoes it; returns `keep`
        at once if it has changed nothing.

        request: an id for the question. wait: returns the user's decision on it. If other cells
        have run meanwhile, an undo would take them back too, so the user is asked about all of
        them.
        """
        while True:
            asked = self._changes(cell, Review(request=f"{request}.review", party=party))
            if not (asked.changes or asked.not_restored):
                return Decision("keep")
            emit(self._log, asked.changed(state="waiting"))
            decision = wait(asked.request)
            if decision.action == "undo" and not self._take_back(asked.cells):
                continue
            emit(self._log, asked.changed(state=_STATES[decision.action], reason=decision.reason))
            return decision

    def _changes(self, cell: int, about: Review) -> Review:
        """Add what a cell, and those after it, have changed."""
        cells = self._undo.cells_from(cell)
        try:
            restoration = self._undo.preview(cell)
        except KernelError as error:
            return about.changed(
                cells=cells, not_restored=(NotRestored("", f"The changes are unknown. {error}"),)
            )
        return about.changed(
            cells=cells,
            changes=restored_rows(taken_back(restoration)),
            not_restored=not_restored_rows(restoration),
        )

    def _take_back(self, cells: tuple[int, ...]) -> bool:
        """Undo cells, unless others have run since, which the user has not seen here; returns
        whether they were undone."""
        now = self._undo.cells_from(cells[0])
        if now != cells:
            emit(
                self._log,
                Notice(
                    f"Another cell has run since. An undo would now cover {cells_named(now)}.",
                    level="warning",
                ),
            )
            return False
        try:
            self._undo.take_back(cells[0])
        except KernelError as error:
            emit(self._log, Notice(f"Nothing was undone. {error}", level="error"))
            return False
        return True
