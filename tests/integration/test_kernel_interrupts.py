"""Stopping a cell: what waits, what computes, what children do; and never a cell that is not
meant."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from mahtab_tui.kernel.values import Status
from tests.integration.kernels import Cells

WAITS = {
    "computes": "while True: pass",
    "sleeps": "import time; time.sleep(1000)",
    "awaits": "import asyncio; await asyncio.sleep(1000)",
    "computes in a coroutine": "async def f():\n    while True: pass\nawait f()",
    "awaits after a swallowed cancel": (
        "import asyncio\nasync def f():\n    while True:\n        try: await asyncio.sleep(1000)\n"
        "        except asyncio.CancelledError: raise KeyboardInterrupt\nawait f()"
    ),
    "runs asyncio.run": "import asyncio; asyncio.run(asyncio.sleep(1000))",
    "waits for a child": "import subprocess; subprocess.run(['sleep', '1000'])",
    "waits in os.system": "import os; os.system('sleep 1000')",
    "waits for a lock": "import threading; threading.Event().wait()",
    "reads a pipe": "import os; os.read(os.pipe()[0], 1)",
    "prints without end": "while True: print('x' * 100)",
    "waits for a thread": "import threading, time; t = threading.Thread(target=time.sleep, args=[1000], daemon=True); t.start(); t.join()",
}


@pytest.mark.parametrize("code", WAITS.values(), ids=WAITS.keys())
def test_interrupt_stops_the_cell(cells: Cells, code: str) -> None:
    result = cells.interrupt_after("go", "print('go')\n" + code)
    assert result.status is Status.INTERRUPTED
    assert result.output.endswith("KeyboardInterrupt\n")
    assert cells.text("1 + 1") == "2\n"


def test_traceback_of_an_interrupt_shows_only_the_cells_lines(cells: Cells) -> None:
    result = cells.interrupt_after(
        "go", "import asyncio, time\nprint('go')\nasyncio.run(asyncio.sleep(1000))"
    )
    lines = [line for line in result.output.splitlines() if "File" in line]
    assert lines == ['  File "In [1]", line 3, in <module>']


def test_an_interrupt_while_no_cell_runs_does_nothing(cells: Cells) -> None:
    assert cells.kernel.interrupt() is False
    assert cells.run("while False: pass").status is Status.OK


def test_a_signal_from_outside_while_no_cell_runs_does_nothing(cells: Cells) -> None:
    for _ in range(5):
        os.kill(cells.kernel.info().pid, signal.SIGINT)
        assert cells.text("1 + 1") == "2\n"


def test_output_and_names_before_the_interrupt_stay(cells: Cells) -> None:
    result = cells.interrupt_after("go", "x = 5\nprint('go')\nwhile True: pass")
    assert result.output.startswith("go\n")
    assert [change.name for change in result.changes] == ["x"]
    assert cells.text("x") == "5\n"


def test_code_may_catch_the_interrupt_and_continue(cells: Cells) -> None:
    code = "try:\n    print('go')\n    while True: pass\nexcept KeyboardInterrupt:\n    print('caught')\n'done'"
    result = cells.interrupt_after("go", code)
    assert (result.status, result.output) == (Status.OK, "go\ncaught\n'done'\n")


def test_children_of_a_cell_receive_the_interrupt_as_in_a_terminal(cells: Cells) -> None:
    child = "import time\ntry:\n    print('go', flush=True); time.sleep(1000)\nexcept KeyboardInterrupt: print('child caught')"
    result = cells.interrupt_after(
        "go", f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    )
    assert "child caught" in result.output
    assert result.status is Status.INTERRUPTED


def test_endless_background_task_can_be_stopped_for_the_next_cell(
    cells: Cells,
) -> None:
    code = """
import asyncio, os
async def spin():
    while not os.path.exists('go'): await asyncio.sleep(0.01)
    print('spinning', flush=True)
    while True: pass
async def begin():
    global task
    task = asyncio.create_task(spin())
await begin()
"""
    cells.run(code)
    Path("go").touch()
    cells.host.wait_for_late("spinning")
    # The next cell cannot begin before the task ends: an interrupt reaches the task, and then the
    # cell.
    stop = threading.Event()

    def interrupt() -> None:
        while not stop.wait(0.05):
            cells.kernel.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    cells.run("pass")
    stop.set()
    thread.join()
    assert cells.text("1 + 1") == "2\n"


def test_computing_background_task_can_be_stopped_while_a_cell_awaits(cells: Cells) -> None:
    code = """
import asyncio
async def spin():
    print('go', flush=True)
    while True: pass
async def begin():
    asyncio.create_task(spin())
    await asyncio.sleep(1000)
await begin()
"""
    assert cells.interrupt_after("go", code).status is Status.INTERRUPTED
    assert cells.text("1 + 1") == "2\n"


def test_interrupted_asyncio_import_can_be_repeated(cells: Cells) -> None:
    cells.run(
        "import sys, types\nsys.modules['asyncio.base_events'] = types.ModuleType('asyncio.base_events')"
    )
    assert cells.text("import asyncio\nawait asyncio.sleep(0, 5)") == "5\n"
