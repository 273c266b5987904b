"""Saving of the namespace when the program ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.values import KeepResult, SavedNamespace
from mahtab_tui.session.namespace_store import NamespaceStore


class KeepingKernel:
    """Notes each time that the namespace is written, with the seconds for it."""

    def __init__(self) -> None:
        self.written: list[float] = []

    def saved_namespace(self) -> SavedNamespace:
        return SavedNamespace((), ())

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        self.written.append(seconds)
        return KeepResult(names=1)


@pytest.fixture
def kernel() -> KeepingKernel:
    return KeepingKernel()


@pytest.fixture
def keeping(kernel: KeepingKernel) -> NamespaceStore:
    made = NamespaceStore(logging.getLogger("keeping at the end"), cast(Kernel, kernel))
    made.start_restore()
    return made


def test_changes_of_the_last_cell_are_written_on_quit(
    keeping: NamespaceStore, kernel: KeepingKernel
) -> None:
    keeping.before_cell("n = 1")
    keeping.after_cell()
    keeping.close(5.0)
    assert kernel.written == [5.0]
    assert not keeping.has_unwritten_changes


def test_quit_during_the_end_of_a_cell_waits_for_it(
    keeping: NamespaceStore, kernel: KeepingKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell is counted as ended, and as one that changed something, in one step."""
    ending = threading.Thread(target=keeping.close, args=(5.0,))
    counted: Any = keeping._schedule_write

    def meanwhile() -> None:
        ending.start()
        ending.join(0.2)
        counted()

    monkeypatch.setattr(keeping, "_schedule_write", meanwhile)
    keeping.before_cell("n = 1")
    keeping.after_cell()
    ending.join(60)
    assert kernel.written == [5.0]


def test_quit_does_not_wait_for_a_running_cell(
    keeping: NamespaceStore, kernel: KeepingKernel
) -> None:
    keeping.before_cell("n = 1")
    keeping.after_cell()
    keeping.before_cell("while True: pass")
    keeping.close(5.0)
    keeping._writer.join(60)
    assert kernel.written == [0.0]
