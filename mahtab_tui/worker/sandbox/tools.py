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
    return _Copy(what, most).of(value, 0)


class _Copy:
    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = self._left = most

    def of(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST_DATA:
            raise NotPlainError(f"{self._what} is nested more than {_DEEPEST_DATA} levels deep.")
        self._take(1)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            self._take(len(value))
            return str.__str__(value)
        if isinstance(value, int):
            return self._whole(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise NotPlainError(f"{self._what} has {float(value)} in it, which is no number.")
            return float(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return {self._key(name): self.of(item, depth + 1) for name, item in value.items()}
        if hasattr(type(value), "tolist"):  # arrays and scalars of NumPy, a Series
            return self.of(value.tolist(), depth + 1)
        if hasattr(type(value), "__index__"):  # integers of other libraries
            return self._whole(value.__index__())
        raise NotPlainError(
            f"{self._what} has a {type(value).__name__} in it. Only plain data passes: numbers, text, true, false, None, lists, and dicts by text."
        )

    def _key(self, name: object) -> str:
        if not isinstance(name, str):
            raise NotPlainError(
                f"{self._what} has a dict in it with a key that is no text, but a {type(name).__name__}."
            )
        self._take(len(name))
        return str.__str__(name)

    def _whole(self, value: int) -> int:
        if value.bit_length() > 4_000:
            raise NotPlainError(f"{self._what} has a number in it that is too long.")
        return int(value)

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise NotPlainError(f"{self._what} has more than {self._most:,} characters.")


class DescribedTool(NamedTuple):
    """A function of the caller as described to models and sandboxes."""

    name: str
    signature: str
    """For example "(city, year=2026)"."""
    doc: str


def tool_function(host: EngineHost, name: str, signature: str, doc: str) -> Callable[..., Any]:
    """Create the function. A call may raise `NotPlainError` for an argument, and `CallError` with
    the caller's sentence."""

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
