"""Cost of the process that keeps a kernel after its screen, and of attaching again.

The kernel is left with 10,000 variables, and while it prints a million lines.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

from mahtab_tui.kernel.detached import attach, detached_kernels
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.kernel import LocalDetachable
from tests.benchmarks.kernel import memory_mib
from tests.benchmarks.table import Row, since, timed_in_turns
from tests.integration.kernels import Cells, RecordingHost
from tests.waiting import wait_for

_SESSION = "session"
_LINES = "import pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.005)\nfor n in range(1_000_000): print('line', n)"


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, HOME=home):
        plain = ProcessKernel()
        detachable = _kernel(home, attached=False)
        try:
            plain.start(RecordingHost())
            without = Cells(plain, RecordingHost())
            with_holder = Cells(detachable, RecordingHost())
            off, on = timed_in_turns(
                2_000, lambda: _run(without, "1+1"), lambda: _run(with_holder, "1+1")
            )
            yield Row("1+1 there and back with a holder", on, "<= 1.1 x", off, "without")
            _run(with_holder, "for n in range(10_000): globals()[f'v{n}'] = [n]")
            detachable.variables()
        finally:
            plain.close()
            detachable.close(leave=True)
        start = perf_counter()
        second = _kernel(home)
        assert len(second.variables()) >= 10_000
        yield Row("attached, 10,000 variables listed", since(start), "<= 300 ms")
        second.close()
        yield from _million_lines(home)


def _million_lines(home: str) -> Iterator[Row]:
    first_kernel = _kernel(home, attached=False)
    cell_started = threading.Event()
    cell = {"cell": 1, "on_output": lambda kind, text: cell_started.set()}
    threading.Thread(target=first_kernel.execute, args=(_LINES,), kwargs=cell, daemon=True).start()
    cell_started.wait()
    first_kernel.close(leave=True)
    (kernel,) = detached_kernels(_SESSION)
    Path(home, "go").touch()
    wait_for(lambda: not detached_kernels(_SESSION)[0].cell)
    # The holder is the oldest process of the kernel's group but the kernel itself.
    processes = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    holder = min(pid for pid in processes if pid != kernel.pid and os.getpgid(pid) == kernel.pid)
    label = "memory of the holder after 1,000,000 lines"
    yield Row(label, memory_mib(holder), "<= 20 MiB", unit="MiB")
    start = perf_counter()
    second = _kernel(home)
    result = second.resume_cell(
        1, on_output=lambda kind, text: None, on_display=lambda display: None
    )
    assert result is not None
    assert result.output.endswith("line 999999\n")
    yield Row("1,000,000 lines of the time between are read", since(start))
    second.close()


def _kernel(home: str, *, attached: bool = True) -> ProcessKernel:
    waiting = attach(_SESSION) if attached else None
    kernel = ProcessKernel(launcher=LocalDetachable(_SESSION, 1.0, waiting), cwd=home)
    kernel.start(RecordingHost())
    return kernel


def _run(cells: Cells, code: str) -> None:
    cells.text(code)
    cells.kernel.acknowledge(cells.number)
