"""Looking at what runs around a cell that the user has not approved."""

import gc
import threading
import weakref

from mahtab_tui.worker.cells.attribution import CellAttribution
from mahtab_tui.worker.cells.awaiting import EventLoop
from mahtab_tui.worker.guard.left_running import LeftRunning


class Value:
    """An object of the user's, to which weak references are possible."""


def test_the_variables_of_other_threads_are_freed_when_these_end() -> None:
    references: list[weakref.ref[Value]] = []
    has_started = threading.Event()
    may_end = threading.Event()

    def hold_value() -> None:
        value = Value()
        references.append(weakref.ref(value))
        has_started.set()
        may_end.wait()

    left_running = LeftRunning(EventLoop(), CellAttribution())
    gc.disable()
    try:
        thread = threading.Thread(target=hold_value)
        thread.start()
        has_started.wait()
        with left_running.watch(1):
            pass
        may_end.set()
        thread.join()
        assert references[0]() is None
    finally:
        gc.enable()
