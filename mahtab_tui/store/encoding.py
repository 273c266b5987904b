"""Text in SQLite, which takes no lone surrogates: a text that has one is kept as bytes. And attributes as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

STEP = 65_536
"""Characters of a long attribute, as that of a picture, that are made JSON at once: the interpreter is held meanwhile."""


def stored(text: str) -> str | bytes:
    """The value to write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def restored(value: object) -> str:
    """The text of a value that `stored` made; of any other value what can be read of it."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return readable(value)


def readable(value: bytes) -> str:
    """Text from a file that may be damaged, for `sqlite3.Connection.text_factory`: bytes that are no text become question marks."""
    return value.decode("utf-8", "replace")


def as_json(attrs: Mapping[str, Any]) -> str:
    """As `json.dumps` makes it; other threads go on meanwhile."""
    return "{" + ", ".join(f"{json.dumps(name)}: {_value(value)}" for name, value in attrs.items()) + "}"


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    return '"' + "".join(json.dumps(value[start : start + STEP])[1:-1] for start in range(0, len(value), STEP)) + '"'
