"""Turns the methods of `SandboxFunctions` into the functions that code calls: with the arguments in
the orders that models write, and errors that say how to call them."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any, Callable

from .functions import ALL_FUNCTIONS, SandboxFunctions
from .pieces import Piece

_TEXT_READERS = ("peek", "grep", "partition")
"""Functions that read `context`, or the text that `text` names."""


def _read_signature(name: str) -> inspect.Signature:
    """Return the signature of a function as code calls it: without annotations, which would make
    errors long, and without `self`."""
    _, *parameters = inspect.signature(getattr(SandboxFunctions, name)).parameters.values()
    return inspect.Signature(
        [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    )


SIGNATURES = {name: _read_signature(name) for name in ALL_FUNCTIONS}
"""The signature of each function by its name."""


def as_function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method as a function that explains wrong arguments, and looks like a builtin one.

    Args:
        method: A method of `SandboxFunctions`, bound to its object.
    """
    name = method.__name__
    signature = SIGNATURES[name]
    usage = f"{name}({', '.join(signature.parameters)})"

    @wraps(method)
    def function(*args: Any, **kwargs: Any) -> Any:
        if name in _TEXT_READERS and "text" not in kwargs:
            args = _pass_text_by_name(name, args, kwargs)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}. Call it as {usage}") from None
        return method(*args, **kwargs)

    # Tracebacks then name it as code does.
    function.__qualname__ = name
    function.__module__ = "builtins"
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _pass_text_by_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Move a text among the first two arguments to `text` in kwargs: models write both
    ``grep(pattern, context)`` and ``grep(context, pattern)``.

    Returns:
        The other positional arguments.
    """
    text_index = _find_text(name, args[:2])
    if text_index is None:
        return args
    kwargs["text"] = args[text_index]
    return args[:text_index] + args[text_index + 1 :]


def _find_text(name: str, first_args: tuple[Any, ...]) -> int | None:
    """Return the index of the text that a function is to read; None if there is none."""
    text_indexes = [
        index for index, argument in enumerate(first_args) if isinstance(argument, (str, list))
    ]
    if name != "grep":
        return text_indexes[0] if text_indexes else None

    # One text alone is the pattern, which grep cannot do without.
    if len(text_indexes) < 2:
        return None
    first, second = first_args
    return 0 if _is_text_first(first, second) else 1


def _is_text_first(first: Any, second: Any) -> bool:
    """Return whether the first argument of grep is its text, and the second one its pattern."""
    # Only texts are parts of `context`; if both are, or none is, the pattern is the shorter one.
    if isinstance(first, Piece) != isinstance(second, Piece):
        return isinstance(first, Piece)
    return len(first) > len(second)
