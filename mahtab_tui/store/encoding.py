"""Text in SQLite, which takes no lone surrogates: a text that has one is kept as bytes."""

from __future__ import annotations


def stored(text: str) -> str | bytes:
    """The value to write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def restored(value: str | bytes) -> str:
    """The text of a value that `stored` made."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
