"""Makes an event loop the current one of a thread although it does not run, so that code of a cell can
call `asyncio.create_task` without awaiting anything.

Functions of asyncio are replaced for that, so that `asyncio.run` still works in the cell.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    import asyncio


class _LoopFunctions(NamedTuple):
    """Two functions of `asyncio.events`, which read and set the running loop of this thread."""

    get_running: Callable[[], Any]
    set_running: Callable[[Any], None]

    def install(self, events: Any) -> None:
        """Put both functions into `asyncio.events`."""
        events._get_running_loop = self.get_running
        events._set_running_loop = self.set_running


class CurrentLoop:
    """The functions of asyncio that are replaced while a cell runs."""

    def __init__(self) -> None:
        self.thread_id = 0
        """The thread on which a loop is current; 0 outside of cells."""
        self._original_functions: list[tuple[Any, _LoopFunctions]] = []
        """The functions that were replaced, each with its module."""

    @property
    def is_active(self) -> bool:
        """Whether functions are replaced."""
        return bool(self._original_functions)

    def replace_functions(self, events: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Let functions of `asyncio.events` treat a loop that does not run as the current one."""
        process_id = os.getpid()
        original = _LoopFunctions(events._get_running_loop, events._set_running_loop)

        def get_really_running() -> object:
            running_loop = original.get_running()
            if running_loop is loop and not loop.is_running():
                return None
            return running_loop

        def set_running_or_current(running_loop: object) -> None:
            is_cells_thread = threading.get_ident() == self.thread_id
            if running_loop is None and is_cells_thread and os.getpid() == process_id:
                running_loop = loop
            original.set_running(running_loop)

        self._original_functions.append((events, original))
        _LoopFunctions(get_really_running, set_running_or_current).install(events)
        original.set_running(loop)

    def restore(self) -> None:
        """Put the functions back."""
        for events, original in self._original_functions:
            original.install(events)
        self._original_functions = []
