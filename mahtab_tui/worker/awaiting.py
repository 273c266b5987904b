"""Top-level `await`: one event loop for all cells, which also runs between them."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from .stdlib import late_import
from .tracebacks import format_safely

if TYPE_CHECKING:
    import asyncio


class EventLoop:
    """Runs coroutines of cells, and background tasks between them, once asyncio is loaded."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._waiter: asyncio.Future[None] | None = None
        self._current_task: Callable[[Any], Any] = lambda loop: None
        """asyncio's original function."""
        self.used = False
        """Whether a cell has left anything that may print later."""

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        asyncio = late_import("asyncio")
        if asyncio.events._get_running_loop() is not None:
            coroutine.close()
            raise RuntimeError(
                "this code awaits, but the cell that waits for it already runs inside the event loop"
            )
        loop = self._get(asyncio)
        task = loop.create_task(coroutine)
        self._task, self._cancelled, self.used = task, False, True
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if self._cancelled:
                raise KeyboardInterrupt from None
            raise
        except Exception as error:
            if not task.done() or task.cancelled() or task.exception() is not error:
                self._drop_broken(error)
            raise
        finally:
            self._task = None
            if not task.done():
                task.cancel()
            else:
                coroutine.close()  # it has not started if the task was cancelled at once
                if not task.cancelled():
                    task.exception()  # not reported a second time

    def cancel(self) -> bool:
        """Stop a coroutine that only waits; False if running code must be interrupted."""
        task, loop = self._task, self._loop
        if task is None or loop is None or self._cancelled:
            return False
        if self._current_task(loop) is not None:
            return False  # a task is computing, perhaps another one that blocks ours
        self._cancelled = True
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)
        return True

    def wait(self, jobs: queue.SimpleQueue[Any]) -> Any:
        while self._loop is not None and not self._loop.is_closed():
            self._waiter = waiter = self._loop.create_future()
            try:
                if jobs.empty():
                    self._loop.run_until_complete(waiter)
                break
            except BaseException as error:  # the outermost frame of a background task
                sys.stderr.write(format_safely(error))
                self._drop_broken(error)
            finally:
                self._waiter = None
        return jobs.get()

    @property
    def idle(self) -> bool:
        return self._waiter is not None

    def wake(self) -> None:
        waiter, loop = self._waiter, self._loop
        if waiter is not None and loop is not None:
            loop.call_soon_threadsafe(_finish, waiter)

    def close(self) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        asyncio = late_import("asyncio")
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _drop_broken(self, error: BaseException) -> None:
        # RuntimeError says that a task has stopped the loop; others, that a cell has broken it.
        if isinstance(error, Exception) and not isinstance(error, RuntimeError):
            self._loop = None

    def _get(self, asyncio: Any) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop, self._current_task = asyncio.new_event_loop(), asyncio.current_task
        asyncio.set_event_loop(self._loop)
        return self._loop


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
