"""Inspects objects of a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.inspector_client import (
    ColumnStatistics,
    InspectedObject,
    InspectorClient,
    ObjectPath,
    TableArrangement,
    TablePage,
)
from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import Cells, running

TRAP = """
touched = []

def trap(name):
    def touch(self, *args, **kwargs):
        touched.append((type(self).__name__, name))
        raise SystemExit(name)
    return touch
"""
"""Methods that must not run: a trap notes its name in ``touched`` and ends the cell."""


class Looking:
    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.look = InspectorClient(cells.kernel)

    def run(self, code: str) -> None:
        result = self.cells.run(code)
        assert result.status is Status.OK, result.output

    def open(self, name: str, *steps: Any) -> InspectedObject:
        return self.look.open((*named(name), *steps))

    def figures(self, name: str, column: int | None = None) -> ColumnStatistics:
        """Return statistics of a column, or of a whole array."""
        if column is None:
            return self.look.array_figures(named(name))
        return self.look.figures(named(name), column)

    def table(
        self,
        name: str,
        *columns: int,
        start: int = 0,
        stop: int = 100,
        sort: tuple[int, bool] | None = None,
        **filters: str,
    ) -> TablePage:
        """Return a page; ``c2="> 5"`` filters column 2."""
        arranged = TableArrangement(
            sort, tuple((int(column[1:]), text) for column, text in filters.items())
        )
        return self.look.rows(named(name), start, stop, columns, arranged)


def named(name: str) -> ObjectPath:
    return (["name", name],)


@contextmanager
def looking(undo_steps: int = 20) -> Iterator[Looking]:
    with running(ProcessKernel(undo_steps=undo_steps)) as cells:
        yield Looking(cells)
