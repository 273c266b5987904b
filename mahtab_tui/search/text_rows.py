"""Recognises texts that consist of rows: tables in CSV, and JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

_SEPARATORS = (",", ";", "\t", "|")
"""What may separate the cells of a row of CSV."""
_HEAD_CHARS = 10_000
"""Rows are looked for in this many characters at the beginning of a text."""
_MIN_ROWS = 4
"""A text has rows if at least this many lines at its beginning are rows."""
_MAX_SAMPLE_LINES = 20
"""The first values of the columns are read from at most this many lines."""


class RowFormat(NamedTuple):
    """The form of the rows of a text."""

    form: Literal["CSV", "JSON lines"]
    columns: dict[str, str]
    """The first value of each column that is not empty, by the name of the column."""
    code: str
    """An expression of Python that reads all rows as dictionaries, if `context` is the text."""
    separator: str = ""
    """What separates the cells of a row of CSV; empty for JSON."""

    def has_cell(self, word: str, text: str) -> bool:
        """Return whether a word is the whole text of a cell.

        Args:
            word: The word.
            text: The text that consists of rows.
        """
        plain = re.escape(word)
        cell = f'"{plain}"'
        if self.separator:
            separator = re.escape(self.separator)
            cell = rf"(?:^|{separator})(?:{plain}|{cell})(?:{separator}|$)"
        return re.search(cell, text, re.MULTILINE) is not None


def read_rows(text: str) -> RowFormat | None:
    """Return the form of the rows of a text; None if its first lines are not rows."""
    lines = text[:_HEAD_CHARS].splitlines()
    if len(text) > _HEAD_CHARS:
        # The last line may be cut.
        lines.pop()
    lines = lines[:_MAX_SAMPLE_LINES]
    if len(lines) < _MIN_ROWS:
        return None
    for separator in _SEPARATORS:
        row_format = _read_csv(lines, separator)
        if row_format is not None:
            return row_format
    return _read_json_lines(lines)


def _read_csv(lines: Sequence[str], separator: str) -> RowFormat | None:
    """Return the form of a table in CSV; None if the lines do not look like one.

    Args:
        lines: The first lines of the text, of which the first has the names of the columns.
        separator: What separates the cells.
    """
    columns = lines[0].split(separator)
    if len(columns) < 2 or not all(name.isidentifier() for name in columns):
        return None
    if any(line.count(separator) != len(columns) - 1 for line in lines[:_MIN_ROWS]):
        return None

    delimiter = "" if separator == "," else f", delimiter={separator!r}"
    code = f"csv.DictReader(context.splitlines(){delimiter})"
    rows = [dict(zip(columns, line.split(separator), strict=False)) for line in lines[1:]]
    return RowFormat("CSV", _first_values(rows), code, separator)


def _read_json_lines(lines: Sequence[str]) -> RowFormat | None:
    """Return the form of a text with a JSON object in each line; None if the lines do not look like it.

    Args:
        lines: The first lines of the text.
    """
    rows: list[dict[str, str]] = []
    for line in lines:
        if not line.startswith("{"):
            break
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            break
        rows.append({name: _value_text(value) for name, value in values.items()})
    columns = _first_values(rows)
    if len(rows) < _MIN_ROWS or not columns:
        return None
    return RowFormat("JSON lines", columns, "map(json.loads, context.splitlines())")


def _value_text(value: object) -> str:
    return "" if value is None else str(value)


def _first_values(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the first value of each column that is not empty, in the order of the columns."""
    first_values: dict[str, str] = {}
    for row in rows:
        for column, value in row.items():
            if not first_values.get(column):
                first_values[column] = value
    return first_values
