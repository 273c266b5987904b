"""Checks that the attributes of a stored record have the types that `bus.tags` promises: code that folds records relies on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mahtab_tui.bus import tags

_Check = Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return type(value) is int


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _or_none(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _rows(*columns: _Check) -> _Check:
    """A list of lists with a value for each column."""
    return lambda value: (
        isinstance(value, list)
        and all(
            isinstance(row, list) and len(row) == len(columns) and all(check(each) for check, each in zip(columns, row, strict=True)) for row in value
        )
    )


def _changes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(change, dict) and all(map(_text, change.values())) and {"name", "change"} <= change.keys() for change in value
    )


_BY_NAME: Mapping[str, _Check] = {
    **dict.fromkeys(("cell", "turn", "step", "block", "blocks", "guest", "chars", "budget", "width", "height"), _or_none(_whole)),
    **dict.fromkeys(("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"), _whole),
    **dict.fromkeys(("duration", "cost"), _or_none(_number)),
    **dict.fromkeys(("party", "status", "state", "name", "entry", "mime", "data", "picture", "tree"), _or_none(_text)),
    "kinds": _rows(_text, _whole),
    "frames": _rows(_text, _whole, _text, _whole),
    "changes": _changes,
}
"""The type of each attribute; others may be anything."""

_NEEDED: Mapping[str, tuple[str, ...]] = {
    tags.SKILL: ("name", "chars", "budget", "loaded"),
    tags.DISPLAY: ("mime", "data"),
}
"""Attributes that a record of a tag must have."""


def well_formed(tag: str, attrs: Mapping[str, Any]) -> bool:
    """Whether such a record can be folded without errors."""
    if any(not check(attrs[name]) for name, check in _BY_NAME.items() if name in attrs):
        return False
    if any(attrs.get(name) is None for name in _NEEDED.get(tag, ())):
        return False
    if tag == tags.USER_ATTACHMENT and attrs.get("data") is not None:
        return attrs.get("width") is not None and attrs.get("height") is not None
    return tag != tags.APPROVAL or attrs.get("guest") is None or "call" in attrs
