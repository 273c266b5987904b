"""The tools as cells call them, by the functions of their names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mahtab_tui.kernel.base import HostFunction

if TYPE_CHECKING:
    from mahtab_tui.tools.toolset import Toolset


class ToolCalls:
    """Serves what cells want of the session's tools; a call that a cell no longer waits for is cancelled."""

    def __init__(self, toolset: Callable[[], Toolset]) -> None:
        self._toolset = toolset
        self.names: frozenset[str] = frozenset()
        """Of the functions that the last namespace got."""
        self._waiting: set[tuple[str, threading.Event]] = set()

    def functions(self) -> Sequence[HostFunction]:
        """What a namespace gets."""
        functions = self._toolset().functions()
        self.names = frozenset(function.name for function in functions)
        return functions

    def __contains__(self, name: str) -> bool:
        return name in self._toolset().tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool gives. Raises `ToolError`."""
        waiting = (name, threading.Event())
        self._waiting.add(waiting)
        try:
            return self._toolset().run(name, arguments, waiting[1])
        finally:
            self._waiting.discard(waiting)

    def cancel(self, name: str) -> None:
        """Nobody waits any more for the calls of a tool."""
        for called, cancelled in list(self._waiting):
            if called == name:
                cancelled.set()
