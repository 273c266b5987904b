"""Top-level `await`: one event loop for all cells, which goes on between them."""

from __future__ import annotations

import queue
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from .stdlib import late_import
from .tracebacks import format_safely

if TYPE_CHECKING:
    import asyncio


class EventLoop:
    """Runs coroutines of cells, and background tasks while no cell runs. Made at the first `await`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def exists(self) -> bool:
        return self._loop is not None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run one coroutine to its end. Raises `KeyboardInterrupt` where `cancel` stopped it."""
        asyncio = late_import("asyncio")
        if asyncio._get_running_loop() is not None:
            coroutine.close()
            raise RuntimeError("this code awaits, but the cell that waits for it already runs inside the event loop")
        loop = self._get(asyncio)
        task = loop.create_task(coroutine)
        self._task, self._cancelled = task, False
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if self._cancelled:
                raise KeyboardInterrupt from None
            raise
        finally:
            self._task = None
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # so that asyncio does not report it a second time

    def cancel(self) -> bool:
        """Stop the coroutine that only waits (the signal handler calls this); False where code must be interrupted."""
        task, loop = self._task, self._loop
        if task is None or loop is None or self._cancelled:
            return False
        if late_import("asyncio").current_task(loop) is not None:
            return False  # a task computes, ours or one that keeps ours from going on
        self._cancelled = True
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)
        return True

    def wait(self, jobs: queue.SimpleQueue[Any]) -> Any:
        """The next job; until it comes, background tasks run."""
        while self._loop is not None and not self._loop.is_closed():
            self._waiter = waiter = self._loop.create_future()
            try:
                if not jobs.empty():
                    break
                self._loop.run_until_complete(waiter)
                break
            except BaseException as error:  # the outermost frame of a background task
                sys.stderr.write(format_safely(error))
            finally:
                self._waiter = None
        return jobs.get()

    @property
    def idle(self) -> bool:
        return self._waiter is not None

    def wake(self) -> None:
        """A job came (called by the control thread, after it was put in the queue)."""
        waiter, loop = self._waiter, self._loop
        if waiter is not None and loop is not None:
            loop.call_soon_threadsafe(_finish, waiter)

    def close(self) -> None:
        """Cancel what still runs and let it clean up."""
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

    def _get(self, asyncio: Any) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        return self._loop


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
