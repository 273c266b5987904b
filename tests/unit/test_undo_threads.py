"""What an undo reads while other threads change it."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from mahtab_tui.worker.undo.registries import ModuleTable, read_source_cache

NAMES = [f"made_by_a_test_{number}" for number in range(100)]


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Let the threads take turns often."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


def run_beside(change: Callable[[], None], read: Callable[[], object], count: int) -> None:
    """Read something this many times while a thread changes it again and again."""
    is_over = threading.Event()

    def change_until_over() -> None:
        while not is_over.is_set():
            change()

    thread = threading.Thread(target=change_until_over)
    thread.start()
    try:
        for _ in range(count):
            read()
    finally:
        is_over.set()
        thread.join()


def test_modules_are_noted_while_a_thread_imports() -> None:
    def load_and_remove() -> None:
        for name in NAMES:
            sys.modules[name] = ModuleType(name)
        for name in NAMES:
            del sys.modules[name]

    run_beside(load_and_remove, ModuleTable, 100)


def test_sources_are_read_while_a_thread_formats_tracebacks() -> None:
    def add_and_remove() -> None:
        for name in NAMES:
            linecache.cache[name] = (0, None, [], name)
        for name in NAMES:
            del linecache.cache[name]

    run_beside(add_and_remove, read_source_cache, 1_000)
