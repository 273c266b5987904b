"""Top-level `await`: one event loop for all cells, which also runs between them."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ..stdlib import late_import
from .tracebacks import OUR_FOLDER, format_safely

if TYPE_CHECKING:
    import asyncio

    from ..link.frames import Frame
    from .jobs import JobQueue


class EventLoop:
    """Runs coroutines of cells, and background tasks between them, once asyncio is loaded."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelled = False
        self._waiter: asyncio.Future[None] | None = None
        self._current_task: Callable[[Any], object] = lambda loop: None
        """asyncio's original function."""
        self._thread = 0
        self._own_functions: tuple[object, object] | None = None
        self.used = False
        """Whether a cell has left anything that may print later."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the loop current, so that `create_task` works in plain code, too."""
        if self._thread:
            yield
            return
        self._thread = threading.get_ident()
        try:
            if "asyncio" in sys.modules:
                if "asyncio.events" in sys.modules:
                    self.make_current()
            elif self._loop is None and "asyncio.base_events" in sys.modules:
                # Left by an interrupted import, and would prevent another one.
                for name in [name for name in list(sys.modules) if name.startswith("asyncio.")]:
                    del sys.modules[name]
            yield
        finally:
            self._thread = 0
            self._leave_current()

    def make_current(self) -> None:
        """Make the loop current for the rest of the cell, on this thread. Meanwhile, replaced
        functions of asyncio let `asyncio.run` work as without it."""
        asyncio = late_import("asyncio")
        if (
            self._thread != threading.get_ident()
            or self._own_functions
            or asyncio.events._get_running_loop() is not None
        ):
            return
        with suppress(Exception):  # raised by an event loop policy of the user's
            loop = self._get(asyncio)
            events = asyncio.events
            process = os.getpid()
            get_running = events._get_running_loop
            set_running = events._set_running_loop
            self._own_functions = get_running, set_running

            def get_really_running() -> object:
                running = get_running()
                if running is loop and not loop.is_running():
                    return None
                return running

            def set_running_or_current(running: object) -> None:
                ours = threading.get_ident() == self._thread and os.getpid() == process
                set_running(loop if running is None and ours else running)

            events._get_running_loop = get_really_running
            events._set_running_loop = set_running_or_current
            set_running(loop)

    def _leave_current(self) -> None:
        if self._own_functions is None:
            return
        asyncio = late_import("asyncio")
        loop = self._loop
        asyncio.events._get_running_loop, asyncio.events._set_running_loop = self._own_functions
        self._own_functions = None
        asyncio._set_running_loop(None)
        if not self.used and loop is not None and not loop.is_closed():
            self.used = bool(asyncio.all_tasks(loop) or getattr(loop, "_scheduled", True))

    def run(self, coroutine: Coroutine[object, object, object]) -> object:
        asyncio = late_import("asyncio")
        if asyncio.events._get_running_loop() is not None:
            coroutine.close()
            raise RuntimeError(
                "this code awaits, but the cell that waits for it already runs inside the event loop"
            )
        loop = self._get(asyncio)
        context = contextvars.copy_context()

        async def in_task() -> object:
            nonlocal context
            try:
                return await coroutine
            finally:
                context = contextvars.copy_context()

        task = loop.create_task(in_task())
        self._task = task
        self._cancelled = False
        self.used = True
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
            # A task has a copy of the context, but its variables belong to the cell.
            for variable, value in context.items():
                if variable.get(None) is not value:
                    variable.set(value)

    def cancel(self) -> bool:
        """Stop a coroutine that only waits; False if running code must be interrupted."""
        task = self._task
        loop = self._loop
        if task is None or loop is None or self._cancelled:
            return False
        if self._current_task(loop) is not None:
            return False  # a task is computing, perhaps another one that blocks ours
        self._cancelled = True
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)
        return True

    def wait(self, jobs: JobQueue) -> Frame | None:
        """Run background tasks until there is a job. Raises what a signal handler of the user's
        raises."""
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

    def list_scheduled(self) -> list[Any]:
        """Return the tasks that have not ended, and the callbacks that wait for their time."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return []
        with suppress(Exception):  # of functions that cells have replaced
            asyncio = late_import("asyncio")
            waking = asyncio.futures._set_result_unless_cancelled  # wakes a task that sleeps
            callbacks = [
                handle
                for handle in getattr(loop, "_scheduled", ())
                if handle._callback is not waking and not handle.cancelled()
            ]
            return [*asyncio.all_tasks(loop), *callbacks]
        return []

    @property
    def idle(self) -> bool:
        return self._waiter is not None

    def wake(self) -> None:
        waiter = self._waiter
        loop = self._loop
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
            self._loop = asyncio.new_event_loop()
            self._current_task = asyncio.current_task
        asyncio.set_event_loop(self._loop)
        return self._loop


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _warn_unawaited(coroutine: CoroutineType[object, object, object]) -> None:
    frame = sys._getframe().f_back
    if frame is not None and not frame.f_code.co_filename.startswith(OUR_FOLDER):
        text = f"coroutine {coroutine.__qualname__!r} was never awaited"
        warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)


def warn_about_unawaited_coroutines() -> None:
    """Warn when a coroutine that was never awaited is freed by the user's code."""
    warnings._warn_unawaited_coroutine = _warn_unawaited  # type: ignore[attr-defined]
