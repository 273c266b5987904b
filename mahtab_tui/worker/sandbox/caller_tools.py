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
    remaining_chars = max_chars

    def copy(value: Any, depth: int) -> Any:
        nonlocal remaining_chars
        if depth > _MAX_DATA_DEPTH:
            raise NotPlainError(f"{subject} is nested more than {_MAX_DATA_DEPTH} levels deep.")
        # Each value costs one more, so that their number is limited too.
        remaining_chars -= 1 + (len(value) if isinstance(value, str) else 0)
        if remaining_chars < 0:
            raise NotPlainError(f"{subject} has more than {max_chars:,} characters.")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise NotPlainError(
                    f"{subject} has {float(value)} in it, which is not a finite number."
                )
            return float(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return [copy(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str):
                    raise NotPlainError(
                        f"{subject} has a dict in it with a key that is not a string, but of type {type(name).__name__}."
                    )
            return {copy(name, depth): copy(item, depth + 1) for name, item in value.items()}
        if hasattr(type(value), "tolist"):  # arrays and scalars of NumPy, a Series
            return copy(value.tolist(), depth + 1)
        if hasattr(type(value), "__index__"):
            number = operator.index(value)
            if number.bit_length() > 4_000:
                raise NotPlainError(f"{subject} has a number in it that is too long.")
            return int(number)
        raise NotPlainError(
            f"{subject} has a {type(value).__name__} in it. Only plain data passes: numbers, text, true, false, None, lists, and dicts by text."
        )

    return copy(value, 0)


class DescribedTool(NamedTuple):
    """A function of the caller's, as it is described to models and sandboxes."""

    name: str
    signature: str
    """What stands after its name: "(city, year=2026)"."""
    doc: str


def tool_function(host: EngineHost, name: str, signature: str, doc: str) -> Callable[..., object]:
    """Create a function that has the caller run its own. A call may raise `NotPlainError`, and
    `CallError` with the caller's sentence."""

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
