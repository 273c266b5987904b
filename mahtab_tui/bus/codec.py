"""Converts records to JSON values and back, and assembles streams into records. Input may be
hostile or from a newer version: fields are checked against their types, and unknown ones
ignored."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import KINDS, Record, encode

FORMAT = 1

_WHOLE = 2**63


class InvalidRecord(ValueError):
    """The value is not a record, or a field has a value of the wrong type."""


def as_json(record: Record) -> dict[str, Any]:
    return {"tag": record.tag, "time": record.time, "attrs": encode(record), "text": record.text}


def decode(tag: str, text: str, attrs: object, time: float) -> Record | None:
    """Decode a record; None for a tag of a newer version. Raises `InvalidRecord`."""
    if not isinstance(attrs, dict):
        raise InvalidRecord("The fields of a record must be an object.")
    kind: Any = KINDS.get((tag, "")) or KINDS.get((tag, str(attrs.get("event"))))
    if kind is None:
        return None
    values = {
        name: _field(hint, name, attrs[name])
        for name, hint in records.hints(kind).items()
        if name in attrs and name not in ("text", "time")
    }
    try:
        return typing.cast(Record, kind(text, time=time, **values))
    except TypeError as missing:
        raise InvalidRecord(f"A record of tag {tag} lacks a field: {missing}.") from None


def from_json(value: object) -> Record | None:
    if not isinstance(value, dict):
        raise InvalidRecord("A record must be an object.")
    tag, text, time = (
        _read(hint, value.get(name))
        for name, hint in (("tag", str), ("text", str), ("time", float))
    )
    return decode(tag, text, value.get("attrs"), float(time))


def _field(hint: Any, name: str, value: object) -> Any:
    try:
        return _read(hint, value)
    except InvalidRecord as error:
        raise InvalidRecord(f"{name}: {error}") from None


_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "not a text"),
    int: (lambda value: type(value) is int and -_WHOLE <= value < _WHOLE, "not a whole number"),
    float: (  # false for infinities and NaN
        lambda value: type(value) in (int, float) and -_WHOLE <= value < _WHOLE,
        "not a number",
    ),
    bool: (lambda value: isinstance(value, bool), "neither true nor false"),
    type(None): (lambda value: value is None, "not null"),
}


@cache
def _shape(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return typing.get_origin(hint) or hint, typing.get_args(hint)


def _read(hint: Any, value: Any) -> Any:
    origin, args = _shape(hint)
    if origin in _PLAIN:
        is_valid, problem = _PLAIN[origin]
        if is_valid(value):
            return value
        raise InvalidRecord(problem)
    if origin in (typing.Union, types.UnionType):
        for each in args:
            try:
                return _read(each, value)
            except InvalidRecord as error:
                last = error
        raise last
    if origin is tuple:
        is_row = args[1:] != (...,)
        if not isinstance(value, (list, tuple)) or (is_row and len(value) != len(args)):
            raise InvalidRecord(f"not a list of {len(args)}" if is_row else "not a list")
        kinds = args if is_row else args[:1] * len(value)
        return tuple(_read(kind, each) for kind, each in zip(kinds, value, strict=True))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise InvalidRecord("not an object")
        return {str(name): _read(args[1], each) for name, each in value.items()}
    hints = records.hints(origin)
    needed = hints.keys() - origin._field_defaults.keys()
    if not isinstance(value, dict) or not needed <= value.keys():
        raise InvalidRecord(f"not an object with {', '.join(sorted(needed))}")
    names = hints.keys() & value.keys()
    return origin(**{name: _field(hints[name], name, value[name]) for name in names})


LIMIT = 64_000_000
"""Maximum characters of a partial record."""

StoredStream = (
    records.UserReplOutStream | records.AssistantReplOutStream | records.AssistantChatStream
)
"""A piece of a stream whose complete record is stored."""


def stream_key(record: Record) -> str:
    """Return the key that a stream's pieces share with its complete record; empty for others."""
    match record:
        case records.ReplOut() | records.ReplOutStream():
            of_user = isinstance(record, records.UserReplOut | records.UserReplOutStream)
            whose = "user" if of_user else "assistant"
            return f"{whose}:{record.cell}:{record.late}"
        case records.AssistantChat() | records.AssistantChatStream():
            return f"answer:{record.turn}:{record.step}"
    return ""


class Partial:
    def __init__(self, first: StoredStream) -> None:
        self._first = first
        self._pieces: list[str] = []
        self._length = 0
        self._kinds: list[tuple[str, int]] = []
        self.fresh = False

    def add(self, piece: StoredStream) -> None:
        if self._length >= LIMIT:
            return
        kind, text = piece.kind, piece.text
        if isinstance(piece, records.AssistantChatStream):
            text = self._fence(kind) + text
        if not self._kinds or self._kinds[-1][0] != kind or kind == "display":
            self._kinds.append((kind, 0))
        self._kinds[-1] = kind, self._kinds[-1][1] + len(text)
        self._pieces.append(text)
        self._length += len(text)
        self.fresh = True

    def record(self) -> Record:
        self._pieces = [text] = ["".join(self._pieces)]
        first = self._first
        if isinstance(first, records.AssistantChatStream):
            return records.AssistantChat(
                text, turn=first.turn, step=first.step, party=first.party, time=first.time
            )
        of_user = isinstance(first, records.UserReplOutStream)
        whole = records.UserReplOut if of_user else records.AssistantReplOut
        kinds = tuple(self._kinds)
        return whole(text, cell=first.cell, late=first.late, kinds=kinds, time=first.time)

    def _fence(self, kind: str) -> str:
        """Return the fence line that the stream omits before this kind."""
        before = self._kinds[-1][0] if self._kinds else "chat"
        if kind == before:
            return ""
        ended = not self._pieces or self._pieces[-1].endswith("\n")
        return ("" if ended else "\n") + ("```python\n" if kind == "code" else "```\n")
