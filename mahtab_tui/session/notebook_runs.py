"""Runs cells of a session's notebook in order, until one of them fails."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import warn
from mahtab_tui.bus.values import Status

if TYPE_CHECKING:
    from mahtab_tui.session.cells import Cells
    from mahtab_tui.session.inbox import Inbox


class NotebookRun:
    """Notebook cells that the user runs with one command. Used once, by `start`."""

    def __init__(self, inbox: Inbox, cells: Cells, log: logging.Logger) -> None:
        """
        Args:
            inbox: The queue in which the cells wait.
            cells: Runs them.
            log: Gets a warning if a cell fails, so that others do not run.
        """
        self._inbox = inbox
        self._cells = cells
        self._log = log
        self._queued_ids: dict[int, int] = {}
        """Ids of the inputs in the queue, by the position of their cell in the notebook."""

    def start(self, sources: Mapping[int, str]) -> None:
        """Queue cells. Those after a cell that fails leave the queue again.

        Args:
            sources: The code of the cells by their position, in the order in which they run.
        """

        def remember_ids(item_ids: Sequence[int]) -> None:
            self._queued_ids = dict(zip(sources, item_ids, strict=True))

        queued_cells = [
            (source, partial(self._run_cell, position, source))
            for position, source in sources.items()
        ]
        self._inbox.put_cells(queued_cells, on_queued=remember_ids)

    def _run_cell(self, position: int, source: str) -> None:
        """Run a cell whose turn has come."""
        del self._queued_ids[position]
        result = self._cells.run(source, position=position)
        if result.status is Status.OK:
            return

        cancelled_count = self._cancel_queued()
        if cancelled_count:
            verb = "failed" if result.status is Status.ERROR else f"was {result.status}"
            subject = f"{cancelled_count:,} cells" if cancelled_count > 1 else "the cell"
            warn(self._log, f"Notebook cell {position} {verb}, so {subject} after it did not run.")

    def _cancel_queued(self) -> int:
        """Remove the cells that still wait from the queue; return how many they were."""
        removed_items = [self._inbox.cancel(item_id) for item_id in self._queued_ids.values()]
        # The user may have removed some of them.
        return sum(item is not None for item in removed_items)
