"""Top-level `await`: one event loop for all cells, which also runs between them."""

from __future__ import annotations

import contextvars
import sys
import threading
import warnings
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, CoroutineType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..stdlib import copy_module, late_import
from ..undo.descriptor_states import opening_own_descriptors
from ..values.objects import class_module
from .current_loop import CurrentLoop
from .tracebacks import OUR_FOLDER, format_safely

if TYPE_CHECKING:
    import asyncio

    from ..link.frames import Frame
    from .jobs import JobQueue


_LOOP_MODULE = "asyncio.unix_events"
"""The module of Python's own event loops."""
_BROKEN_LOOP = (
    "The event loop of asyncio is broken: its tasks do not run any more. The next `await` makes a new"
    " one.\n"
)


class EventLoop:
    """Runs coroutines of cells, and background tasks between them, once asyncio is loaded."""

    def __init__(self) -> None:
        self._asyncio: Any = None
        """asyncio as it was when the first loop was made, because a cell may replace or remove it; None
        before that."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None
        """The cell's code, while it is awaited."""
        self._is_cancelled = False
        """Whether `cancel` has cancelled `_task`."""
        self._waiter: asyncio.Future[None] | None = None
        """Ends the background tasks between two cells; None while there is a cell."""
        self._wake_sleeper: object = None
        """The callback that wakes a task that sleeps, as it was when the first loop was made."""
        self._waker_codes: tuple[CodeType, ...] = ()
        """The code of the functions that `wakes_task` knows, as it was then."""
        self._current = CurrentLoop()
        """Makes the loop current while a cell runs."""
        self.used = False
        """Whether a cell has left anything that may print later."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the loop current, so that `create_task` also works in code that awaits nothing."""
        if self._current.thread_id:
            yield
            return
        self._current.thread_id = threading.get_ident()
        try:
            if "asyncio" in sys.modules:
                if "asyncio.events" in sys.modules:
                    self.make_current()
            elif self._loop is None and "asyncio.base_events" in sys.modules:
                _forget_interrupted_import()
            yield
        finally:
            self._current.thread_id = 0
            self._leave_current()

    def make_current(self) -> None:
        """Make the loop current for the rest of the cell, on this thread.

        Functions of asyncio are replaced meanwhile, so that `asyncio.run` works although there is a
        current loop.
        """
        is_cells_thread = self._current.thread_id == threading.get_ident()
        if not is_cells_thread or self._current.is_active:
            return
        with suppress(Exception):  # of an event loop policy of the user's, or of a damaged library
            asyncio = self._load_asyncio()
            if asyncio.events._get_running_loop() is None:
                loop = self._get(asyncio)
                self._current.replace_functions(asyncio.events, loop)
                imported_events = sys.modules.get("asyncio.events")
                # A cell may have removed asyncio, and imported it again.
                if type(imported_events) is ModuleType and imported_events is not asyncio.events:
                    self._current.replace_functions(imported_events, loop)

    def _leave_current(self) -> None:
        """Put the replaced functions of asyncio back, and note whether the cell has left tasks."""
        if not self._current.is_active:
            return
        self._current.restore()
        self._asyncio._set_running_loop(None)
        loop = self._loop
        if self.used or loop is None:
            return
        try:
            has_work = bool(self._asyncio.all_tasks(loop) or getattr(loop, "_scheduled", True))
            self.used = has_work and not loop.is_closed()
        except Exception:  # of parts that the cell has replaced
            self.used = True

    def run(self, coroutine: Coroutine[object, object, object]) -> object:
        """Run a coroutine of a cell to its end, and return its result.

        Context variables keep the values that the coroutine sets. What it raises is raised, and
        `KeyboardInterrupt` after `cancel`.
        """
        asyncio = self._load_asyncio()
        if asyncio.events._get_running_loop() is not None:
            coroutine.close()
            raise RuntimeError(
                "this code awaits, but the cell that waits for it already runs inside the event loop"
            )
        loop = self._get(asyncio)
        context = contextvars.copy_context()
        has_run = False

        async def in_task() -> object:
            nonlocal context, has_run
            has_run = True
            try:
                return await coroutine
            finally:
                context = contextvars.copy_context()

        task = self._create_task(loop, in_task(), coroutine)
        self._task = task
        self._is_cancelled = False
        self.used = True
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise KeyboardInterrupt from None
            raise
        except (Exception, SystemExit) as error:
            if not task.done() or task.cancelled() or task.exception() is not error:
                self._drop_broken(error, has_run=has_run)
            raise
        finally:
            self._task = None
            _finish_task(task, coroutine)
            # A task has a copy of the context, but its variables belong to the cell.
            for variable, value in context.items():
                if variable.get(None) is not value:
                    variable.set(value)

    def _create_task(
        self,
        loop: asyncio.AbstractEventLoop,
        awaiting: Coroutine[object, object, object],
        awaited: Coroutine[object, object, object],
    ) -> asyncio.Task[object]:
        """Return a task of the loop. Raises what the loop raises, which is not used any more then.

        Args:
            loop: The loop of all cells.
            awaiting: What the task runs.
            awaited: The coroutine of a cell that `awaiting` waits for.
        """
        try:
            task = loop.create_task(awaiting)
            if not self._asyncio.isfuture(task):
                raise TypeError(f"create_task returned an object of {type(task).__name__}")
        except BaseException as error:
            awaiting.close()
            awaited.close()
            self._drop_broken(error, has_run=False)
            raise
        return task

    def cancel(self) -> bool:
        """Stop a coroutine that only waits; False if running code must be interrupted."""
        task = self._task
        loop = self._loop
        if task is None or loop is None or self._is_cancelled:
            return False
        if self._asyncio.current_task(loop) is not None:
            return False  # a task is computing, perhaps another one that blocks ours
        self._is_cancelled = True
        task.cancel()
        loop.call_soon_threadsafe(_do_nothing)
        return True

    def wait(self, jobs: JobQueue) -> Frame | None:
        """Run background tasks until there is a job, and return it without removing it.

        Raises what a signal handler of the user's raises. Runs no tasks if the loop fails before it
        runs.
        """
        while self._can_run_tasks():
            assert self._loop is not None
            started: list[bool] = []
            try:
                waiter = self._loop.create_future()
                self._waiter = waiter
                # A job that came before the waiter does not end it.
                if jobs.empty():
                    self._loop.call_soon(started.append, True)
                    self._loop.run_until_complete(waiter)
                break
            except BaseException as error:  # the outermost frame of a background task
                self._drop_broken(error, has_run=bool(started))
                _print_safely(format_safely(error))
                if not started:
                    break
            finally:
                self._waiter = None
        return jobs.get()

    def _can_run_tasks(self) -> bool:
        """Return whether there is a loop.

        One that a cell has broken, so that no job would wake it, is left.
        """
        loop = self._loop
        if loop is None:
            return False
        try:
            if _is_intact(loop):
                return not loop.is_closed()
        except BaseException:  # of what a cell has put in place of the loop's parts
            pass
        self._loop = None
        _print_safely(_BROKEN_LOOP)
        return False

    def list_scheduled(self) -> list[Any]:
        """Return the tasks that have not ended, and the callbacks that wait for their time."""
        with suppress(BaseException):  # of functions that cells have replaced
            return self._list_scheduled()
        return []

    @property
    def library(self) -> Any:
        """asyncio as it was when the first loop was made; None before that."""
        return self._asyncio

    def open_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop of all cells; None if there is none that can run. May raise anything."""
        if self._loop is None or self._loop.is_closed():
            return None
        return self._loop

    def wakes_task(self, callback: object) -> bool:
        """Return whether a callback is one of asyncio's that only sets the result of its first
        argument."""
        return type(callback) is FunctionType and callback.__code__ in self._waker_codes

    def _list_scheduled(self) -> list[Any]:
        """Return what `list_scheduled` does.

        Raises what parts of the loop raise that cells have replaced.
        """
        loop = self.open_loop()
        if loop is None:
            return []
        callbacks = [
            handle
            for handle in getattr(loop, "_scheduled", ())
            if handle._callback is not self._wake_sleeper and not handle.cancelled()
        ]
        return [*self._asyncio.all_tasks(loop), *callbacks]

    @property
    def idle(self) -> bool:
        """Whether background tasks run while the kernel waits for a job."""
        return self._waiter is not None

    def wake(self) -> None:
        """End `wait`, from any thread, because there is a job."""
        waiter = self._waiter
        loop = self._loop
        if waiter is None or loop is None:
            return
        # A cell may have broken or replaced any part of the loop, which fails as soon as it wakes.
        with suppress(BaseException):
            type(loop).call_soon_threadsafe(loop, _finish, waiter)
        with suppress(BaseException):
            loop._csock.send(b"\0")  # type: ignore[attr-defined]

    def close(self) -> None:
        """Cancel all tasks, and end the loop."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        tasks = self._asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(self._asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _drop_broken(self, error: BaseException, *, has_run: bool) -> None:
        """Use another loop from now on, if an error of this one shows that a cell has broken it.

        Args:
            error: What the loop has raised.
            has_run: Whether the loop ran before that. A `RuntimeError` then says that a task has
                stopped the loop, which can run again, and a `SystemExit` is a task's own.
        """
        is_of_task = has_run and isinstance(error, (RuntimeError, SystemExit))
        if isinstance(error, (Exception, SystemExit)) and not is_of_task:
            self._loop = None

    def _load_asyncio(self) -> Any:
        """Return asyncio as it was when the first loop was made, or as it is now if none has been made.
        Raises what an import raises."""
        if self._asyncio is not None:
            return self._asyncio
        return copy_module(late_import("asyncio"))

    def _get(self, asyncio: Any) -> asyncio.AbstractEventLoop:
        """Return the loop of all cells, a new one if there is none.

        Raises what an event loop policy of the user's raises.
        """
        if self._loop is None or self._loop.is_closed():
            with opening_own_descriptors():
                self._loop = asyncio.new_event_loop()
        if self._asyncio is None:
            self._asyncio = asyncio
            self._wake_sleeper = asyncio.futures._set_result_unless_cancelled
            self._waker_codes = _find_waker_codes(asyncio.futures)
        asyncio.set_event_loop(self._loop)
        return self._loop


