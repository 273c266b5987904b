"""What a record is: an immutable value of a class whose fields are declared with types and defaults, as of a dataclass.

It is no `dataclasses.dataclass`, since making forty of those takes 15 ms before the first picture: each compiles four methods at once. Here
`__init__` alone is compiled, and only when the first record of a class is made. Type checkers see frozen dataclasses.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from functools import cache
from typing import Annotated, Any, ClassVar, NoReturn, Self, dataclass_transform

WORD, NAME, FLAG, NULL, PICTURE = "word", "name", "flag", "null", "picture"
"""What an annotation says of a field besides its type. `NULL`: it is written also where it is None."""

Word = Annotated[str, WORD]
"""One of the program's own words, or an id: it says what a record is about, so it is never masked, even if a secret reads the same."""
Name = Annotated[str, NAME]
"""What things are found by: a secret is masked in it only where it is more than a short word."""
Flag = Annotated[bool, FLAG]
"""Written only where it is true."""
Data = Annotated[str, PICTURE]
"""The data of what `mime` says. A picture's is base64, and holds no secret that could be read."""

_REQUIRED = object()


def positional(*, default: Any, kw_only: bool) -> Any:
    """The default of the one field that may be given without its name."""
    return default


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(positional,))
class RecordType(type):
    """Makes the classes of records: slots for the fields, and where each of them gets its value."""

    fields: Mapping[str, Any]
    """The names of all fields, the inherited ones first, with their defaults."""

    def __new__(meta, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> RecordType:
        inherited = {name: default for base in bases if isinstance(base, RecordType) for name, default in base.fields.items()}
        declared = [name for name, kind in body.get("__annotations__", {}).items() if not kind.startswith("ClassVar")]
        own = {name: body.pop(name, _REQUIRED) for name in declared}
        made = super().__new__(meta, name, bases, {**body, "__slots__": tuple(own), "__init__": _compile_and_init})
        made.fields = {**inherited, **own}
        return made

    def hints(cls) -> dict[str, Any]:
        """The type of each field, with what its annotation says besides."""
        found = typing.get_type_hints(cls, include_extras=True)
        return {name: found[name] for name in cls.fields}


def _compile_and_init(self: Record, *args: Any, **kwargs: Any) -> None:
    """Takes the place of `__init__` until the first record of a class is made."""
    kind = type(self)
    defaults = {f"_{name}_default": default for name, default in kind.fields.items()}
    setters = {f"_set_{name}": getattr(kind, name).__set__ for name in kind.fields}
    others = [name if default is _REQUIRED else f"{name}=_{name}_default" for name, default in kind.fields.items() if name != "text"]
    lines = [f"def __init__(self, text=_text_default, *, {', '.join(others)}):", *(f"    _set_{name}(self, {name})" for name in kind.fields)]
    made: dict[str, Any] = {**defaults, **setters}
    exec("\n".join(lines), made)
    kind.__init__ = made["__init__"]  # type: ignore[method-assign]
    kind.__init__(self, *args, **kwargs)


class Record(metaclass=RecordType):
    """One thing that happened: what the panes, the prompt and the store are made of."""

    tag: ClassVar[str]
    """A constant of `bus.tags`."""
    event: ClassVar[str] = ""
    """Which of the records of one tag it is, where there are several kinds."""

    text: str = positional(default="", kw_only=False)
    time: float = 0.0
    """When it was logged, in seconds since the epoch; `emit` sets it."""

    @property
    def attrs(self) -> dict[str, Any]:
        """All fields but text and time as JSON values, for programs that take whatever record comes (`rlm(on_event=…)`, `SessionState`)."""
        return encode(self)

    def changed(self, **changes: Any) -> Self:
        """The same record with other values of some fields."""
        return type(self)(**{**self.values(), **changes})

    def values(self) -> dict[str, Any]:
        """The values of all fields by name."""
        return {name: getattr(self, name) for name in type(self).fields}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.values() == self.values()

    def __hash__(self) -> int:
        return hash((self.tag, self.text, self.time))

    def __repr__(self) -> str:
        told = (f"{name}={value!r}" for name, value in self.values().items() if value != type(self).fields[name])
        return f"{type(self).__name__}({', '.join(told)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.values())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"A record never changes: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"A record never changes: {name!r} cannot be deleted.")


def _remade(kind: type[Record], values: dict[str, Any]) -> Record:
    return kind(**values)


def encode(record: Record) -> dict[str, Any]:
    """The fields of a record but its text and time, as JSON values."""
    kind = type(record)
    told: dict[str, Any] = {"event": kind.event} if kind.event else {}
    flags, nulls = _marked(kind, FLAG), _marked(kind, NULL)
    for name in kind.fields:
        value = getattr(record, name)
        left_out = name in ("text", "time") or (value is None and name not in nulls) or (value is False and name in flags)
        if not left_out:
            told[name] = _plain(value)
    return told


@cache
def _marked(kind: type[Record], mark: str) -> frozenset[str]:
    return frozenset(name for name, hint in kind.hints().items() if mark in getattr(hint, "__metadata__", ()))


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if not isinstance(value, tuple):
        return value
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items() if each is not None}
    return [_plain(each) for each in value]
