"""Finds what of an event loop's work may be a cell's: tasks that have not ended, and callbacks. Each task
and callback has the context of the code that made it, and a context tells its cell."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import Context
from types import BuiltinMethodType
from typing import Any, Callable

from ..cells.awaiting import EventLoop, is_own_callback
from ..values.objects import address_of

_STEP_CLASSES = ("TaskStepMethWrapper", "TaskWakeupMethWrapper")
"""The classes of the callbacks that begin a task or go on with it."""
_WAKEUP_NAME = "task_wakeup"
"""The name of the method that goes on with a task from Python 3.10 on."""


class LoopWork:
    """Lists the work that one cell may have left.

    Code that no cell has made, or of which that is unknown, such as a callback that a thread has
    added, may be of any cell.
    """

    def __init__(
        self, event_loop: EventLoop, cell: int, cell_of_context: Callable[[Context], int | None]
    ) -> None:
        """
        Args:
            event_loop: Runs the tasks and callbacks of all cells.
            cell: The cell.
            cell_of_context: Returns the cell to which a context belongs, or None.
        """
        self._wakes_task = event_loop.wakes_task
        self._loop: Any = event_loop.open_loop()
        self._asyncio: Any = event_loop.library
        self._cell = cell
        self._cell_of_context = cell_of_context

    def list_items(self) -> list[Any]:
        """Return the tasks and callbacks.

        Raises what parts of the loop raise that cells have replaced.
        """
        if self._loop is None:
            return []
        handles = self._list_handles()
        step_contexts: dict[int, Context] = {
            address_of(_task_of(handle._callback)): handle._context for handle in handles
        }
        tasks = list(self._asyncio.all_tasks(self._loop))
        task_addresses = frozenset(map(address_of, tasks))
        awaited_addresses = frozenset(
            address_of(task._fut_waiter) for task in tasks if type(task) is self._asyncio.Task
        )
        return [
            *(task for task in tasks if self._may_own_task(task, step_contexts)),
            *(
                handle
                for handle in handles
                if self._may_own_handle(handle, task_addresses, awaited_addresses)
            ),
        ]

    def _list_handles(self) -> list[Any]:
        """Return the callbacks that run next, at their time, or when a descriptor is ready."""
        # A loop of another library has no such parts.
        handles = [*getattr(self._loop, "_ready", ()), *getattr(self._loop, "_scheduled", ())]
        selector = getattr(self._loop, "_selector", None)
        if selector is not None:
            for key in selector.get_map().values():
                if key.fd != self._loop._ssock.fileno():  # which wakes the loop itself
                    handles += [handle for handle in key.data if handle is not None]
        return [handle for handle in handles if not handle.cancelled()]

    def _may_own_task(self, task: Any, step_contexts: dict[int, Context]) -> bool:
        """Return whether a task may be the cell's.

        Args:
            step_contexts: Contexts of tasks that run next, by their addresses.
        """
        if type(task) is not self._asyncio.Task:
            return True
        if hasattr(self._asyncio.Task, "get_context"):  # from Python 3.12 on
            return self._may_own([task.get_context()])
        if address_of(task) in step_contexts:
            return self._may_own([step_contexts[address_of(task)]])
        # The callback that wakes the task has its context.
        contexts = self._contexts_of_callbacks(task._fut_waiter)
        return not contexts or self._may_own(contexts)

    def _may_own_handle(
        self, handle: Any, task_addresses: frozenset[int], awaited_addresses: frozenset[int]
    ) -> bool:
        """Return whether a callback may be the cell's.

        Args:
            handle: The callback.
            task_addresses: Addresses of all tasks that have not ended.
            awaited_addresses: Addresses of what these tasks await.
        """
        cell = self._cell_of_context(handle._context)
        if cell is not None:
            return cell == self._cell
        callback = handle._callback
        if is_own_callback(callback):
            return False
        stepped_task = _task_of(callback)
        if stepped_task is not None:
            return address_of(stepped_task) not in task_addresses
        if not self._wakes_task(callback):
            return True
        future = handle._args[0]
        if type(future) is not self._asyncio.Future:
            return True
        contexts = self._contexts_of_callbacks(future)
        # A single callback of what a task awaits wakes this task.
        only_wakes_task = len(contexts) == 1 and address_of(future) in awaited_addresses
        return not only_wakes_task and self._may_own(contexts)

    def _contexts_of_callbacks(self, future: Any) -> list[Context]:
        """Return the contexts of what is called when a future is done.

        Raises `TypeError` if it is none of asyncio's.
        """
        if future is None:
            return []
        callbacks = self._asyncio.Future._callbacks.__get__(future)
        return [context for _, context in callbacks or ()]

    def _may_own(self, contexts: Iterable[Context]) -> bool:
        """Return whether any context may be the cell's."""
        return any(self._cell_of_context(context) in (None, self._cell) for context in contexts)


def _task_of(callback: Any) -> object:
    """Return the task that a callback begins or goes on with; None if it does something else."""
    is_wakeup = type(callback) is BuiltinMethodType and callback.__name__ == _WAKEUP_NAME
    if is_wakeup or type(callback).__name__ in _STEP_CLASSES:
        task: object = callback.__self__
        return task
    return None
