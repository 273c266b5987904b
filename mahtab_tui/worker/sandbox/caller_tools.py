"""The caller's functions in a sandbox, and the plain data that they exchange with it."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from .engine import EngineHost

_MAX_DATA_DEPTH = 20
"""Levels of nested data that pass between a sandbox and the caller's functions."""
_MAX_DATA_CHARS = 1_000_000
"""Characters of such data."""
_MAX_NUMBER_BITS = 4_000
"""Bits of a whole number that passes."""


class NotPlainError(TypeError):
    """A value is not plain data; the message says which one."""


def plain_data(value: object, subject: str, max_chars: int = _MAX_DATA_CHARS) -> Any:
    """Return a copy that consists of None, bool, int, float, str, list and dict.

    Args:
        value: The value to copy.
        subject: What the value is, as the beginning of a sentence.
        max_chars: Maximum characters of all texts together; any value counts as one more.

    Raises:
        NotPlainError: The value contains something else, or is too large.
    """
    return _PlainCopier(subject, max_chars).copy(value, depth=0)


class _PlainCopier:
    """Copies a value as plain data, up to a limit."""

    def __init__(self, subject: str, max_chars: int) -> None:
        self._subject = subject
        self._max_chars = max_chars
        self._remaining_chars = max_chars

    def copy(self, value: Any, depth: int) -> Any:
        """Return a copy of a value, which is nested so many levels deep. Raises `NotPlainError`."""
        if depth > _MAX_DATA_DEPTH:
            raise self._error(f"is nested more than {_MAX_DATA_DEPTH} levels deep")
        text_chars = str.__len__(value) if isinstance(value, str) else 0
        # Each value costs one more, so that their number is limited too.
        self._remaining_chars -= 1 + text_chars
        if self._remaining_chars < 0:
            raise self._error(f"has more than {self._max_chars:,} characters")

        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, float):
            plain_float = float.__float__(value)
            if not math.isfinite(plain_float):
                raise self._error(f"has {plain_float} in it, which is not a finite number")
            return plain_float
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return self._copy_mapping(value, depth)
        # Arrays and scalars of NumPy, and a Series, have this method.
        if hasattr(type(value), "tolist"):
            return self.copy(value.tolist(), depth + 1)
        if hasattr(type(value), "__index__"):
            number = int.__index__(operator.index(value))
            if number.bit_length() > _MAX_NUMBER_BITS:
                raise self._error("has a number in it that is too long")
            return number
        raise self._error(
            f"has a {type(value).__name__} in it. Only plain data passes: numbers, text, true, false, None, lists, and dicts by text"
        )

    def _copy_mapping(self, mapping: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copies: dict[str, Any] = {}
        for key, item in mapping.items():
            if not isinstance(key, str):
                raise self._error(
                    f"has a dict in it with a key that is not a string, but of type {type(key).__name__}"
                )
            copied_key = self.copy(key, depth)
            copies[copied_key] = self.copy(item, depth + 1)
        return copies

    def _error(self, problem: str) -> NotPlainError:
        return NotPlainError(f"{self._subject} {problem}.")


class DescribedTool(NamedTuple):
    """A function of the caller's, as it is described to models and sandboxes."""

    name: str
    signature: str
    """What stands after its name: "(city, year=2026)"."""
    doc: str
    """Its docstring."""


def tool_function(host: EngineHost, name: str, signature: str, doc: str) -> Callable[..., object]:
    """Create a function in the sandbox that has the caller run a function of its own.

    A call of it may raise `NotPlainError`, and `CallError` with the caller's sentence.

    Args:
        host: Where the caller is reached.
        name: The name of the function.
        signature: What stands after its name.
        doc: Its docstring.
    """

    def tool(*args: object, **kwargs: object) -> object:
        subject = f"{name}: an argument"
        plain_args = plain_data(args, subject)
        plain_kwargs = plain_data(kwargs, subject)
        reply = host.call("tool", {"name": name, "args": plain_args, "kwargs": plain_kwargs})
        return reply["value"]

    tool.__name__ = name
    tool.__qualname__ = name
    tool.__module__ = "builtins"
    tool.__doc__ = f"{name}{signature}\n\n{doc}"
    return tool
