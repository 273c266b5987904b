"""Converts records to JSON values and back. Input may be hostile or from a newer version: fields
are checked against their types, and unknown ones ignored."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache, partial
from typing import Annotated, Any, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import KINDS, Record, encode
from mahtab_tui.bus.values import Change, StoredChange, TracebackFrame

_Reader = Callable[[Any], Any]
"""Returns what a JSON value stands for. Raises `InvalidRecord` if it is not of the reader's type."""

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
        attrs: Its fields except text and time, as JSON values.
        time: Its time, in seconds since the epoch.

    Returns:
        The record; None for a tag of a newer version.

    Raises:
        InvalidRecord: It is not a record, lacks a field, or has one of the wrong type.
    """
    if not isinstance(attrs, dict):
        raise InvalidRecord("The fields of a record must be an object.")
    # Records that share a tag are told apart by their event.
    kind: Any = KINDS.get((tag, "")) or KINDS.get((tag, str(attrs.get("event"))))
    if kind is None:
        return None
    fields = {name: value for name, value in attrs.items() if name not in ("text", "time")}
    values = _read_fields(_field_readers(kind), fields)
    try:
        return typing.cast(Record, kind(text, time=time, **values))
    except TypeError as missing:
        raise InvalidRecord(f"A record of tag {tag} lacks a field: {missing}.") from None


def from_json(value: object) -> Record | None:
    """Decode a record that `as_json` returned.

    Returns:
        The record; None for a tag of a newer version.

    Raises:
        InvalidRecord: It is not a record, lacks a field, or has one of the wrong type.
    """
    if not isinstance(value, dict):
        raise InvalidRecord("A record must be an object.")
    tag = _make_reader(str)(value.get("tag"))
    text = _make_reader(str)(value.get("text"))
    time = _make_reader(float)(value.get("time"))
    return decode(tag, text, value.get("attrs"), float(time))


class _PlainType(NamedTuple):
    """A type whose values are the same in JSON."""

    accepts: Callable[[object], bool]
    """Returns whether a JSON value is of this type."""
    problem: str
    """What is wrong with a value that is not."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object) -> bool:
    return type(value) is int and -MAX_INTEGER <= value < MAX_INTEGER


def _is_number(value: object) -> bool:
    # Infinities and NaN are not in this range either.
    return type(value) in (int, float) and -MAX_INTEGER <= value < MAX_INTEGER  # type: ignore[operator]


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_null(value: object) -> bool:
    return value is None


_PLAIN_TYPES: dict[Any, _PlainType] = {
    str: _PlainType(_is_text, "not a text"),
    int: _PlainType(_is_integer, "not a whole number"),
    float: _PlainType(_is_number, "not a number"),
    bool: _PlainType(_is_bool, "neither true nor false"),
    type(None): _PlainType(_is_null, "not null"),
}


@cache
def _make_reader(hint: Any) -> _Reader:
    """Return the reader of values with the type of an annotation.

    It is made once, because making one takes longer than reading a value.
    """
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint) or hint
    inner_hints = typing.get_args(hint)
    if origin in _PLAIN_TYPES:
        return partial(_read_plain, _PLAIN_TYPES[origin])
    if origin in (typing.Union, types.UnionType):
        return partial(_read_union, tuple(map(_make_reader, inner_hints)))
    has_any_length = inner_hints[1:] == (...,)
    if origin is tuple and has_any_length:
        return partial(_read_list, _make_reader(inner_hints[0]))
    if origin is tuple:
        return partial(_read_tuple, tuple(map(_make_reader, inner_hints)))
    if origin is Mapping:
        _, value_hint = inner_hints
        return partial(_read_mapping, _make_reader(value_hint))
    if origin is Change:
        return partial(_read_change, _make_reader(StoredChange))
    readers = _field_readers(origin)
    if origin is TracebackFrame:
        return partial(_read_frame, tuple(readers.values()))
    required_names = readers.keys() - origin._field_defaults.keys()
    return partial(_read_row, origin, readers, required_names)


@cache
def _field_readers(kind: Any) -> Mapping[str, _Reader]:
    """Return the readers of the fields of a record or a row."""
    return {name: _make_reader(hint) for name, hint in records.hints(kind).items()}


def _read_plain(plain_type: _PlainType, value: object) -> Any:
    """Return a value as it is. Raises `InvalidRecord` if it is of another type."""
    if not plain_type.accepts(value):
        raise InvalidRecord(plain_type.problem)
    return value


def _read_union(readers: Sequence[_Reader], value: object) -> Any:
    """Return what the first reader returns that accepts a value."""
    problem = InvalidRecord()
    for read in readers:
        try:
            return read(value)
        except InvalidRecord as error:
            problem = error
    raise problem


def _read_list(read: _Reader, value: object) -> tuple[Any, ...]:
    """Read a list of any length, whose items have one type."""
    if not isinstance(value, (list, tuple)):
        raise InvalidRecord("not a list")
    return tuple(map(read, value))


def _read_tuple(readers: Sequence[_Reader], value: object) -> tuple[Any, ...]:
    """Read a list with a reader for each item."""
    if not isinstance(value, (list, tuple)) or len(value) != len(readers):
        raise InvalidRecord(f"not a list of {len(readers)}")
    return tuple(read(item) for read, item in zip(readers, value, strict=True))


def _read_mapping(read: _Reader, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRecord("not an object")
    return {str(key): read(item) for key, item in value.items()}


def _read_change(read: _Reader, value: object) -> Change:
    stored: StoredChange = read(value)
    return stored.as_change()


def _read_frame(readers: Sequence[_Reader], value: object) -> TracebackFrame:
    return TracebackFrame(*_read_tuple(readers, value))


def _read_row(
    row_type: Any, readers: Mapping[str, _Reader], required_names: Set[str], value: object
) -> Any:
    """Read a named tuple, which is written as an object.

    Args:
        row_type: Its class.
        readers: The readers of its fields, by name.
        required_names: The fields without a default.
        value: The JSON value.
    """
    if not isinstance(value, dict) or not required_names <= value.keys():
        raise InvalidRecord(f"not an object with {', '.join(sorted(required_names))}")
    return row_type(**_read_fields(readers, value))


def _read_fields(readers: Mapping[str, _Reader], value: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields that an object has. Fields without a reader are ignored."""
    fields: dict[str, Any] = {}
    for name, read in readers.items():
        if name not in value:
            continue
        try:
            fields[name] = read(value[name])
        except InvalidRecord as error:
            raise InvalidRecord(f"{name}: {error}") from None
    return fields
