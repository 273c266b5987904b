"""Runs the functions of a cell for its search: the host asks for one call after the other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable

from .host import Host
from .stdlib import late_import

if TYPE_CHECKING:
    from .caller_tools import CallerTools


@contextlib.contextmanager
def serving(tree: str, functions: Sequence[Callable[..., Any]]) -> Iterator[list[Any]]:
    """Serve a search's calls while the block runs; yields the descriptions of the functions. At the end, running calls are ended.

    Raises `ValueError` with a sentence for what cannot be a tool.
    """
    if not functions:
        yield []
        return
    tools: CallerTools = late_import(f"{__package__}.caller_tools").CallerTools(functions)
    threading.Thread(target=_serve, args=(tree, tools), name="rlm-tools", daemon=True).start()
    try:
        yield tools.described
    finally:
        tools.end()
        Host.call("rlm_tools_end", {"tree": tree})


def _serve(tree: str, tools: CallerTools) -> None:
    with contextlib.suppress(RuntimeError):  # there is no host any more
        while request := Host.call("rlm_tools", {"tree": tree}):
            if "stop" in request:
                tools.stop(request["stop"])
            else:
                tools.start(request["call"], request["name"], request["args"], request["kwargs"], _Answer(tree, request["call"]))


class _Answer:
    """Sends the result of a call to the host."""

    def __init__(self, tree: str, call: int) -> None:
        self._about = {"tree": tree, "call": call}

    def __call__(self, result: Any) -> None:
        with contextlib.suppress(RuntimeError):
            Host.call("rlm_tool", {**self._about, "result": dict(result)})
