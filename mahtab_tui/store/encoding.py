"""Encodes text and attributes for SQLite, and reads stored records, which may be damaged. It rejects lone surrogates: such text is stored as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mahtab_tui.bus.codec import InvalidRecord, decode
from mahtab_tui.bus.records import Record

STEP = 65_536
"""Characters of a long attribute, such as a picture, to encode at once: other threads wait meanwhile."""
StoredRow = tuple[Any, Any, Any, Any]
"""Time, tag, attributes and text of a record as stored, unchecked."""


def stored(text: str) -> str | bytes:
    """Return the value to write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def restored(value: object) -> str:
    """Return the text of a value made by `stored`; of any other value, as much as can be read."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return readable(value)


def readable(value: bytes) -> str:
    """Return text from a file that may be damaged, for `sqlite3.Connection.text_factory`: invalid bytes become question marks."""
    return value.decode("utf-8", "replace")


def as_json(attrs: Mapping[str, Any]) -> str:
    """Encode attributes as `json.dumps` does, but without blocking other threads for long."""
    return "{" + ", ".join(f"{json.dumps(name)}: {_value(value)}" for name, value in attrs.items()) + "}"


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    return '"' + "".join(json.dumps(value[start : start + STEP])[1:-1] for start in range(0, len(value), STEP)) + '"'


def decoded(row: StoredRow) -> Record | None:
    """Return a record from its time, tag, attributes and text; None if a newer version wrote it. Raises `InvalidRecord`."""
    moment, tag, attrs, text = row
    try:
        values = json.loads(attrs)
    except (ValueError, TypeError, RecursionError):
        raise InvalidRecord("The attributes are not JSON.") from None
    if not (isinstance(tag, str) and isinstance(moment, float)):
        raise InvalidRecord("The tag or the time is missing.")
    return decode(tag, restored(text), values, moment)


def readable_record(row: StoredRow) -> Record | None:
    """Return a record; None if it cannot be read, or a newer version wrote it."""
    try:
        return decoded(row)
    except InvalidRecord:
        return None
