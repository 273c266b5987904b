"""Encodes text and attributes for SQLite. It rejects lone surrogates, so text with them is stored
as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

STEP = 65_536
"""Characters of a long attribute, such as a picture, to encode at once: other threads wait
meanwhile."""


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
    """Return text from a file that may be damaged, for `sqlite3.Connection.text_factory`: invalid
    bytes become question marks."""
    return value.decode("utf-8", "replace")


def as_json(attrs: Mapping[str, Any]) -> str:
    """Encode attributes as `json.dumps` does, but without blocking other threads for long."""
    return (
        "{"
        + ", ".join(f"{json.dumps(name)}: {_value(value)}" for name, value in attrs.items())
        + "}"
    )


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    return (
        '"'
        + "".join(
            json.dumps(value[start : start + STEP])[1:-1] for start in range(0, len(value), STEP)
        )
        + '"'
    )
