"""Formats records as XML for the model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from mahtab_tui.bus import tags
from mahtab_tui.bus.escaping import escape_for_model
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.records.base import KINDS, encode

_OURS = tuple(tag for tag, _ in KINDS if "-" in tag)
"""Tags that content must not forge. The others never reach a prompt, and ``<input>`` is also HTML:
they are escaped only in their own record."""

_IN_ATTRIBUTE = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


def _rest(names: Iterable[str]) -> str:
    """Return a pattern for what follows the ``<`` of a tag. A model may also read ``< /USER-CHAT``
    as one."""
    return rf"\s*+(?:/\s*+)?(?:{'|'.join(sorted(names, key=len, reverse=True))})(?![\w-])"


@lru_cache(maxsize=64)
def _patterns(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of characters to escape in content of this tag, and of the escapes."""
    rest = _rest({*_OURS, tag})
    return (
        re.compile(rf"<(?=(?i:{rest}))|&(?=(?i:(?:amp;)*+lt;{rest}))"),
        re.compile(rf"&lt;(?={rest})|&amp;(?=(?:amp;)*+lt;{rest})", re.IGNORECASE),
    )


def defuse(text: str, tag: str = tags.USER_REPL_OUT) -> str:
    """Escape content so that it cannot begin or end a record.

    ``<`` becomes ``&lt;`` only before one of our own tags, and ``&`` becomes ``&amp;`` only where
    it would read as that escape, so that code stays code.
    """
    return _patterns(tag)[0].sub(lambda found: "&lt;" if found[0] == "<" else "&amp;", text)


def restore(text: str, tag: str = tags.USER_REPL_OUT) -> str:
    """Undo `defuse`."""
    return _patterns(tag)[1].sub(lambda found: "<" if found[0].lower() == "&lt;" else "&", text)


@lru_cache(maxsize=64)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=(?i:{_rest(names)}))")


def escape_tags(text: str, *names: str) -> str:
    """Escape the ``<`` of the given prompt tags. Records within the text stay as they are."""
    return _tags(names).sub("&lt;", text)


def attributes(attrs: Mapping[str, Any]) -> str:
    """Format attributes as XML, each with a space before it. None, lists and mappings are left
    out."""
    parts = []
    for name, value in attrs.items():
        if value is None or isinstance(value, list | tuple | dict) or not name.isidentifier():
            continue
        word = str(value).lower() if isinstance(value, bool) else escape_for_model(str(value))
        parts.append(f' {name}="{"".join(_IN_ATTRIBUTE.get(char, char) for char in word)}"')
    return "".join(parts)


def to_xml(record: Record, *names: str) -> str:
    """Format a record as one XML element whose content cannot forge another. names: the fields to
    include; all if none are given."""
    fields = encode(record)
    shown = attributes({name: fields.get(name) for name in names} if names else fields)
    return f"<{record.tag}{shown}>{defuse(record.text, record.tag)}</{record.tag}>"
