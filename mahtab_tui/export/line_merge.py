"""Merges the changes of a program into a text that its user has formatted, by lines."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

MAX_COMPARED_LINES = 3_000


def preserve_lines(original: str, read: str, now: str) -> str:
    """Return a new text with the lines of the original where nothing has changed.

    Args:
        original: The file's text, which the user has formatted.
        read: The same content, as the library writes it.
        now: The new content, as the library writes it.
    """
    if now == read:
        return original
    original_lines = original.splitlines(keepends=True)
    read_lines = read.splitlines(keepends=True)
    new_lines = now.splitlines(keepends=True)
    line_count = max(len(original_lines), len(read_lines), len(new_lines))
    if original_lines == read_lines or line_count > MAX_COMPARED_LINES:
        return now

    formatting = SequenceMatcher(None, read_lines, original_lines, autojunk=False).get_opcodes()

    def lines_as_formatted(start: int, end: int) -> Iterator[str]:
        """Yield unchanged lines, as the user has formatted them."""
        for tag, first, last, original_first, original_last in formatting:
            # Lines that only the original has lie between two others: they belong to the later.
            is_within = start <= first and last <= end and (first < end or first == len(read_lines))
            if tag != "equal" and is_within:
                yield from original_lines[original_first:original_last]
            else:
                yield from read_lines[max(start, first) : min(end, last)]

    pieces: list[str] = []
    changes = SequenceMatcher(None, read_lines, new_lines, autojunk=False).get_opcodes()
    for tag, start, end, new_start, new_end in changes:
        if tag == "equal":
            pieces += lines_as_formatted(start, end)
        else:
            pieces += new_lines[new_start:new_end]
    return "".join(pieces)
