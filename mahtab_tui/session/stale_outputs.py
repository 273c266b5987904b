"""Tells the model which outputs no longer hold, because variables have changed since."""

from __future__ import annotations

from collections.abc import Iterable

from mahtab_tui.bus.records import Namespace, Record, RecordHandler, ReplIn, Undo
from mahtab_tui.bus.staleness import Staleness, describe_stale

_MAX_CELLS = 5
"""Cells that are described at once, the newest; more are counted."""
_MAX_VARIABLES = 5
"""Variables of a cell that are named."""


class StaleOutputs(RecordHandler):
    """A log handler that follows the cells of a session, whoever runs them, and knows of which
    stale ones the model has been told.

    Args:
        past: The records of a resumed session.
    """

    kinds = (ReplIn, Namespace, Undo)

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._staleness = Staleness()
        self._stale_cells: set[int] = set()
        """Those that have not run again."""
        self._told_cells: set[int] = set()
        """Stale cells of which the model knows."""
        for record in past:
            self.fold(record)

    def fold(self, record: Record) -> None:
        match record:
            case ReplIn(cell=int(cell), text=code):
                self._note(self._staleness.start(cell, code))
            case Namespace():
                self._note(self._staleness.fold(record))
            case Undo(cells=cells, undone=undone):
                self._note(self._staleness.undo(cells, undone=undone))

    def _note(self, changed_cells: Iterable[int]) -> None:
        for cell in changed_cells:
            has_run_again = self._staleness.rerun_of(cell) is not None
            if self._staleness.inputs_of(cell) and not has_run_again:
                self._stale_cells.add(cell)
            else:
                self._stale_cells.discard(cell)
                self._told_cells.discard(cell)

    def tell(self) -> str:
        """Describe the cells that the model does not know to be stale, a line each; empty if there
        are none. The model knows them from then on. Any thread may call it."""
        self.acquire()
        try:
            # The model learns by other means which cells were undone.
            new_cells = sorted(self._stale_cells - self._told_cells - self._staleness.undone_cells)
            self._told_cells.update(new_cells)
            lines = [self._describe(cell) for cell in new_cells[-_MAX_CELLS:]]
            omitted_count = len(new_cells) - _MAX_CELLS
            if omitted_count > 0:
                noun = "cell" if omitted_count == 1 else "cells"
                lines.insert(0, f"{omitted_count:,} earlier {noun}")
            return "\n".join(lines)
        finally:
            self.release()

    def _describe(self, cell: int) -> str:
        line = f"In {cell} {describe_stale(self._staleness.inputs_of(cell))}"
        variables = self._staleness.made_by(cell)[:_MAX_VARIABLES]
        return f"{line}; it made {', '.join(variables)}" if variables else line
