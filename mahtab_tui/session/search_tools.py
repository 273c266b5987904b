"""The way from a search to the functions of a cell, which run in the kernel: it fetches one request
after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mahtab_tui.kernel.worker.sandbox.tools import DescribedTool

_LONGEST = 2_000
_MOST = 50


class KernelTools:
    """Implements `search.tools.ToolRunner` by requests that the kernel fetches. Any thread may call
    it."""

    def __init__(self) -> None:
        self.described: list[DescribedTool] = []
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[Mapping[str, Any]], None]] = {}
        self._ended = False

    def start(
        self,
        call: int,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        done: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Ask the kernel to call a function."""
        with self._lock:
            if not self._ended:
                self._open[call] = done
                self._requests.put(
                    {"call": call, "name": name, "args": list(args), "kwargs": dict(kwargs)}
                )
                return
        done({"error": "The cell that has the function has ended."})

    def stop(self, call: int) -> None:
        """Ask the kernel to end a call."""
        with self._lock:
            if self._open.pop(call, None) is not None:
                self._requests.put({"stop": call})

    def next(self) -> dict[str, Any] | None:
        """Wait for the next request; None at the end."""
        request = self._requests.get()
        if request is None:
            self._requests.put(None)  # for others, and for whoever comes later
        return request

    def done(self, call: object, result: object) -> None:
        """Take the result of a call from the kernel, which is not believed."""
        with self._lock:
            waiting = self._open.pop(call, None) if isinstance(call, int) else None
        if waiting is not None:
            waiting(
                result if isinstance(result, Mapping) else {"error": "The kernel did not answer."}
            )

    def end(self) -> None:
        """End all calls: the cell, or its kernel, has ended."""
        with self._lock:
            self._ended = True
            waiting, self._open = self._open, {}
            self._requests.put(None)
        for done in waiting.values():
            done({"error": "The cell that has the function has ended."})


def described_tools(given: Iterable[Any]) -> list[DescribedTool]:
    """Read descriptions of functions from the kernel. Raises `ValueError`."""
    from mahtab_tui.kernel.worker.sandbox.reserved import why_not_a_name

    tools = [
        DescribedTool(str(name), str(signature)[:_LONGEST], str(doc)[:_LONGEST])
        for name, signature, doc in given
    ]
    for tool in tools:
        if why := why_not_a_name(tool.name):
            raise ValueError(f"tools: a tool cannot be named {tool.name!r}: {why}.")
    return tools[:_MOST]
