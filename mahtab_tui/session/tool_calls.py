"""Runs tools that cells call as functions."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mahtab_tui.kernel.base import HostFunction
from mahtab_tui.session.knowledge import Knowledge


class ToolCalls:
    """Calls tools for cells, and cancels a call when its cell no longer waits."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self.names: frozenset[str] = frozenset()
        """Names of the functions in the current namespace."""
        self._waiting: set[tuple[str, threading.Event]] = set()

    def functions(self) -> Sequence[HostFunction]:
        """Return the functions for a new namespace."""
        functions = self._knowledge.toolset.functions()
        self.names = frozenset(function.name for function in functions)
        return functions

    def __contains__(self, name: str) -> bool:
        return name in self._knowledge.toolset.tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run a tool and return its result. Raises `ToolError`."""
        waiting = (name, threading.Event())
        self._waiting.add(waiting)
        try:
            return self._knowledge.toolset.run(name, arguments, waiting[1])
        finally:
            self._waiting.discard(waiting)

    def cancel(self, name: str) -> None:
        """Cancel the calls of a tool: their cell no longer waits."""
        for called, cancelled in list(self._waiting):
            if called == name:
                cancelled.set()
