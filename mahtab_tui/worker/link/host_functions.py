"""Functions of the host, as code in cells calls them: with their signatures and docstrings."""

from __future__ import annotations
import __future__

from typing import Any, Callable

from ..cells.tracebacks import OUR_FOLDER
from ..tools.text_tools import mark_as_text
from .host import Host

_FRAME_TYPES = (str, int, float, bool, list, tuple, dict, type(None))
"""Types that frames can carry."""


def define_function(
    name: str, signature: str, arguments: str, names: dict[str, Any]
) -> Callable[..., Any]:
    """Define a function from text, so that it has a signature of its own.

    Args:
        name: Its name.
        signature: Its parameters in parentheses, with annotations.
        arguments: Code of the arguments with which it calls `__call__`.
        names: Its global variables, with `__call__` and `__name__`.
    """
    # A file name in our folder, so that tracebacks hide it.
    code = compile(
        f"def {name}{signature}:\n    return __call__({arguments})",
        f"{OUR_FOLDER}/functions/{name}",
        "exec",
        __future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    exec(code, names)
    function: Callable[..., Any] = names[name]
    return function


def make_host_function(described: dict[str, Any]) -> Callable[..., str]:
    """Create the function of a `kernel.host.HostFunction`, which may raise `RuntimeError` with the
    host's message."""
    name = described["name"]
    parameters = described["parameters"]
    signature = ", ".join(
        f"{parameter_name}: {annotation}" + (f" = {default}" if default else "")
        for parameter_name, annotation, default in parameters
    )
    arguments_code = ", ".join(
        f"{parameter_name!r}: {parameter_name}" for parameter_name, *_ in parameters
    )

    def call(arguments: dict[str, Any]) -> str:
        sent_arguments = {key: _as_frame_value(value) for key, value in arguments.items()}
        return mark_as_text(str(Host.call(described["called"], sent_arguments)))

    names: dict[str, Any] = {"__call__": call, "__name__": __name__}
    function = define_function(name, f"({signature}) -> str", f"{{{arguments_code}}}", names)
    function.__doc__ = described["doc"]
    return function


def _as_frame_value(value: Any) -> object:
    """Return an argument as a type that frames can carry: an int, or else its text."""
    if type(value) in _FRAME_TYPES:
        return value
    try:
        return value.__index__()
    except Exception:
        return str(value)
