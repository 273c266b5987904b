"""The caller's functions as code in a sandbox has them. They run in the caller's process."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..plain_data import plain_data
from .host import EngineHost


class DescribedTool(NamedTuple):
    """A function of the caller as models and sandboxes get it."""

    name: str
    signature: str
    """"(city, year=2026)"."""
    doc: str


def tool_function(host: EngineHost, name: str, signature: str, doc: str) -> Callable[..., Any]:
    """Make the function. When called, it may raise `NotPlainError` for an argument, and `CallError` with the caller's sentence."""

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
