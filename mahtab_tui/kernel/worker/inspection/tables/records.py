"""Reads a list of dicts as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .column import Column, Table
from .objects import ObjectColumn

MOST = 5_000
"""The most columns; records with more keys are shown as a tree."""
LOOKED_AT = 200
"""The rows at the start of a list that decide whether it is a table, and its columns."""


class RecordTable(Table):
    """A list of dicts with string keys."""

    def __init__(self, rows: list[Any], names: Sequence[str]) -> None:
        self._rows = rows
        self._names = names
        self.rows = len(rows)
        self.columns = len(names)

    def name(self, column: int) -> str:
        return self._names[column]

    def column(self, column: int) -> Column:
        return ObjectColumn(_Values(self._rows, self._names[column]), "")

    def series(self, column: int) -> Any:
        values = _Values(self._rows, self._names[column])
        return [values[row] for row in range(len(self._rows))]

    def expression(self, column: int) -> str:
        return ""

    def cell_expression(self, row: int, column: int) -> str:
        return f"[{row}][{self._names[column]!r}]"


class _Values:
    """The values of one key."""

    def __init__(self, rows: list[Any], key: str) -> None:
        self._rows = rows
        self._key = key

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Any:
        record = self._rows[row]
        if type(record) is not dict:
            return None
        # A lookup would call `__eq__` of keys of other types.
        for key, value in list(record.items()):
            if type(key) is str and key == self._key:
                return value
        return None


def record_table(value: Any) -> RecordTable | None:
    """Return a list as a table if its first elements are all dicts with string keys, else None."""
    if type(value) is not list or not value:
        return None
    names: dict[str, None] = {}
    for record in value[:LOOKED_AT]:
        if type(record) is not dict or dict.__len__(record) > MOST:
            return None
        for key in list(record):
            if type(key) is not str:
                return None
            names[key] = None
        if len(names) > MOST:
            return None
    return RecordTable(value, list(names)) if names else None
