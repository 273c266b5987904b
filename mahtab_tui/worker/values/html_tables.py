"""Recognises HTML that is a table, which the screen can show."""

from __future__ import annotations

import re

_MAX_NOTE_CHARS = 60
"""Characters around a small table, such as its number of rows."""

_NOT_A_TABLE = re.compile(
    r"""
    < (?:
        button | form | input | select | textarea                   # of widgets
        | canvas | embed | iframe | img | object | svg              # drawings
        | details | pre                                             # a layout of their own
        | script
    ) \b
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""An element that the screen cannot show in a table."""
_HEADING = re.compile(r"<(?:h[1-6]|strong)\b", re.IGNORECASE)
_TABLE_TAG = re.compile(r"<(/?)table\b", re.IGNORECASE)
_MARKUP = re.compile(
    r"""
    <style\b .*? (?: </style\s*> | \Z )     # how things look
    | <!-- .*? (?: --> | \Z )               # a comment
    | < [^>]* >?                            # a tag
    | \s+
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""What is no word of HTML."""


def is_essentially_table(html: str) -> bool:
    """Return whether HTML is one table, or several in a row, with no more than notes around
    them."""
    if _NOT_A_TABLE.search(html):
        return False
    outer_html = _html_around_tables(html)
    if outer_html is None or _HEADING.search(outer_html):
        return False

    # Notes may be as long as the tables, and a short one stands beside any table.
    note_chars = _count_word_chars(outer_html)
    all_chars = _count_word_chars(html)
    return note_chars <= max(all_chars / 2, _MAX_NOTE_CHARS)


def _html_around_tables(html: str) -> str | None:
    """Return what stands before, between and after tables; None if there is no table, or one inside
    another, which serves as layout."""
    outer_parts: list[str] = []
    position = 0
    is_inside = False
    for tag in _TABLE_TAG.finditer(html):
        is_end_tag = bool(tag[1])
        if is_end_tag != is_inside:
            return None
        if not is_end_tag:
            outer_parts.append(html[position : tag.start()])
        is_inside = not is_end_tag
        position = tag.end()

    if position == 0:
        return None
    if not is_inside:  # the last table may lack its end tag
        outer_parts.append(html[position:])
    return "".join(outer_parts)


def _count_word_chars(html: str) -> int:
    """Return the number of characters of HTML without tags, comments and white space."""
    return len(_MARKUP.sub("", html))
