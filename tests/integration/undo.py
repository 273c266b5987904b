"""Cells that are run and undone."""

from __future__ import annotations

from mahtab_tui.kernel.values import Restoration
from tests.integration.kernels import Cells


def undone(cells: Cells, setup: str, change: str) -> Restoration:
    cells.text(setup)
    cells.text(change)
    return cells.kernel.undo(cells.number)


def kinds(done: Restoration) -> dict[str, str]:
    return {change.name: change.change for change in done.changes}
