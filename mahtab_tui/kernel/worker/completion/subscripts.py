"""Finds what an object can be subscripted with: columns of tables, keys of dicts."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ..secret_names import summary_of
from ..statics import loaded, mro_of
from ..summary import type_name
from .candidates import Candidate, fixed
from .results import Instance

MOST = 100_000
"""Columns and keys that are examined."""


def columns_of(value: object) -> list[str]:
    """Return the names of a table's columns; of an `Instance`, those that it probably has."""
    value = value.table if type(value) is Instance else value
    try:
        return [name for name in _columns(value) if type(name) is str]
    except Exception:  # a library's object in an inconsistent state
        return []


def _columns(value: Any) -> list[Any]:
    cls = type(value)
    if cls is loaded("pandas", "DataFrame"):
        return list(islice(value.columns, MOST))
    if cls is loaded("pandas", "Series"):
        return list(islice(value.index, 1_000))
    if cls is loaded("polars", "DataFrame"):
        return list(value.columns)
    if cls is loaded("pyarrow", "Table"):
        return list(value.column_names)
    if cls is loaded("numpy", "ndarray"):
        return list(value.dtype.names or ())
    return []


_LITERALS = (str, int, bytes, bool, float, type(None))


def keys_of(value: object) -> list[Candidate]:
    """Return the keys that can be written as literals. The label of a string is its text, of other
    keys their literal."""
    columns = columns_of(value)
    if columns:
        return [Candidate(name, fixed("column"), name, 0) for name in columns]
    if dict not in mro_of(type(value)):
        return []
    items: list[tuple[Any, Any]] = list(islice(dict.items(value), MOST))  # type: ignore[arg-type]
    return [_key(key, item) for key, item in items if type(key) in _LITERALS]


def _key(key: Any, item: Any) -> Candidate:
    label = key if type(key) is str else repr(key)
    return Candidate(
        label,
        lambda: ("key", f"{type_name(item)}  {summary_of(label, item)}".rstrip()),
        label if type(key) is str else None,
        0,
    )


def literal(text: str, quote: str, after: str) -> str:
    """Escape a text for a string that was opened with a prefix and quotes, and close the string
    unless it is closed already."""
    marks = quote.lstrip("rRbBuUfFtT")
    prefix = quote[: len(quote) - len(marks)].lower()
    if "r" not in prefix:
        text = "".join(
            c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode("ascii")
            for c in text
        )
        text = text.replace(marks[0], "\\" + marks[0])
    return text if after.startswith(marks) else text + marks
