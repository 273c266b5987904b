"""Completion as the host gets it, while cells run and while they hold the interpreter."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.values import Completion
from tests.integration.kernels import PATIENCE, Cells, RecordingHost


def test_names_of_the_namespace_are_completed(cells: Cells) -> None:
    cells.run("price = 3")
    found = cells.kernel.complete("x = pri", 7)
    assert (found.start, found.items[0]) == (4, Completion("price", "price", "data", "int  3"))


def while_it_runs(cells: Cells, code: str, look: Callable[[], None]) -> None:
    """Run a cell, and do `look` on another thread once it has printed something; then kill the
    kernel."""
    begun = threading.Event()

    def looker() -> None:
        assert begun.wait(PATIENCE)
        try:
            look()
        finally:
            cells.kernel.kill()

    thread = threading.Thread(target=looker)
    thread.start()
    cells.run_until("begun", begun.set, code)
    thread.join()


def test_completion_works_while_a_cell_runs(cells: Cells) -> None:
    cells.kernel.complete("pri", 3)
    names: list[str] = []

    def look() -> None:
        while not names:
            with contextlib.suppress(KernelError):  # a machine that is busy itself
                names.extend(item.label for item in cells.kernel.complete("pri", 3).items)

    while_it_runs(cells, "price = 3\nprint('begun', flush=True)\nwhile True: pass", look)
    assert names[0] == "price"


def test_completion_does_not_wait_for_an_unresponsive_kernel(cells: Cells) -> None:
    cells.kernel.complete("pri", 3)
    messages: list[str] = []

    def look() -> None:
        while not messages:  # the cell may not have got as far as its long sum yet
            try:
                cells.kernel.complete("pri", 3)
            except KernelError as error:
                messages.append(str(error))

    while_it_runs(cells, "print('begun', flush=True)\nsum(range(10**12))", look)
    assert "busy" in messages[0]


def test_worker_imports_completion_only_on_demand(cells: Cells) -> None:
    loaded = "import sys; print([name for name in sys.modules if 'completion' in name])"
    assert cells.text(loaded) == "[]\n"
    cells.kernel.complete("pri", 3)
    assert "completion.complete" in cells.text(loaded)


def test_embedded_kernel_completes_in_the_callers_namespace(project: Path) -> None:
    kernel = InProcessKernel({"price": 3})
    kernel.start(RecordingHost())
    try:
        assert kernel.complete("pri", 3).items[0].label == "price"
    finally:
        kernel.close()
