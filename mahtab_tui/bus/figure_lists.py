"""Counts what a text lists, because an answer may give that number although no text has it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_MAX_LISTED_LINES = 200
"""Lines up to which a printed text is read as a list."""
_LIST_ITEM = re.compile(r"[ \t]*+(?:[-*+•]|\d{1,3}[.)])[ \t]")
_TABLE_ROW = re.compile(r"[ \t]*+\|")
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,5000})\]")
_WORD = re.compile(r"[\w.]{1,40}")
_SEPARATOR = re.compile(r",\s|\sand\s")


def line_counts(lines: Sequence[str]) -> set[int]:
    """Return how many items a printed text may list.

    It may list the lines of a block, with or without a line for its head and one for its end, the
    lines that share a word, or the items in brackets.
    """
    if not lines or len(lines) > _MAX_LISTED_LINES:
        return set()
    counts: set[int] = set()
    block_line_count = 0
    lines_by_word: Counter[str] = Counter()
    for line in (*lines, ""):
        lines_by_word.update(set(_WORD.findall(line)))
        for bracketed in _BRACKETED.finditer(line):
            counts.add(bracketed[1].count(", ") + 1)
        if line.strip():
            block_line_count += 1
        else:
            counts.update((block_line_count, block_line_count - 1, block_line_count - 2))
            block_line_count = 0
    counts.update(lines_by_word.values())
    return {count for count in counts if count > 1}


def list_sizes(text: str) -> set[int]:
    """Return how many items each list and table in Markdown has."""
    sizes: set[int] = set()
    item_count = 0
    row_count = 0
    for line in (*text.splitlines(), ""):
        if _TABLE_ROW.match(line):
            row_count += 1
        elif row_count:
            sizes.add(row_count - 2)  # without the head and the rule below it
            row_count = 0
        if _LIST_ITEM.match(line):
            item_count += 1
        elif item_count and not line.startswith((" ", "\t")):
            # A line that is indented continues an item.
            sizes.add(item_count)
            item_count = 0
    return sizes


def enumerated_items(sentence: str) -> set[int]:
    """Return how many items a sentence may enumerate after a colon."""
    enumeration = sentence.partition(":")[2]
    separator_count = len(_SEPARATOR.findall(enumeration))
    if not separator_count:
        return set()
    # ", and" before the last item counts as two separators.
    return {separator_count + 1, separator_count}
