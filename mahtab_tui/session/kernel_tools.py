"""The functions of a cell that the code of a search calls: the kernel fetches the calls and sends
the results."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mahtab_tui.worker.sandbox.caller_tools import DescribedTool
from mahtab_tui.worker.sandbox.names import name_problem

MAX_TOOLS = 50
"""Tools of a cell that a search can call."""
MAX_TOOL_CHARS = 2_000
"""Characters of a tool's signature, and of its description."""

_CELL_ENDED = {"error": "The cell that has the function has ended."}
_NO_ANSWER = {"error": "The kernel did not answer."}


class KernelTools:
    """A `search.search_tools.ToolRunner` whose calls the kernel fetches. Any thread may use it."""

    def __init__(self) -> None:
        """Begin without calls. Whoever makes it sets `described`."""
        self.described: list[DescribedTool] = []
        """What there is to call."""
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        """Requests for the kernel; None marks the end."""
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[Mapping[str, Any]], None]] = {}
        """Called with the result of each running call, by its number."""
        self._ended = False

    def start(
        self,
        call: int,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        done: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Let the kernel call a tool.

        Args:
            done: Called with the result or the error, on any thread.
        """
        with self._lock:
            has_ended = self._ended
            if not has_ended:
                self._callbacks[call] = done
                request = {"call": call, "name": name, "args": list(args), "kwargs": dict(kwargs)}
                self._requests.put(request)
        # Called without the lock, because it may start the next call.
        if has_ended:
            done(_CELL_ENDED)

    def stop(self, call: int) -> None:
        """Let the kernel cancel a call, if it still runs."""
        with self._lock:
            if self._callbacks.pop(call, None) is not None:
                self._requests.put({"stop": call})

    def next(self) -> dict[str, Any] | None:
        """Wait for the next request; None at the end."""
        request = self._requests.get()
        if request is None:
            # Put back for other waiting threads, and for later callers.
            self._requests.put(None)
        return request

    def done(self, call: object, result: object) -> None:
        """Process a result from the kernel, which is not trusted."""
        if not isinstance(call, int):
            return
        with self._lock:
            callback = self._callbacks.pop(call, None)
        if callback is not None:
            callback(result if isinstance(result, Mapping) else _NO_ANSWER)

    def end(self) -> None:
        """End all calls, because the cell or its kernel has ended."""
        with self._lock:
            self._ended = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
            self._requests.put(None)
        for callback in callbacks:
            callback(_CELL_ENDED)


def parse_tools(values: Iterable[Any]) -> list[DescribedTool]:
    """Parse descriptions from the kernel. Raises `ValueError`."""
    tools = [
        DescribedTool(str(name), str(signature)[:MAX_TOOL_CHARS], str(doc)[:MAX_TOOL_CHARS])
        for name, signature, doc in values
    ]
    for tool in tools:
        if reason := name_problem(tool.name):
            raise ValueError(f"tools: a tool cannot be named {tool.name!r}: {reason}.")
    return tools[:MAX_TOOLS]
