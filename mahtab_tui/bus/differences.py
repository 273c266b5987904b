"""Says what changed between two descriptions of an object."""

from __future__ import annotations

from collections.abc import Iterator

OPENING_BRACKETS = "([{"
CLOSING_BRACKETS = ")]}"


def changed_fields(old_summary: str, new_summary: str) -> str:
    """Return the fields that differ between two summaries such as ``(id=7, total=3.5)``.

    Returns:
        ``total=3.5 → 4.0``; empty if these are not lists of the same fields, or nothing differs.
    """
    old_values = dict(_fields(old_summary))
    new_values = dict(_fields(new_summary))
    if list(old_values) != list(new_values):
        return ""
    return ", ".join(
        f"{name}={old_values[name]} → {value}"
        for name, value in new_values.items()
        if value != old_values[name]
    )


def _fields(summary: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; nothing if the text has another form.

    A part without a name, such as ``…``, stands for its own name, so that summaries with another
    part there do not have the same fields.
    """
    if not (summary.startswith("(") and summary.endswith(")")):
        return
    for field in _split_at_commas(summary[1:-1]):
        name, _, value = field.partition("=")
        yield name, value


def _split_at_commas(text: str) -> Iterator[str]:
    """Split at commas that are not inside brackets or quotes."""
    depth = 0
    quote = ""
    is_escaped = False
    start = 0
    for position, character in enumerate(text):
        if quote:
            if character == quote and not is_escaped:
                quote = ""
            is_escaped = character == "\\" and not is_escaped
        elif character in "'\"":
            quote = character
        elif character in OPENING_BRACKETS:
            depth += 1
        elif character in CLOSING_BRACKETS:
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()
