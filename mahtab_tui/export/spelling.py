"""Keeps the lines of a text as its author wrote them, where only their spelling differs from what a library writes."""

from __future__ import annotations

from difflib import SequenceMatcher

_MOST = 3_000
"""Lines of texts that are compared: it may take time that grows with their square."""


def respelled(original: str, read: str, now: str) -> str:
    """Return `now` with the lines of `original` wherever it has not changed since.

    original: as the author wrote it. read: the same, as the library writes it after it was read. now: as the library writes it after a change.
    """
    if now == read:
        return original
    theirs, before, after = (text.splitlines(keepends=True) for text in (original, read, now))
    if theirs == before or max(len(theirs), len(before), len(after)) > _MOST:
        return now
    spelt = SequenceMatcher(None, before, theirs, autojunk=False).get_opcodes()

    def as_theirs(start: int, end: int) -> list[str]:
        lines: list[str] = []
        for tag, first, last, their_first, their_last in spelt:
            within = start <= first and last <= end and (first < end or first == len(before))
            if tag != "equal" and within:
                lines += theirs[their_first:their_last]
            else:
                lines += before[max(start, first) : min(end, last)]
        return lines

    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return "".join(line for tag, start, end, first, last in changes for line in (as_theirs(start, end) if tag == "equal" else after[first:last]))
