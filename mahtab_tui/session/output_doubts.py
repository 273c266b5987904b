"""Tells what is probably wrong with a result, from the output alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MAX_OUTPUT_CHARS = 400
"""Longer outputs are not read: they show more than one result."""
_NAN = re.compile(
    r"""
    ^ (?: [^\n\[\]()]{0,200} [:=] )? [ ]{0,20} (?: np\.float\d\d\( )? nan \)? [.%]? [ ]{0,20} $
    | @\w{1,100}\[ nan \]
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A number that could not be computed, on a line of its own, after a label, or as in ``@mean[nan]``.
Those of tables and lists are missing values, which may well be shown."""
_NO_ROWS = re.compile(r"^(?:Empty DataFrame$|Series\(\[\], )|\A\[\]\Z", re.MULTILINE)
"""How a table, column or list without rows is shown."""
_CONDITION = re.compile(r"^(?:Name: .{1,200}, )?Length: \d{1,20}, dtype: bool$", re.MULTILINE)
"""The end of a long column of truth values."""


def output_doubts(output: str) -> Iterator[str]:
    """Yield a sentence for each thing that is probably wrong with a result.

    Args:
        output: What code has printed that ran without an error.
    """
    text = output.strip()
    if len(text) > _MAX_OUTPUT_CHARS:
        return
    if _NAN.search(text):
        yield (
            "a result is nan: there was no value to compute it from, or missing values were not"
            " left out."
        )
    if _NO_ROWS.search(text):
        yield "a result has no rows. Check what the conditions compare."
    if _CONDITION.search(text):
        yield (
            "a result is True or False for each row. Count the rows with .sum(), or select them with"
            " the name of the table and [condition]."
        )
