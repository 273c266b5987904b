"""The form that a caller wants an answer in: told to the model, and read from what it answers."""

from __future__ import annotations

import ast
import dataclasses
import enum
import json
import re
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_SIMPLE: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    None: "null",
    type(None): "null",
    Any: "any JSON",
    date: "a date such as 2026-03-01",
    datetime: "a time such as 2026-03-01T12:00:00",
    time: "a time such as 12:00:00",
}
_LISTS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    tuple: tuple,
    Sequence: list,
}
_DICTS = (dict, Mapping)
_UNIONS = (Union, getattr(types, "UnionType", Union))
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class WrongForm(ValueError):
    """An answer has another form; the message is a sentence for the model."""


def described(wanted: Any, within: tuple[Any, ...] = ()) -> str:
    """Say what a type wants, for a model. Raises `TypeError` for types that cannot be wanted.

    within: the classes around it, which may refer to themselves.
    """
    origin, inner = get_origin(wanted) or wanted, get_args(wanted)
    if not isinstance(origin, Hashable):  # such as [int] instead of list[int]
        raise _no_form(wanted)
    if wanted in _SIMPLE:
        return _SIMPLE[wanted]
    if wanted in within:
        return f"another {wanted.__name__}"
    if origin in _UNIONS:
        return " or ".join(described(each, within) for each in inner)
    if origin is Literal:
        return " or ".join(json.dumps(each) for each in inner)
    if origin is tuple and inner and inner[-1] is not ...:
        return f"[{', '.join(described(each, within) for each in inner)}]"
    if origin in _LISTS:
        return f"[{described(inner[0], within) if inner else 'any JSON'}, ...]"
    if origin in _DICTS:
        return f"{{{_SIMPLE[str]}: {described(inner[1], within) if inner else 'any JSON'}, ...}}"
    if hasattr(wanted, "model_validate_json"):
        return f"an object by this JSON schema: {json.dumps(wanted.model_json_schema())}"
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return " or ".join(json.dumps(each.value) for each in wanted)
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        names = [
            f"{json.dumps(name)}: {described(kind, (*within, wanted))}{'' if must else ' (or left out)'}"
            for name, kind, must in _fields(wanted)
        ]
        return f"{{{', '.join(names)}}}"
    raise _no_form(wanted)


def read_as(wanted: Any, text: str, *, raw: bool = False) -> Any:
    """Read an answer. raw: keep control characters in its strings. Raises `WrongForm`."""
    if wanted is str:
        return str(text)
    try:
        data = _data(text)
    except WrongForm:
        if str not in get_args(wanted):
            raise
        data = str(text)
    return _read(wanted, data if raw else _clean(data), "the answer")


def _data(text: str) -> Any:
    """Return JSON or a Python literal as data."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.partition("\n")[2][:-3]
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise WrongForm(f"it is not JSON, but begins {text[:60]!r}")


def _clean(data: Any) -> Any:
    if isinstance(data, str):
        return _CONTROLS.sub("", data)
    if isinstance(data, (list, tuple, set, frozenset)):
        return [_clean(each) for each in data]
    return (
        {_clean(name): _clean(each) for name, each in data.items()}
        if isinstance(data, dict)
        else data
    )


def _read(wanted: Any, data: Any, path: str) -> Any:
    origin, inner = get_origin(wanted) or wanted, get_args(wanted)
    if wanted is Any:
        return data
    if wanted is float and type(data) is int:
        return float(data)
    if wanted is int and type(data) is float and data.is_integer():
        return int(data)
    if wanted in (str, int, float, bool, None, type(None)):
        if type(data) is not (type(None) if wanted is None else wanted):
            raise _wrong(wanted, data, path)
        return data
    if origin in _UNIONS:
        for each in inner:
            try:
                return _read(each, data, path)
            except WrongForm:
                continue
        raise _wrong(wanted, data, path)
    if origin is Literal:
        if not any(each == data and type(each) is type(data) for each in inner):
            raise _wrong(wanted, data, path)
        return data
    if origin in _LISTS:
        return _read_list(wanted, data, path)
    if origin in _DICTS:
        if not isinstance(data, dict):
            raise _wrong(wanted, data, path)
        key, kind = inner or (Any, Any)
        return {
            _read_key(key, name, path): _read(kind, each, f"{path}[{name!r}]")
            for name, each in data.items()
        }
    return _read_object(wanted, data, path)


def _read_list(wanted: Any, data: Any, path: str) -> Any:
    origin, inner = get_origin(wanted) or wanted, get_args(wanted)
    if not isinstance(data, (list, tuple)):
        raise _wrong(wanted, data, path)
    kinds: Sequence[Any] = [inner[0] if inner else Any] * len(data)
    if origin is tuple and inner and inner[-1] is not ...:
        kinds = inner
        if len(data) != len(kinds):
            raise _wrong(wanted, data, path)
    try:
        return _LISTS[origin](
            _read(kind, each, f"{path}[{place}]")
            for place, (kind, each) in enumerate(zip(kinds, data))
        )
    except TypeError:  # a set of lists
        raise _wrong(wanted, data, path) from None


def _read_key(wanted: Any, name: Any, path: str) -> Any:
    if wanted in (int, float) and isinstance(name, str):
        try:
            return wanted(name)
        except ValueError:
            raise _wrong(wanted, name, f"{path}, a key") from None
    return _read(wanted, name, f"{path}, a key")


def _read_object(wanted: Any, data: Any, path: str) -> Any:
    """Read a pydantic model, an enum, a date or a dataclass."""
    if hasattr(wanted, "model_validate_json"):
        try:
            return wanted.model_validate_json(json.dumps(data))
        except Exception as error:  # its validators may be the user's
            raise WrongForm(f"{path}: {error}") from None
    if hasattr(wanted, "fromisoformat") or issubclass(wanted, enum.Enum):
        try:
            return wanted.fromisoformat(data) if hasattr(wanted, "fromisoformat") else wanted(data)
        except (ValueError, TypeError):
            raise _wrong(wanted, data, path) from None
    if not isinstance(data, dict):
        raise _wrong(wanted, data, path)
    fields = _fields(wanted)
    missing = [name for name, _, must in fields if must and name not in data]
    unknown = sorted(str(name) for name in data.keys() - {name for name, _, _ in fields})
    if missing or unknown:
        raise WrongForm(
            f"{path}: "
            + "; ".join(
                [f"{name!r} is missing" for name in missing]
                + [f"there is no {name!r}" for name in unknown]
            )
        )
    values = {
        name: _read(kind, data[name], f"{path}.{name}") for name, kind, _ in fields if name in data
    }
    try:
        return wanted(**values)
    except Exception as error:  # its __post_init__ is the user's
        raise WrongForm(f"{path}: {error}") from None


def _fields(wanted: Any) -> list[tuple[str, Any, bool]]:
    """Return name and type of each field of a dataclass, and whether it must be given."""
    kinds = get_type_hints(wanted)
    without = dataclasses.MISSING
    return [
        (
            field.name,
            kinds[field.name],
            field.default is without and field.default_factory is without,
        )
        for field in dataclasses.fields(wanted)
        if field.init
    ]


def _wrong(wanted: Any, data: Any, path: str) -> WrongForm:
    shown = json.dumps(data, default=str)
    return WrongForm(
        f"{path} must be {described(wanted)}, not {shown if len(shown) <= 100 else shown[:100] + '…'}"
    )


def _no_form(wanted: Any) -> TypeError:
    return TypeError(
        f"returns: {wanted!r} cannot describe an answer. Give int, list[str], a dataclass, a pydantic model or the like."
    )
