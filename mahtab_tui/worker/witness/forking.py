"""Forks from a thread that is not watched.

The filter of the witness (`client`) holds for the thread that sets it, and for all that this thread starts
or forks. `ForkThread` is started before, so that its forks can have a filter of their own. To the code
that runs in such a fork, it must look as if the thread of cells had forked it.
"""

from __future__ import annotations

import contextvars
import ctypes
import gc
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Callable, NamedTuple

from ..link.held_signals import HeldSignals
from ..values.objects import address_of, mro_of

ForkedWork = Callable[[], object]
"""What runs in a fork."""

MAX_SEARCHED_OBJECTS = 50_000
"""Objects among which connections of databases are looked for."""
_WORD_BYTES = ctypes.sizeof(ctypes.c_void_p)
"""The size of a pointer, and of a thread's number, in the memory of an object."""


class _Job(NamedTuple):
    """A fork that the thread of cells has asked for."""

    fork: Callable[[], int]
    """Forks, and returns the number of the process. Raises `OSError`."""
    cells_state: dict[Any, Any]
    """The `_thread_state` of the thread of cells."""


class ForkThread:
    """Forks processes whose system calls are not filtered: a process can have only one filter that
    reports calls, and a locked fork needs its own. Used on the thread of cells."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """Start the thread. Call it on the thread of cells, before the filter of the witness is set.

        Args:
            namespace: The user's.
        """
        self._namespace = namespace
        self._cells_thread = threading.get_ident()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[int | OSError] = queue.SimpleQueue()
        """The number of each process that was forked, or why it was not."""
        threading.Thread(target=self._run, name="mahtab-forks", daemon=True).start()

    def fork(self, held: HeldSignals, work: ForkedWork) -> int:
        """Fork a process that runs a function and ends; return its number. Raises `OSError`.

        Args:
            held: Keeps back the signals of this thread.
            work: The function.
        """
        context = contextvars.copy_context()
        run_child = partial(context.run, self._run_child, work)
        self._jobs.put(_Job(partial(held.fork, run_child), dict(_thread_state())))
        result = self._results.get()
        if isinstance(result, OSError):
            raise result
        return result

    def _run(self) -> None:
        """Fork whenever the thread of cells asks for it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while True:
            self._do(self._jobs.get())

    def _do(self, job: _Job) -> None:
        # `threading.local` keeps the values of each thread here (until Python 3.12), and the fork needs
        # those of the thread of cells.
        own_state = _thread_state()
        added_keys = job.cells_state.keys() - own_state.keys()
        own_state.update((key, job.cells_state[key]) for key in added_keys)
        try:
            self._results.put(job.fork())
        except OSError as error:
            self._results.put(error)
        for key in added_keys:
            own_state.pop(key, None)

    def _run_child(self, work: ForkedWork) -> None:
        """Run a function in the fork, whose only thread takes the place of the cells' thread."""
        if "_sqlite3" in sys.modules:
            connection_class = sys.modules["_sqlite3"].Connection
            for connection in _find_instances(self._namespace, connection_class):
                _replace_word(connection, self._cells_thread, threading.get_ident())
        work()


def _thread_state() -> dict[Any, Any]:
    """Return the dictionary that Python keeps for this thread."""
    get_state = ctypes.pythonapi.PyThreadState_GetDict
    # Not `py_object`, which would take a reference that the function does not give.
    get_state.restype = ctypes.c_void_p
    state: dict[Any, Any] = ctypes.cast(get_state(), ctypes.py_object).value
    return state


def _find_instances(namespace: dict[str, Any], cls: type) -> Iterator[Any]:
    """Yield the instances of a class to which variables lead, without running their code."""
    seen = {address_of(namespace)}
    waiting: deque[Any] = deque(namespace.values())
    while waiting and len(seen) < MAX_SEARCHED_OBJECTS:
        value = waiting.popleft()
        if address_of(value) in seen or isinstance(value, (type, ModuleType, FunctionType)):
            continue
        seen.add(address_of(value))
        if cls in mro_of(type(value)):
            yield value
        waiting.extend(gc.get_referents(value))


def _replace_word(value: Any, old: int, new: int) -> None:
    """Replace a number in the memory of an object: SQLite's connections note their thread there, and
    refuse others.

    Args:
        value: The object.
        old: The number, wherever a word of the object has it.
        new: What takes its place.
    """
    words = type(value).__basicsize__ // _WORD_BYTES
    memory = (ctypes.c_size_t * words).from_address(id(value))
    for index in range(words):
        if memory[index] == old:
            memory[index] = new
