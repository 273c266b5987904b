"""Texts that consist of rows, of CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

_SEPARATORS = (",", ";", "\t", "|")
"""Of the columns of a table."""
_ROW_HEAD_CHARS = 10_000
"""Characters of a text in which rows are looked for."""
_ROW_HEAD_LINES = 4
"""Lines that must be rows."""


class Rows(NamedTuple):
    """A text that consists of rows."""

    form: str
    """"CSV" or "JSON lines"."""
    columns: dict[str, str]
    """The first row: values by the names of columns."""
    code: str
    """An expression that reads all rows."""


def read_rows(text: str) -> Rows | None:
    """Return the form of a text whose first lines are rows; None for others."""
    head = text[:_ROW_HEAD_CHARS].splitlines()[:_ROW_HEAD_LINES]
    if len(head) < _ROW_HEAD_LINES:
        return None
    for separator in _SEPARATORS:
        rows = _read_csv(head, separator)
        if rows is not None:
            return rows
    return _read_json_lines(head)


def _read_csv(head: Sequence[str], separator: str) -> Rows | None:
    """Return the form of a table with this separator. head: its first lines."""
    columns = head[0].split(separator)
    if len(columns) < 2 or not all(name.isidentifier() for name in columns):
        return None
    if any(line.count(separator) != len(columns) - 1 for line in head):
        return None

    delimiter = "" if separator == "," else f", delimiter={separator!r}"
    code = f"csv.DictReader(context.splitlines(){delimiter})"
    first_row = dict(zip(columns, head[1].split(separator), strict=True))
    return Rows("CSV", first_row, code)


def _read_json_lines(head: Sequence[str]) -> Rows | None:
    """Return the form of a text with an object in each line. head: its first lines."""
    if not all(line.startswith("{") for line in head):
        return None
    try:
        first_row = json.loads(head[0])
    except (ValueError, RecursionError):
        return None
    if not first_row:
        return None
    values = {str(name): str(value) for name, value in first_row.items()}
    return Rows("JSON lines", values, "map(json.loads, context.splitlines())")
