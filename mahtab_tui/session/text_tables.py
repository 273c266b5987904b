"""Recognises tables and JSON lines by the beginning of a text."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections import Counter

_SEPARATORS = ",;\t|"
"""If several fit equally well, the first one is chosen."""
_RARE_SEPARATORS = "^:"
"""Chosen only if no other one separates anything, and all lines fit."""
_COLUMN_NAME = re.compile(r"[^\W\d][\w .()/%-]{0,60}")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+", re.ASCII)
_DECIMAL_POINT = re.compile(r"[-+]?\d+\.\d+", re.ASCII)
_MIN_TABLE_LINES = 3
"""A text of at least this many lines is a table if all have equally many fields."""
_MIN_JSON_LINES = 2
_EXAMINED_JSON_LINES = 50
"""Lines at the start of a text among which the first JSON values are looked for."""


def guess_separator(
    text: str, *, is_cut: bool, preferred: str = ",", tries_rare: bool = True
) -> str:
    """Guess the separator of a table by the beginning of its text.

    It is the one that gives the most lines the same number of fields. If several are equally good,
    the preferred one wins, then the first of `,`, `;`, tab, `|`. If none of these separates
    anything, `^` or `:` may, below a line of names.

    Args:
        text: The first lines.
        is_cut: Whether the last line may be incomplete.
        preferred: The separator that the file's suffix stands for.
        tries_rare: Whether `^` and `:` are considered, which also occur in prose and settings.
    """
    # A stable sort, and `max` returns the first of several equal ones.
    separators = sorted(_SEPARATORS, key=lambda separator: separator != preferred)
    shares = {separator: _even_line_share(text, separator, is_cut) for separator in separators}
    best = max(separators, key=shares.__getitem__)
    if shares[best]:
        return best
    if tries_rare:
        for separator in _RARE_SEPARATORS:
            if _has_names(text, separator) and _even_line_share(text, separator, is_cut) == 1:
                return separator
    return preferred


def _has_names(text: str, separator: str) -> bool:
    """Return whether the first line is one of names, and not a time or an address."""
    first_line = text.lstrip("\ufeff").partition("\n")[0].rstrip("\r")
    return all(_COLUMN_NAME.fullmatch(name.strip('"')) for name in first_line.split(separator))


def read_decimal_comma(text: str, separator: str) -> str:
    """Return a number of a table that has a decimal comma, such as ``307,5``.

    Empty if the separator is a comma, or if other numbers have a point.
    """
    if separator == ",":
        return ""
    try:
        rows = list(csv.reader(text.splitlines(keepends=True), delimiter=separator))
    except csv.Error:  # a field is too long
        return ""
    fields = [field.strip() for row in rows for field in row]
    if any(map(_DECIMAL_POINT.fullmatch, fields)):
        return ""
    return next(filter(_DECIMAL_COMMA.fullmatch, fields), "")


def looks_like_table(text: str, separator: str, *, is_cut: bool) -> bool:
    """Return whether all lines of a text have the same number of fields."""
    has_lines = text.count("\n") >= _MIN_TABLE_LINES
    return has_lines and _even_line_share(text, separator, is_cut) == 1


def _even_line_share(text: str, separator: str, is_cut: bool) -> float:
    """Return the share of the lines that have the commonest number of fields, from 0 to 1.

    It is 0 if the first line, with the names of the columns, does not fit them.
    """
    lines = text.splitlines(keepends=True)
    try:
        rows = csv.reader(lines, delimiter=separator)
        field_counts = [len(fields) for fields in rows if fields]
    except csv.Error:  # a field is too long
        return 0
    if is_cut and len(field_counts) > 1:
        field_counts.pop()
    if not field_counts:
        return 0

    header_count = field_counts[0]
    data_counts = field_counts[1:] or field_counts
    common_count, line_count = Counter(data_counts).most_common(1)[0]
    if common_count < 2:
        return 0
    # R writes no name for the column of row names.
    lacks_one_name = 1 < header_count == common_count - 1
    if header_count != common_count and not lacks_one_name:
        return 0
    return line_count / len(data_counts)


def is_json_lines(text: str) -> bool:
    """Return whether a text has a JSON value in each line, rather than being one value."""
    first_lines = itertools.islice(text.split("\n"), _EXAMINED_JSON_LINES)
    lines = [line for line in first_lines if line.strip()]
    if len(lines) < _MIN_JSON_LINES:
        return False
    try:
        values = [json.loads(line) for line in lines[:_MIN_JSON_LINES]]
    except (ValueError, RecursionError):
        return False
    return all(isinstance(value, (dict, list)) for value in values)
