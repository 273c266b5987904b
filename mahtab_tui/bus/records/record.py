"""What a record is: the base class of all records, and how their fields become JSON values."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Self, dataclass_transform

from mahtab_tui.bus.marks import FLAG, NULL
from mahtab_tui.bus.values import Change, StoredChange, TracebackFrame

INDEXED_INPUT_CHARS = 100_000
INDEXED_OUTPUT_CHARS = 4_000
"""Characters of an input and an output to index."""

KINDS: dict[tuple[str, str], type[Record]] = {}
"""The classes of records by tag and event."""

FieldsKind = Any
"""A class of records or of named tuples. Not `type[Record]`, because mypy holds classes whose
instances define `__hash__` unfit as arguments of cached functions."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """An event of a session.

    Subclasses become frozen dataclasses without a decorator. They say with the keywords of their
    class statement what happens to them, and with the marks of their fields (`bus.marks`) how these
    are masked and written::

        class Restore(Record, tag="restore", in_prompt=True):
            cells: int = 0
    """

    tag: ClassVar[str]
    """The kind of record in JSON, in the store and in prompts."""
    event: ClassVar[str] = ""
    """Tells apart the kinds of records that share a tag; empty for the others."""
    in_prompt: ClassVar[bool] = False
    """Whether the model gets it with the user's next question."""
    in_store: ClassVar[bool] = True
    """Whether it is saved with the session."""
    indexed: ClassVar[int] = 0
    """Maximum characters of its text to index, from both ends."""

    text: str = ""
    time: float = field(default=0.0, kw_only=True)
    """Time of logging, in seconds since the epoch; set by `emit`."""

    def __init_subclass__(
        cls,
        *,
        tag: str = "",
        event: str = "",
        in_prompt: bool = False,
        in_store: bool = True,
        indexed: int = 0,
    ) -> None:
        # Generating equality and repr for forty classes would take 10 ms at startup.
        dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        if indexed:
            cls.indexed = indexed
        if tag:
            cls.tag = tag
            cls.event = event
            cls.in_prompt = in_prompt
            cls.in_store = in_store
            KINDS[tag, event] = cls

    @property
    def entry_name(self) -> str:
        """The entry of the conversation to which it belongs; empty if none."""
        return ""

    @property
    def attrs(self) -> dict[str, Any]:
        """Its fields as JSON values, without text and time."""
        return encode(self)

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields."""
        return replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        # Without the time, which `emit` sets.
        return hash((self.tag, self.text))

    def __repr__(self) -> str:
        arguments: list[str] = []
        for record_field in fields(self):
            value = getattr(self, record_field.name)
            if value != record_field.default:
                arguments.append(f"{record_field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"


def encode(record: Record) -> dict[str, Any]:
    """Return the fields of a record except text and time, as JSON values.

    Fields that are None are left out unless their type is marked with `NULL`, and so are those of
    type `Flag` that are False.
    """
    kind: FieldsKind = type(record)
    flag_names = _marked_fields(kind, FLAG)
    null_names = _marked_fields(kind, NULL)

    values: dict[str, Any] = {}
    # Records with the same tag are told apart by it.
    if kind.event:
        values["event"] = kind.event
    for name in _attribute_names(kind):
        value = getattr(record, name)
        is_missing = value is None and name not in null_names
        is_unset_flag = value is False and name in flag_names
        if not is_missing and not is_unset_flag:
            values[name] = _as_json_value(value)
    return values


def _read_hints(kind: FieldsKind) -> Mapping[str, Any]:
    all_hints = typing.get_type_hints(kind, include_extras=True)
    return {name: all_hints[name] for name in _field_names(kind)}


hints: Callable[[FieldsKind], Mapping[str, Any]] = cache(_read_hints)
"""Returns the types of the fields of a record or a named tuple, with their marks."""


def _field_names(kind: FieldsKind) -> Iterable[str]:
    """Return the names of the fields of a record or a named tuple."""
    if issubclass(kind, tuple):
        names: tuple[str, ...] = kind._fields
        return names
    return [record_field.name for record_field in fields(kind)]


@cache
def _attribute_names(kind: FieldsKind) -> tuple[str, ...]:
    """Return the fields of a record except text and time."""
    return tuple(name for name in _field_names(kind) if name not in ("text", "time"))


@cache
def _marked_fields(kind: FieldsKind, mark: str) -> frozenset[str]:
    """Return the fields of a record whose types have a mark."""
    return frozenset(
        name for name, hint in hints(kind).items() if mark in getattr(hint, "__metadata__", ())
    )


def _as_json_value(value: Any) -> Any:
    """Return named tuples as objects without their None, and other tuples as lists."""
    if isinstance(value, Change):
        value = StoredChange.from_change(value)
    if not isinstance(value, tuple):
        return value

    # Tracebacks have many frames, which as objects would repeat the names of their fields.
    as_dict = getattr(value, "_asdict", None)
    if as_dict is None or isinstance(value, TracebackFrame):
        return [_as_json_value(item) for item in value]
    return {name: _as_json_value(item) for name, item in as_dict().items() if item is not None}


class Stream(Record):
    """A piece of a text that arrives bit by bit."""

    @property
    def stream(self) -> tuple[object, ...]:
        """Identifies the text: all fields but the piece itself."""
        kind: FieldsKind = type(self)
        attributes = (getattr(self, name) for name in _attribute_names(kind))
        return (self.tag, *attributes)
