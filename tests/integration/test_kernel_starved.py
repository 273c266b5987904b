"""A cell that keeps the interpreter to itself: the kernel's control thread cannot read, and still
nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import CellResult, Status
from tests.integration.kernels import PATIENCE, Cells

# `re` looks for signals now and then, but lets no other thread run.
MATCH = "re.match(r'(a+)+b', 'a' * 64)"
LARGE = "x = 1\n" * 50_000
"""300 KB: more than the socket takes by itself."""


def complete(cells: Cells, code: str) -> None:
    with pytest.raises(KernelError, match="does not answer"):
        cells.kernel.complete(code, len(code))


def in_time(work: Callable[[], object]) -> None:
    """Do it on a thread. Fails where it takes for good."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it waits for the kernel"


def start(
    pool: ThreadPoolExecutor, cells: Cells, code: str, caught: str = "raise"
) -> Callable[[], CellResult]:
    """Run a cell on a thread; returns once it has begun."""
    begun = threading.Event()
    running = pool.submit(
        cells.run_until,
        "go",
        begun.set,
        f"import re, time\ntry:\n    print('go', flush=True)\n    {code}\nexcept KeyboardInterrupt:\n    {caught}",
    )
    assert begun.wait(PATIENCE)
    return lambda: running.result(PATIENCE)


@pytest.mark.timeout(180)
def test_completion_of_a_large_paste_does_not_block_interrupts(
    cells: Cells,
) -> None:
    pool = ThreadPoolExecutor(1)
    result = start(pool, cells, MATCH)
    in_time(lambda: complete(cells, LARGE + "os.pa"))
    for _ in range(10):
        in_time(lambda: complete(cells, LARGE))
    in_time(lambda: cells.kernel.set_size(100, 30))
    in_time(lambda: cells.kernel.set_reload(False))
    in_time(cells.kernel.interrupt)
    ended = result()
    assert ended.status is Status.INTERRUPTED
    assert ended.output.endswith("KeyboardInterrupt\n")
    assert cells.text("import os; os.environ['COLUMNS']") == "'100'\n", (
        "what waited was read afterwards"
    )
    pool.shutdown()


@pytest.mark.timeout(180)
def test_starved_cell_receives_an_interrupt_once(cells: Cells) -> None:
    pool = ThreadPoolExecutor(1)
    # The control thread reads of the interrupt only when the cell sleeps.
    result = start(pool, cells, MATCH, "time.sleep(1.5); print('cleaned up')")
    in_time(cells.kernel.interrupt)
    ended = result()
    assert (ended.status, ended.output) == (Status.OK, "go\ncleaned up\n")
    pool.shutdown()


@pytest.mark.timeout(180)
def test_code_ignoring_all_signals_can_be_killed(cells: Cells) -> None:
    pool = ThreadPoolExecutor(1)
    result = start(pool, cells, "7 ** (7 ** 11)")
    in_time(lambda: complete(cells, LARGE))
    in_time(cells.kernel.interrupt)
    in_time(cells.kernel.kill)
    assert result().status is Status.KILLED
    assert cells.text("1 + 1") == "2\n"
    pool.shutdown()


@pytest.mark.timeout(180)
def test_session_with_a_starved_cell_can_be_closed(cells: Cells) -> None:
    pool = ThreadPoolExecutor(1)
    result = start(pool, cells, MATCH)
    in_time(lambda: complete(cells, LARGE))
    in_time(cells.kernel.close)
    assert result().status is Status.KILLED
    pool.shutdown()


@pytest.mark.timeout(180)
def test_many_interrupts_of_a_starved_cell_wait_on_one_thread(cells: Cells) -> None:
    pool = ThreadPoolExecutor(1)
    result = start(pool, cells, MATCH)
    most = 0
    for _ in range(1_000):
        cells.kernel.interrupt()
        most = max(most, sum(thread.name == "mahtab-interrupt" for thread in threading.enumerate()))
    assert most <= 2, "one that ends, and the next"
    assert result().status is Status.INTERRUPTED
    pool.shutdown()
