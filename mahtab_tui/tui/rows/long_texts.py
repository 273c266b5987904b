"""Shortens lines and texts that are too long to be drawn."""

from __future__ import annotations

MAX_CODE_LINES = 400
"""Only the two ends of longer code are drawn."""
MAX_LINE_CHARS = 10_000
"""Only the two ends of a longer line are drawn."""
MAX_TEXT_HEAD_CHARS = 30_000
"""Drawn of the beginning of a long text."""
MAX_TEXT_TAIL_CHARS = 10_000
"""Drawn of its end."""
OPEN_HINT = " (Enter shows all)"


def shorten_line(line: str) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    head_chars = MAX_LINE_CHARS * 8 // 10
    tail_chars = MAX_LINE_CHARS // 10
    omitted_chars = len(line) - head_chars - tail_chars
    note = f"{omitted_chars:,} characters of this line are not shown"
    return f"{line[:head_chars]} … {note} … {line[-tail_chars:]}"


def shorten_text(text: str, hint: str = OPEN_HINT) -> str:
    """Return a text, or the two ends of one that is too long to be drawn.

    Args:
        hint: How to see all.
    """
    if fits_undivided(text):
        return text
    note = omission_note(len(text) - MAX_TEXT_HEAD_CHARS - MAX_TEXT_TAIL_CHARS, hint)
    return f"{text[:MAX_TEXT_HEAD_CHARS]}\n{note}\n{text[-MAX_TEXT_TAIL_CHARS:]}"


def fits_undivided(text: str) -> bool:
    """Return whether a text is short enough to be drawn whole."""
    return len(text) <= MAX_TEXT_HEAD_CHARS + MAX_TEXT_TAIL_CHARS


def omission_note(omitted_chars: int, hint: str = OPEN_HINT) -> str:
    return f"… {omitted_chars:,} characters left out{hint} …"
