"""The caller's functions as seen by code in a sandbox, and the data they exchange."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from .text import EngineHost

_DEEPEST_DATA = 20
_MOST = 1_000_000


class NotPlainError(TypeError):
    """A value is not plain data; the message says which one."""


def plain_data(value: object, what: str, most: int = _MOST) -> Any:
    """Return a copy that consists of None, bool, int, float, str, list and dict.

    what: a name for the message. most: maximum characters of all texts, counting one for each
    value. Raises `NotPlainError`.
    """
    left = most

    def take(size: int) -> None:
        nonlocal left
        left -= size
        if left < 0:
            raise NotPlainError(f"{what} has more than {most:,} characters.")

    def copy_text(text: object) -> str:
        if not isinstance(text, str):
            raise NotPlainError(
                f"{what} has a dict in it with a key that is no text, but a {type(text).__name__}."
            )
        take(len(text))
        return str.__str__(text)

    def copy_int(number: int) -> int:
        if number.bit_length() > 4_000:
            raise NotPlainError(f"{what} has a number in it that is too long.")
        return int(number)

    def copy(value: Any, depth: int) -> Any:
        if depth > _DEEPEST_DATA:
            raise NotPlainError(f"{what} is nested more than {_DEEPEST_DATA} levels deep.")
        take(1)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return copy_text(value)
        if isinstance(value, int):
            return copy_int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise NotPlainError(f"{what} has {float(value)} in it, which is no number.")
            return float(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return [copy(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return {copy_text(name): copy(item, depth + 1) for name, item in value.items()}
        if hasattr(type(value), "tolist"):  # arrays and scalars of NumPy, a Series
            return copy(value.tolist(), depth + 1)
        if hasattr(type(value), "__index__"):  # integers of other libraries
            return copy_int(value.__index__())
        raise NotPlainError(
            f"{what} has a {type(value).__name__} in it. Only plain data passes: numbers, text, true, false, None, lists, and dicts by text."
        )

    return copy(value, 0)


class DescribedTool(NamedTuple):
    """A function of the caller as described to models and sandboxes: signature is like "(city, year=2026)"."""

    name: str
    signature: str
    doc: str


def tool_function(host: EngineHost, name: str, signature: str, doc: str) -> Callable[..., Any]:
    """Create the function. A call may raise `NotPlainError`, and `CallError` with the caller's sentence."""

    def tool(*args: Any, **kwargs: Any) -> Any:
        given, named = (
            plain_data(args, f"{name}: an argument"),
            plain_data(kwargs, f"{name}: an argument"),
        )
        return host.call("tool", {"name": name, "args": given, "kwargs": named})["value"]

    tool.__name__ = tool.__qualname__ = name
    tool.__module__ = "builtins"
    tool.__doc__ = f"{name}{signature}\n\n{doc}"
    return tool
