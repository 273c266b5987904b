"""Texts that consist of rows, of CSV or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SEPARATORS = (",", ";", "\t", "|")
"""What may separate the columns of a table."""
_ROW_HEAD_CHARS = 10_000
"""Characters of a text in which rows are looked for."""
_ROW_HEAD_LINES = 4
"""Lines that must be rows."""
_SAMPLE_LINES = 20
"""The first values of the columns are read from at most this many lines."""


class RowFormat(NamedTuple):
    """A text that consists of rows."""

    form: str
    """"CSV" or "JSON lines"."""
    columns: dict[str, str]
    """The first value of each column that is not empty, by the name of the column."""
    code: str
    """An expression that reads all rows."""
    separator: str = ""
    """What separates the cells of a row of CSV."""

    def has_cell(self, word: str, text: str) -> bool:
        """Return whether a word is the whole text of a cell."""
        cell = f'"{re.escape(word)}"'
        if self.separator:
            edge = re.escape(self.separator)
            cell = rf"(?:^|{edge})(?:{re.escape(word)}|{cell})(?:{edge}|$)"
        return re.search(cell, text, re.MULTILINE) is not None


def read_rows(text: str) -> RowFormat | None:
    """Return the form of a text whose first lines are rows; None for others."""
    head = text[:_ROW_HEAD_CHARS].splitlines()
    if len(text) > _ROW_HEAD_CHARS:
        # The last line may be cut.
        head.pop()
    head = head[:_SAMPLE_LINES]
    if len(head) < _ROW_HEAD_LINES:
        return None
    for separator in _SEPARATORS:
        rows = _read_csv(head, separator)
        if rows is not None:
            return rows
    return _read_json_lines(head)


def _read_csv(head: Sequence[str], separator: str) -> RowFormat | None:
    """Return the form of a table with this separator. head: its first lines."""
    columns = head[0].split(separator)
    if len(columns) < 2 or not all(name.isidentifier() for name in columns):
        return None
    if any(line.count(separator) != len(columns) - 1 for line in head[:_ROW_HEAD_LINES]):
        return None

    delimiter = "" if separator == "," else f", delimiter={separator!r}"
    code = f"csv.DictReader(context.splitlines(){delimiter})"
    sample = [dict(zip(columns, line.split(separator), strict=False)) for line in head[1:]]
    return RowFormat("CSV", _first_values(sample), code, separator)


def _read_json_lines(head: Sequence[str]) -> RowFormat | None:
    """Return the form of a text with an object in each line. head: its first lines."""
    sample: list[dict[str, str]] = []
    for line in head:
        if not line.startswith("{"):
            break
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            break
        sample.append(
            {str(name): "" if value is None else str(value) for name, value in values.items()}
        )
    columns = _first_values(sample)
    if len(sample) < _ROW_HEAD_LINES or not columns:
        return None
    return RowFormat("JSON lines", columns, "map(json.loads, context.splitlines())")


def _first_values(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the first value of each column that is not empty, in the order of the columns."""
    values: dict[str, str] = {}
    for row in rows:
        for name, value in row.items():
            if not values.get(name):
                values[name] = value
    return values
