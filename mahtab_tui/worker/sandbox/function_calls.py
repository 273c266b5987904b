"""Turns the methods of `SandboxFunctions` into the functions that code calls: with the arguments in
the orders that models write, and errors that say how to call them."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any, Callable

from .functions import ALL_FUNCTIONS, SandboxFunctions
from .pieces import Piece

_READERS = ("peek", "grep", "partition")
"""Functions that read a text."""
SIGNATURES = {
    name: inspect.Signature(
        [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in inspect.signature(getattr(SandboxFunctions, name)).parameters.values()
            if parameter.name != "self"
        ]
    )
    for name in ALL_FUNCTIONS
}
"""By the name of each function, without annotations."""


def as_function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method as a function that explains wrong arguments, and looks like a builtin one."""
    signature = SIGNATURES[method.__name__]

    @wraps(method)
    def function(*args: Any, **kwargs: Any) -> Any:
        if method.__name__ in _READERS:
            args = _name_text(method.__name__, args, kwargs)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{method.__name__}: {error}. Call it as {method.__name__}({', '.join(signature.parameters)})"
            ) from None
        return method(*args, **kwargs)

    function.__qualname__ = method.__name__
    function.__module__ = "builtins"
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _name_text(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Move a text among the first arguments to `text` in kwargs, and return the other arguments:
    models write grep(pattern, context) and grep(context, pattern)."""
    text_indexes = [
        index for index, argument in enumerate(args[:2]) if isinstance(argument, (str, list))
    ]
    if name == "grep":
        # One of the two is the pattern.
        if len(text_indexes) < 2:
            return args
        text_indexes = [0 if _is_text_first(args[0], args[1]) else 1]
    if not text_indexes or "text" in kwargs:
        return args
    index = text_indexes[0]
    kwargs["text"] = args[index]
    return args[:index] + args[index + 1 :]


def _is_text_first(first: Any, second: Any) -> bool:
    """Return whether the first argument of grep is its text, and the second one its pattern."""
    if isinstance(first, Piece) != isinstance(second, Piece):
        return isinstance(first, Piece)
    return len(first) > len(second)