def _is_intact(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop has all that it needs to be woken. May raise anything."""
    cls = type(loop)
    if class_module(cls) != _LOOP_MODULE:
        return True  # of another library, which has other parts
    parts: dict[str, Any] = vars(loop)
    if parts["_thread_id"] is not None:  # which says that it runs
        return False
    # A library may give the loop further attributes that are not methods, as nest_asyncio does.
    methods = [part for name, part in parts.items() if callable(getattr(cls, name, None))]
    if not all(map(callable, methods)):
        return False
    wakes = parts["_ssock"].fileno() in parts["_selector"].get_map()
    queues = type(parts["_ready"]), type(parts["_scheduled"])
    return wakes and queues == (deque, list) and parts["_csock"].fileno() >= 0


def is_own_callback(callback: object) -> bool:
    """Return whether a callback of the loop is the worker's, which only wakes it."""
    return callback is _do_nothing or callback is _finish


def _find_waker_codes(futures: Any) -> tuple[CodeType, ...]:
    """Return the code of functions that only set the result of their first argument, for a task
    that sleeps or waits for a thread.

    Args:
        futures: `asyncio.futures`.
    """
    chain_constants = futures._chain_future.__code__.co_consts
    set_state = (code for code in chain_constants if getattr(code, "co_name", "") == "_set_state")
    return (futures._set_result_unless_cancelled.__code__, *set_state)


def _forget_interrupted_import() -> None:
    """Forget modules that an interrupted import of asyncio has left, and that would prevent another
    one."""
    for name in [name for name in list(sys.modules) if name.startswith("asyncio.")]:
        del sys.modules[name]


def _finish_task(task: asyncio.Task[object], coroutine: Coroutine[object, object, object]) -> None:
    """End a task after its loop has stopped.

    Args:
        coroutine: What it awaits.
    """
    if not task.done():
        task.cancel()
        return
    coroutine.close()  # it has not started if the task was cancelled at once
    if not task.cancelled():
        task.exception()  # not reported a second time


def _print_safely(text: str) -> None:
    """Print an error that belongs to no cell, if the stream of errors still works."""
    with suppress(BaseException):  # the stream may be one of the user's
        sys.stderr.write(text)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _do_nothing() -> None:
    """Wake a loop that waits, which calls this."""


def _warn_unawaited(coroutine: CoroutineType[object, object, object]) -> None:
    frame = sys._getframe().f_back
    if frame is not None and not frame.f_code.co_filename.startswith(OUR_FOLDER):
        text = f"coroutine {coroutine.__qualname__!r} was never awaited"
        warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)


def warn_about_unawaited_coroutines() -> None:
    """Warn when a coroutine that was never awaited is freed by the user's code."""
    warnings._warn_unawaited_coroutine = _warn_unawaited  # type: ignore[attr-defined]
