"""Converts records to JSON values and back, for session files, logs, sockets and JSON output.

Format 1, used since 0.1.0, is a tag, a text, a time and the other fields by name. None and flags
that are not set are left out, unless the field declares otherwise; rows are objects or lists. Input
may be damaged, hostile, or from a newer version: each field is checked against its declared type,
and unknown fields are ignored. If a field is renamed or changes its meaning, start format 2 and let
`decode` translate older ones.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from mahtab_tui.bus.records import Record
from mahtab_tui.bus.records.base import KINDS, encode

FORMAT = 1
"""The format that is written now."""

_WHOLE = 2**63
"""Limit of whole numbers: SQLite's integers have 64 bits."""

_Read = Callable[[Any], Any]


class InvalidRecord(ValueError):
    """The JSON value is not a record, or a field has a value of the wrong type."""


def as_json(record: Record) -> dict[str, Any]:
    """Return a whole record as one JSON object."""
    return {"tag": record.tag, "time": record.time, "attrs": encode(record), "text": record.text}


def decode(tag: str, text: str, attrs: object, time: float) -> Record | None:
    """Return the record that `records.base.encode` was given; None for a tag of a newer version.
    Raises `InvalidRecord`."""
    if not isinstance(attrs, dict):
        raise InvalidRecord("The fields of a record must be an object.")
    kind: Any = KINDS.get((tag, "")) or KINDS.get((tag, str(attrs.get("event"))))
    if kind is None:
        return None
    readers = _readers(kind)
    values = {
        name: _field(readers[name], name, attrs[name]) for name in readers.keys() & attrs.keys()
    }
    try:
        record: Record = kind(text, time=time, **values)
    except TypeError as missing:
        raise InvalidRecord(f"A record of tag {tag} lacks a field: {missing}.") from None
    return record


def from_json(value: object) -> Record | None:
    """Return the record that `as_json` was given; None for a tag of a newer version. Raises
    `InvalidRecord`."""
    if not isinstance(value, dict):
        raise InvalidRecord("A record must be an object.")
    tag, text, time = (value.get(name) for name in ("tag", "text", "time"))
    return decode(_text(tag), _text(text), value.get("attrs"), float(_number(time)))


@cache
def _readers(kind: type[Any]) -> Mapping[str, _Read]:
    return {
        name: _reader(hint) for name, hint in kind.hints().items() if name not in ("text", "time")
    }


def _field(read: _Read, name: str, value: object) -> Any:
    try:
        return read(value)
    except InvalidRecord as error:
        raise InvalidRecord(f"{name}: {error}") from None


def _reader(hint: Any) -> _Read:
    """Return a function that checks a JSON value against a declared type and converts it to a
    field's value."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _reader(args[0])
    if origin in (typing.Union, types.UnionType):
        return _one_of([_reader(arg) for arg in args])
    if origin is Mapping:
        return _mapping(_reader(args[1]))
    if origin is tuple:
        return (
            _rows(_reader(args[0])) if args[1:] == (...,) else _row([_reader(arg) for arg in args])
        )
    if hasattr(hint, "_fields"):
        return _named(hint)
    return {str: _text, int: _whole, float: _number, bool: _truth, type(None): _nothing}[hint]


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise InvalidRecord("not a text")


def _whole(value: Any) -> Any:
    if type(value) is int and -_WHOLE <= value < _WHOLE:
        return value
    raise InvalidRecord("not a whole number")


def _number(value: Any) -> Any:
    if type(value) in (int, float) and -_WHOLE <= value < _WHOLE:  # false for infinities and NaN
        return value
    raise InvalidRecord("not a number")


def _truth(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    raise InvalidRecord("neither true nor false")


def _nothing(value: Any) -> Any:
    if value is None:
        return None
    raise InvalidRecord("not null")


def _one_of(readers: list[_Read]) -> _Read:
    def read(value: Any) -> Any:
        for reader in readers:
            try:
                return reader(value)
            except InvalidRecord as error:
                last = error
        raise last

    return read


def _rows(reader: _Read) -> _Read:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise InvalidRecord("not a list")
        return tuple(reader(each) for each in value)

    return read


def _row(readers: list[_Read]) -> _Read:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(readers):
            raise InvalidRecord(f"not a list of {len(readers)}")
        return tuple(reader(each) for reader, each in zip(readers, value, strict=True))

    return read


def _mapping(reader: _Read) -> _Read:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise InvalidRecord("not an object")
        return {str(name): reader(each) for name, each in value.items()}

    return read


def _named(kind: Any) -> _Read:
    hints = typing.get_type_hints(kind, include_extras=True)
    readers = {name: _reader(hints[name]) for name in kind._fields}
    needed = readers.keys() - kind._field_defaults.keys()

    def read(value: Any) -> Any:
        if not isinstance(value, dict) or not needed <= value.keys():
            raise InvalidRecord(f"not an object with {', '.join(sorted(needed))}")
        return kind(
            **{
                name: _field(readers[name], name, value[name])
                for name in readers.keys() & value.keys()
            }
        )

    return read
