"""Cells that are stopped at the end of their time, or by whoever waits for them."""

from __future__ import annotations

import threading
from pathlib import Path

from mahtab_tui.kernel.cells import BoundedCell
from mahtab_tui.kernel.values import CellResult
from tests.integration.kernels import Cells
from tests.integration.sessions import DEADLINE
from tests.waiting import wait_for


def run(cells: Cells, bounded: BoundedCell, code: str) -> CellResult:
    return bounded.run(lambda: cells.run(code))


def test_cell_ending_in_time_is_not_stopped(cells: Cells) -> None:
    bounded = BoundedCell(cells.kernel, 60, may_kill=True)
    assert run(cells, bounded, "1").status == "ok"
    assert not bounded.timed_out
    bounded.stop()
    assert cells.text("2") == "2\n"


def test_stopping_a_cell_before_it_begins_spares_the_previous_cell(cells: Cells) -> None:
    bounded = BoundedCell(cells.kernel, None, may_kill=False)

    def stop() -> None:
        bounded.stop()
        assert not any(thread.name == "cell-limit" for thread in threading.enumerate())
        Path("go").touch()

    earlier = cells.run_until(
        "on",
        stop,
        "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'",
    )
    assert earlier.output == "on\n'whole'\n"
    assert run(cells, bounded, "time.sleep(600)").status == "interrupted"


def test_limit_beyond_the_thread_maximum_works_and_the_cell_can_be_stopped(
    cells: Cells,
) -> None:
    bounded = BoundedCell(cells.kernel, 1e12, may_kill=False)
    answer: list[CellResult] = []
    code = "import time\nopen('began', 'w').close()\ntime.sleep(600)"
    thread = threading.Thread(target=lambda: answer.append(run(cells, bounded, code)), daemon=True)
    thread.start()
    wait_for(Path("began").exists)
    bounded.stop()
    thread.join(DEADLINE)
    assert [result.status for result in answer] == ["interrupted"]


def test_kernel_that_may_not_be_killed_continues(cells: Cells) -> None:
    entered = threading.Event()

    def let_go() -> None:
        entered.set()
        Path("go").touch()

    bounded = BoundedCell(cells.kernel, None, may_kill=False, grace=0.1, on_unresponsive=let_go)
    ignores = "import signal, os, time\nold = signal.signal(signal.SIGINT, lambda *a: None)\nprint('on', flush=True)"
    code = f"{ignores}\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'"
    result = bounded.run(lambda: cells.run_until("on", bounded.stop, code))
    assert (result.status, result.output, entered.is_set()) == ("ok", "on\n'whole'\n", True)
