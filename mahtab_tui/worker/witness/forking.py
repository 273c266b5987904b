"""Forks from a thread that is not watched."""

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
from typing import Any, Callable

from ..link.held_signals import HeldSignals
from ..values.objects import address_of, mro_of

ForkedWork = Callable[[], object]

MAX_SEARCHED_OBJECTS = 50_000
"""Objects among which connections of databases are looked for."""
_WORD_BYTES = ctypes.sizeof(ctypes.c_void_p)


class ForkThread:
    """Forks processes whose system calls are not filtered: a process can have only one filter that
    reports calls, and a locked fork needs its own."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """Start the thread. Call it on the thread of cells, before the filter of the witness is set.

        Args:
            namespace: The user's.
        """
        self._namespace = namespace
        self._cells_thread = threading.get_ident()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], int], dict[Any, Any]]] = (
            queue.SimpleQueue()
        )
        self._results: queue.SimpleQueue[int | OSError] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="mahtab-forks", daemon=True).start()

    def fork(self, held: HeldSignals, work: ForkedWork) -> int:
        """Fork a process that runs a function and ends; return its number. Raises `OSError`.

        Args:
            held: Keeps back the signals of this thread.
            work: The function.
        """
        context = contextvars.copy_context()
        run_child = partial(context.run, self._run_child, work)
        self._jobs.put((partial(held.fork, run_child), dict(_thread_state())))
        result = self._results.get()
        if isinstance(result, OSError):
            raise result
        return result

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while True:
            fork, cells_state = self._jobs.get()
            # The values of the cells' thread that `threading.local` keeps (until Python 3.12).
            own_state = _thread_state()
            added_keys = cells_state.keys() - own_state.keys()
            own_state.update((key, cells_state[key]) for key in added_keys)
            try:
                self._results.put(fork())
            except OSError as error:
                self._results.put(error)
            for key in added_keys:
                own_state.pop(key, None)
            del fork, cells_state

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
    refuse others."""
    words = type(value).__basicsize__ // _WORD_BYTES
    memory = (ctypes.c_size_t * words).from_address(id(value))
    for index in range(words):
        if memory[index] == old:
            memory[index] = new
