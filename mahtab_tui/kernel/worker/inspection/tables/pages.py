"""Pages of a sorted and filtered table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from ..conditions import parse
from ..pace import LookError, Pace
from .column import Table

Sort = Optional[Sequence[Any]]
"""A column and whether it is descending; None for the table's own order."""
Filters = Sequence[Sequence[Any]]
"""Columns and the conditions that the user typed for them."""


class Arrangement:
    """Caches the rows of a table, sorted and filtered as last requested."""

    def __init__(self) -> None:
        self._last: tuple[Any, tuple[Any, ...], Sequence[int]] = None, (), ()
        """Table, request and rows, read and written as one tuple, since several threads ask."""

    def rows(self, value: Any, table: Table, sort: Sort, filters: Filters, pace: Pace) -> Sequence[int] | None:
        """Return the positions of rows; None for all in the table's order."""
        if not sort and not filters:
            return None
        wanted = (table.rows, table.columns, tuple(sort) if sort else None, tuple(map(tuple, filters)))
        of, before, rows = self._last
        if value is not of or wanted != before:
            rows = arranged(table, sort, filters, pace)
            self._last = value, wanted, rows
        return rows


def arranged(table: Table, sort: Sort, filters: Filters, pace: Pace) -> Sequence[int]:
    """Return the positions of the rows that match all filters, sorted."""
    found: Sequence[int] | None = None
    for column, text in filters:
        fitting = table.column(column).matching(parse(text), pace)
        if found is None:
            found = fitting
        else:
            kept = bytearray(table.rows)  # a set of ten million rows would take a gigabyte
            for row in found:
                kept[row] = 1
            pace.check()
            found = [row for row in map(int, fitting) if kept[row]]
        pace.check()
    if not sort:
        return range(table.rows) if found is None else found
    return table.column(sort[0]).order(sort[1], found, pace)


def page(table: Table, rows: Sequence[int] | None, start: int, stop: int, columns: Sequence[int], pace: Pace) -> dict[str, Any]:
    """Return some rows of some columns as texts."""
    total = table.rows if rows is None else len(rows)
    part: Sequence[int] = range(min(start, total), min(stop, total)) if rows is None else [int(row) for row in rows[start:stop]]
    cells = []
    for column in columns:
        pace.check()
        cells.append(_texts(table, column, part))
    return {"rows": total, "of": table.rows, "columns": table.columns, "positions": list(part), "labels": table.labels(part), "cells": cells}


def headings(table: Table, columns: Sequence[int]) -> list[dict[str, Any]]:
    """Return name and type of some columns."""
    return [_heading(table, column) for column in columns if 0 <= column < table.columns]


def _heading(table: Table, number: int) -> dict[str, Any]:
    try:
        column = table.column(number)
    except LookError:
        return {"name": table.name(number), "type": "?", "right": False}
    return {"name": table.name(number), "type": column.type, "right": column.right}


def _texts(table: Table, number: int, rows: Sequence[int]) -> list[str | None]:
    try:
        return table.column(number).texts(rows)
    except LookError:
        return ["?"] * len(rows)
