"""The base class of records: frozen dataclasses, one for each tag."""

from __future__ import annotations

import typing
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Self, dataclass_transform

WORD, NAME, FLAG, NULL, PICTURE = "word", "name", "flag", "null", "picture"
"""Marks of a field beside its type. `NULL`: the field is written even if it is None."""

Word = Annotated[str, WORD]
"""One of the program's own words, or an id. It is never masked, even if a secret reads the same."""
Name = Annotated[str, NAME]
"""An identifier. Only secrets longer than a short word are masked in it."""
Flag = Annotated[bool, FLAG]
"""Written only if true."""
Data = Annotated[str, PICTURE]
"""Data of the type in `mime`. A picture's data is base64 and is not masked."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """One event of a session: panes, prompt and store are made from records. Subclasses become
    frozen dataclasses."""

    tag: ClassVar[str]
    """A constant of `bus.tags`."""
    event: ClassVar[str] = ""
    """Distinguishes the kinds of records that share a tag."""
    in_prompt: ClassVar[bool] = False
    """Told to the model with the user's next question."""
    in_store: ClassVar[bool] = True
    """Kept on disk."""

    text: str = ""
    time: float = field(default=0.0, kw_only=True)
    """When it was logged, in seconds since the epoch; `emit` sets it."""

    def __init_subclass__(
        cls, *, tag: str = "", event: str = "", in_prompt: bool = False, in_store: bool = True
    ) -> None:
        # Equality and repr are inherited: compiling them for forty classes would take 10 ms at
        # startup.
        dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        if tag:
            cls.tag, cls.event, cls.in_prompt, cls.in_store = tag, event, in_prompt, in_store
            KINDS[tag, event] = cls

    @property
    def attrs(self) -> dict[str, Any]:
        """All fields but text and time as JSON values, for programs that handle any record
        (`rlm(on_event=…)`, `SessionState`)."""
        return encode(self)

    @classmethod
    def hints(cls) -> dict[str, Any]:
        """Return the type of each field, with its marks."""
        found = typing.get_type_hints(cls, include_extras=True)
        return {each.name: found[each.name] for each in fields(cls)}

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields."""
        return replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and type(other) is type(self)
            and vars(other) == vars(self)
        )

    def __hash__(self) -> int:
        return hash((self.tag, self.text, self.time))

    def __repr__(self) -> str:
        shown = (
            f"{each.name}={value!r}"
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default or each.default is MISSING
        )
        return f"{type(self).__name__}({', '.join(shown)})"


KINDS: dict[tuple[str, str], type[Record]] = {}
"""The classes of records by tag and event."""


def encode(record: Record) -> dict[str, Any]:
    """Return the fields of a record except text and time, as JSON values."""
    kind: Any = type(record)
    values: dict[str, Any] = {"event": kind.event} if kind.event else {}
    flags, nulls = _marked(kind, FLAG), _marked(kind, NULL)
    for name in _names(kind):
        value = getattr(record, name)
        left_out = (value is None and name not in nulls) or (value is False and name in flags)
        if not left_out:
            values[name] = _plain(value)
    return values


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name not in ("text", "time"))


@cache
def _marked(kind: type[Any], mark: str) -> frozenset[str]:
    return frozenset(
        name for name, hint in kind.hints().items() if mark in getattr(hint, "__metadata__", ())
    )


def _plain(value: Any) -> Any:
    """Convert a field's value to JSON."""
    if not isinstance(value, tuple):
        return value
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items() if each is not None}
    return [_plain(each) for each in value]
