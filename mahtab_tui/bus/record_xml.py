"""Formats records as XML for a model, so that no content can forge a record or a section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.escaping import UNSEEN, escape_controls
from mahtab_tui.bus.records import KINDS, Record, encode

_OUR_TAGS = tuple(tag for tag, _ in KINDS if "-" in tag)
"""Tags that content must not forge; others, such as ``<input>``, are only escaped in their own
record."""
ATTRIBUTES = r'(?: [\w-]+="[^"]*")*'
"""A pattern for the attributes that `format_attributes` writes."""
_ATTRIBUTE_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\n": "&#10;",
    "\t": "&#9;",
}
_UNSEEN = re.compile(f"[{UNSEEN}]")
# Where a pattern below could not match with fewer repetitions either, its quantifier is possessive
# (`*+`), so that it takes linear time in any text.
_PERHAPS_TAG = re.compile(rf"<[\s/{UNSEEN}]*+[\w{UNSEEN}-]*+")
"""The beginning of anything that may be a tag, also with unseen characters in it (here ``·``):
``< /us·er-chat``."""


def _tag_remainder(names: Iterable[str]) -> str:
    """Return a pattern for the rest of a tag after its ``<``.

    Of ``<user-chat cell="1">`` and ``</user-chat>``, it matches ``user-chat`` and ``/user-chat``. A
    model may also accept ``< /USER-CHAT``. It does not match ``user-chats`` nor ``user-chat-2``.
    """
    longest_first = "|".join(sorted(names, key=len, reverse=True))
    return rf"\s*+(?:/\s*+)?(?:{longest_first})(?![\w-])"


@lru_cache(maxsize=64)
def _unsafe_characters(tag: str) -> re.Pattern[str]:
    """Return the pattern of the characters to escape in a tag's content.

    These are the ``<`` of ``</user-chat``, and the ``&`` of ``&lt;/user-chat`` and
    ``&amp;lt;/user-chat``, which would otherwise read as an escaped tag.
    """
    tag_end = _tag_remainder({*_OUR_TAGS, tag})
    return re.compile(rf"<(?=(?i:{tag_end}))|&(?=(?i:(?:amp;)*+lt;{tag_end}))")


def escape_content(text: str, tag: str = records.UserReplOut.tag) -> str:
    """Escape content so that it can be read only as content of its tag.

    ``<`` is escaped only before our own tags, and ``&`` only where it would read as that escape, so
    that code stays code.
    """
    return _unsafe_characters(tag).sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", text)


@lru_cache(maxsize=64)
def _tag_starts(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of the ``<`` of these tags."""
    return re.compile(rf"<(?=(?i:{_tag_remainder(names)}))")


def escape_tags(text: str, *names: str) -> str:
    """Escape the ``<`` of tags with these names."""
    return _tag_starts(names).sub("&lt;", text)


def escape_unseen_tags(text: str, *names: str) -> str:
    """Escape the ``<`` of our own and these tags if there are unseen characters in them, because of
    which `escape_content` and `escape_tags` do not recognise them."""
    if not _UNSEEN.search(text):
        return text
    tag_start = _tag_starts((*_OUR_TAGS, *names))

    def escape(match: re.Match[str]) -> str:
        visible_text = _UNSEEN.sub("", match[0])
        if visible_text == match[0] or not tag_start.match(visible_text):
            return match[0]
        return f"&lt;{match[0][1:]}"

    return _PERHAPS_TAG.sub(escape, text)


def format_attributes(attrs: Mapping[str, Any]) -> str:
    """Format attributes as XML, each with a preceding space.

    None and collections are left out, and so is every name that is not an identifier, because it could
    forge another attribute or the end of the tag.
    """
    parts: list[str] = []
    for name, value in attrs.items():
        if value is None or isinstance(value, list | tuple | dict) or not name.isidentifier():
            continue
        if isinstance(value, bool):
            text = str(value).lower()
        else:
            text = escape_controls(str(value))
        escaped = "".join(_ATTRIBUTE_ESCAPES.get(char, char) for char in text)
        parts.append(f' {name}="{escaped}"')
    return "".join(parts)


def to_xml(record: Record, *names: str) -> str:
    """Format a record as XML that cannot forge another one.

    Args:
        record: The record.
        names: The fields that become attributes; all by default.
    """
    fields = encode(record)
    if names:
        fields = {name: fields.get(name) for name in names}
    tag = record.tag
    return f"<{tag}{format_attributes(fields)}>{escape_content(record.text, tag)}</{tag}>"
