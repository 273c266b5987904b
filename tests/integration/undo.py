"""Cells that are run and undone."""

from __future__ import annotations

from dataclasses import replace

from mahtab_tui.kernel.values import Restoration
from tests.integration.kernels import Cells


def undone(cells: Cells, setup: str, change: str) -> Restoration:
    cells.text(setup)
    cells.text(change)
    return cells.kernel.undo(cells.number)


def assert_undone(cells: Cells, setup: str, change: str, look: str) -> Restoration:
    """Undo the change as previewed, redo it, undo it again; `look` shows the state before it."""
    cells.text(setup)
    output_before = cells.text(look)
    cells.text(change)
    number = cells.number
    preview = cells.kernel.preview_undo(number)
    done = cells.kernel.undo(number)
    assert preview == without_value_numbers(done)
    assert done.exact, done.not_restored
    cells.kernel.redo()
    assert cells.run(look).output != output_before
    cells.kernel.undo(number)
    assert cells.text(look) == output_before
    return done


def without_value_numbers(done: Restoration) -> Restoration:
    """Return what an undo has done as its preview says it, which does not compare values."""
    changes = tuple(replace(change, value_number=None) for change in done.changes)
    return replace(done, changes=changes)


def kinds(done: Restoration) -> dict[str, str]:
    return {change.name: change.change for change in done.changes}
