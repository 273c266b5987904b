"""Cells that are run and undone, for the tests of undo."""

from __future__ import annotations

from mahtab_tui.kernel.values import Restoration
from tests.integration.kernels import Cells


def undone(cells: Cells, setup: str, change: str) -> Restoration:
    """Run a cell that prepares and one that changes something, and undo the second."""
    cells.text(setup)
    cells.text(change)
    return cells.kernel.undo(cells.number)


def kinds(done: Restoration) -> dict[str, str]:
    """Return the change of each name."""
    return {change.name: change.change for change in done.changes}
