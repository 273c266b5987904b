"""Recognises HTML that is a table, which the screen can show; the words of other HTML."""

from __future__ import annotations

import re
from contextlib import suppress

from ..stdlib import late_import

_MAX_NOTE_CHARS = 60
"""Characters around a small table, such as its number of rows."""

_NOT_A_TABLE = re.compile(
    r"<(?:button|canvas|details|embed|form|iframe|img|input|object|pre|script|select|svg|textarea)\b",
    re.IGNORECASE,
)
"""Elements of widgets, drawings, and texts with a layout of their own."""
_HEADING = re.compile(r"<(?:h[1-6]|strong)\b", re.IGNORECASE)
_TABLE_TAG = re.compile(r"<(/?)table\b", re.IGNORECASE)
_MARKUP = re.compile(
    r"<style\b.*?(?:</style\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*>?|\s+", re.IGNORECASE | re.DOTALL
)

_UNREAD = re.compile(
    r"<(?:script|style)\b.*?(?:</(?:script|style)\s*>|\Z)|<!--.*?(?:-->|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_BREAK = re.compile(
    r"</?(?:p|div|h[1-6]|li|ul|ol|dl|tr|table|caption|pre|blockquote|br|hr|section|article|header"
    r"|footer|main|nav|aside|figure|figcaption|details|summary|form|fieldset|legend)\b[^>]*>?",
    re.IGNORECASE,
)
"""A tag before or after which a line begins."""
_GAP = re.compile(r"</?(?:td|th|dt|dd|option|button|label|sup|sub)\b[^>]*>?", re.IGNORECASE)
"""A tag that separates words, and numbers: two cells are not one number."""
_SPACE = re.compile(r"(<pre\b.*?(?:</pre\s*>|\Z))|\s+", re.IGNORECASE | re.DOTALL)
"""White space, which counts as one blank; first an element in which it stays."""
_TAG = re.compile(r"</?[a-zA-Z][^>]*>?")


def html_words(html: str) -> str:
    """Return the words of HTML, a line for each paragraph."""
    text = _GAP.sub(" ", _UNREAD.sub(" ", html))
    text = _SPACE.sub(lambda match: match[1] or " ", text)
    text = _TAG.sub("", _BREAK.sub("\n", text))
    with suppress(ValueError):  # a reference of thousands of digits
        text = late_import("html").unescape(text)
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(filter(None, lines))


def is_essentially_table(html: str) -> bool:
    """Return whether HTML is one table, or several in a row, with no more than notes around
    them."""
    if _NOT_A_TABLE.search(html):
        return False
    outside: list[str] = []
    end = 0
    is_open = False
    for tag in _TABLE_TAG.finditer(html):
        is_end = bool(tag[1])
        if is_end != is_open:  # a table inside a table serves as layout
            return False
        if not is_end:
            outside.append(html[end : tag.start()])
        is_open = not is_end
        end = tag.end()
    if not end:
        return False
    outside.append("" if is_open else html[end:])
    around = "".join(outside)
    notes_size = len(_MARKUP.sub("", around))
    size = len(_MARKUP.sub("", html))
    return not _HEADING.search(around) and 2 * notes_size <= max(size, 2 * _MAX_NOTE_CHARS)
