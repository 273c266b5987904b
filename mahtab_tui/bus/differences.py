"""Says what changed between two descriptions of an object."""

from __future__ import annotations

from collections.abc import Iterator

_OPENING = "([{"
_CLOSING = ")]}"


def changed_fields(before: str, now: str) -> str:
    """Return the fields that differ between two summaries such as ``(id=7, total=3.5)``.

    Returns:
        ``total=3.5 → 4.0``; empty if these are not lists of the same fields, or nothing differs.
    """
    old = dict(_fields(before))
    new = dict(_fields(now))
    if not old or list(old) != list(new):
        return ""
    return ", ".join(
        f"{name}={old[name]} → {value}" for name, value in new.items() if value != old[name]
    )


def _fields(summary: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; nothing if the text has another form."""
    if not (summary.startswith("(") and summary.endswith(")")):
        return
    for part in _split_at_commas(summary[1:-1]):
        name, equals, value = part.partition("=")
        if not equals:
            continue
        yield name, value


def _split_at_commas(text: str) -> Iterator[str]:
    """Split at commas that are not inside brackets or quotes."""
    depth = 0
    quote = ""
    start = 0
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()
