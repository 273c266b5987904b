"""Converts records to JSON values and back. Input may be hostile or from a newer version: fields are
checked against their types, and unknown ones ignored."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import KINDS, Record, encode
from mahtab_tui.bus.values import Change, StoredChange, TracebackFrame

FORMAT = 1
"""The version of the JSON form."""
MAX_INTEGER = 2**63
"""Integers and numbers must be below it, because stores keep 64 bits."""


class InvalidRecord(ValueError):
    """The value is not a record, or a field has a value of the wrong type."""


def as_json(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object."""
    return {"tag": record.tag, "time": record.time, "attrs": encode(record), "text": record.text}


def decode(tag: str, text: str, attrs: object, time: float) -> Record | None:
    """Decode a record.

    Args:
        tag: Its tag.
        text: Its text.
        attrs: Its fields, as JSON values.
        time: In seconds since the epoch.

    Returns:
        The record; None for a tag of a newer version.

    Raises:
        InvalidRecord: It is not a record, or lacks a field.
    """
    if not isinstance(attrs, dict):
        raise InvalidRecord("The fields of a record must be an object.")
    kind: Any = KINDS.get((tag, "")) or KINDS.get((tag, str(attrs.get("event"))))
    if kind is None:
        return None
    values: dict[str, Any] = {}
    for name, hint in records.hints(kind).items():
        if name in attrs and name not in ("text", "time"):
            values[name] = _read_field(hint, name, attrs[name])
    try:
        return typing.cast(Record, kind(text, time=time, **values))
    except TypeError as missing:
        raise InvalidRecord(f"A record of tag {tag} lacks a field: {missing}.") from None


def from_json(value: object) -> Record | None:
    """Decode a JSON object; None for a tag of a newer version. Raises `InvalidRecord`."""
    if not isinstance(value, dict):
        raise InvalidRecord("A record must be an object.")
    tag = _read(str, value.get("tag"))
    text = _read(str, value.get("text"))
    time = _read(float, value.get("time"))
    return decode(tag, text, value.get("attrs"), float(time))


def _read_field(hint: Any, name: str, value: object) -> Any:
    try:
        return _read(hint, value)
    except InvalidRecord as error:
        raise InvalidRecord(f"{name}: {error}") from None


def _is_integer(value: object) -> bool:
    return type(value) is int and -MAX_INTEGER <= value < MAX_INTEGER


def _is_number(value: object) -> bool:
    # False for infinities and NaN.
    return type(value) in (int, float) and -MAX_INTEGER <= value < MAX_INTEGER  # type: ignore[operator]


_PLAIN_TYPES: dict[Any, tuple[Callable[[object], bool], str]] = {
    str: (lambda value: isinstance(value, str), "not a text"),
    int: (_is_integer, "not a whole number"),
    float: (_is_number, "not a number"),
    bool: (lambda value: isinstance(value, bool), "neither true nor false"),
    type(None): (lambda value: value is None, "not null"),
}
"""For each type: whether a value has it, and what is wrong otherwise."""


@cache
def _split_hint(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of an annotation, and its arguments."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return typing.get_origin(hint) or hint, typing.get_args(hint)


def _read(hint: Any, value: Any) -> Any:
    """Return a JSON value with the type of an annotation. Raises `InvalidRecord`."""
    origin, args = _split_hint(hint)
    if origin in _PLAIN_TYPES:
        is_valid, problem = _PLAIN_TYPES[origin]
        if is_valid(value):
            return value
        raise InvalidRecord(problem)
    if origin in (typing.Union, types.UnionType):
        return _read_union(args, value)
    if origin is tuple:
        return _read_tuple(args, value)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise InvalidRecord("not an object")
        return {str(key): _read(args[1], item) for key, item in value.items()}

    if origin is Change:
        return _read(StoredChange, value).as_change()
    if origin is TracebackFrame:
        return TracebackFrame(*_read_tuple(tuple(records.hints(origin).values()), value))

    # Another named tuple.
    hints = records.hints(origin)
    required = hints.keys() - origin._field_defaults.keys()
    if not isinstance(value, dict) or not required <= value.keys():
        raise InvalidRecord(f"not an object with {', '.join(sorted(required))}")
    names = hints.keys() & value.keys()
    return origin(**{name: _read_field(hints[name], name, value[name]) for name in names})


def _read_union(members: tuple[Any, ...], value: object) -> Any:
    problem = InvalidRecord()
    for member in members:
        try:
            return _read(member, value)
        except InvalidRecord as error:
            problem = error
    raise problem


def _read_tuple(args: tuple[Any, ...], value: object) -> tuple[Any, ...]:
    is_homogeneous = args[1:] == (...,)
    if not isinstance(value, (list, tuple)):
        raise InvalidRecord("not a list" if is_homogeneous else f"not a list of {len(args)}")
    if is_homogeneous:
        return tuple(_read(args[0], item) for item in value)
    if len(value) != len(args):
        raise InvalidRecord(f"not a list of {len(args)}")
    return tuple(_read(hint, item) for hint, item in zip(args, value, strict=True))
