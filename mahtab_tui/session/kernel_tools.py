"""Lets the code of a search call functions of the cell that has started it.

The functions are in the kernel, which fetches each call as a request, and sends its result.
"""

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


Request = dict[str, Any]
"""What the kernel is asked for, as JSON: to call a tool (`call`, `name`, `args` and `kwargs`), or to
cancel a call (`stop`)."""
ResultCallback = Callable[[Mapping[str, Any]], None]
"""Gets the result of a call, or its error, as JSON."""


class KernelTools:
    """A `search.search_tools.ToolRunner` whose calls the kernel makes. Any thread may use it."""

    def __init__(self) -> None:
        """Begin without calls. Whoever makes it sets `described`."""
        self.described: list[DescribedTool] = []
        """The tools that can be called."""
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        """Requests for the kernel; None marks the end."""
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._callbacks: dict[int, ResultCallback] = {}
        """By the numbers of the calls that run: what gets their results."""
        self._has_ended = False

    def start(
        self,
        call: int,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        done: ResultCallback,
    ) -> None:
        """Let the kernel call a tool.

        Args:
            call: The number of the call.
            name: The tool's name.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            done: Called with the result or the error, on any thread.
        """
        with self._lock:
            has_ended = self._has_ended
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

    def next(self) -> Request | None:
        """Wait for the next request; None at the end."""
        request = self._requests.get()
        if request is None:
            # Put back for other waiting threads, and for later callers.
            self._requests.put(None)
        return request

    def done(self, call: object, result: object) -> None:
        """Pass a result of the kernel on to the search.

        Args:
            call: The number of the call. It is not trusted, and neither is the result.
            result: The result or the error.
        """
        if not isinstance(call, int):
            return
        with self._lock:
            callback = self._callbacks.pop(call, None)
        if callback is not None:
            callback(result if isinstance(result, Mapping) else _NO_ANSWER)

    def end(self) -> None:
        """End all calls, because the cell or its kernel has ended."""
        with self._lock:
            self._has_ended = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
            self._requests.put(None)
        for callback in callbacks:
            callback(_CELL_ENDED)


def parse_tools(values: Iterable[Any]) -> list[DescribedTool]:
    """Read descriptions of tools from the kernel, which are not trusted.

    Args:
        values: For each tool its name, its signature and its description.

    Raises:
        ValueError: They cannot be read, or a tool has a name that searches do not allow.
    """
    tools = [
        DescribedTool(str(name), str(signature)[:MAX_TOOL_CHARS], str(doc)[:MAX_TOOL_CHARS])
        for name, signature, doc in values
    ]
    for tool in tools:
        if reason := name_problem(tool.name):
            raise ValueError(f"tools: a tool cannot be named {tool.name!r}: {reason}.")
    return tools[:MAX_TOOLS]
