"""Cost of the holder that lets a kernel outlive its screen, and the time until the next screen has
the kernel."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from mahtab_tui.kernel.detached import attach, waiting_kernels
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.kernel import LocalDetachable
from tests.benchmarks.kernel import QuietHost
from tests.benchmarks.table import Row, median

_ROUNDS = 2_000
_SESSION = "session"
_LINES = "import pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.005)\nfor n in range(1_000_000): print('line', n)"


def rows() -> Iterator[Row]:
    """With and without a holder, in turn; then left with 10,000 variables and while it prints a
    million lines."""
    with tempfile.TemporaryDirectory() as home, patch.dict(os.environ, HOME=home):
        plain, detachable = (
            ProcessKernel(),
            ProcessKernel(launcher=LocalDetachable(_SESSION, 1.0, None), cwd=home),
        )
        kernels = {plain: list[float](), detachable: list[float]()}
        try:
            for kernel in kernels:
                kernel.start(QuietHost())
            for number in range(1, _ROUNDS):
                for kernel, times in kernels.items():
                    start = time.perf_counter()
                    _run(kernel, number, "1+1")
                    times.append((time.perf_counter() - start) * 1000)
            without, with_it = (median(times) for times in kernels.values())
            yield Row(
                "1+1 there and back with a holder", with_it, "ms", "<= 1.1 x", without, "without"
            )
            _run(detachable, _ROUNDS, "for n in range(10_000): globals()[f'v{n}'] = [n]")
            detachable.variables()
        finally:
            plain.close()
            detachable.close(leave=True)
        start = time.perf_counter()
        second = _attached(home)
        assert len(second.variables()) >= 10_000
        yield Row(
            "attached, 10,000 variables listed",
            (time.perf_counter() - start) * 1000,
            "ms",
            "<= 300 ms",
        )
        try:
            second.execute("1", cell=_ROUNDS + 1, on_output=lambda kind, text: None)
        finally:
            second.close()
        yield from _million_lines(home)


def _million_lines(home: str) -> Iterator[Row]:

    first = ProcessKernel(launcher=LocalDetachable(_SESSION, 1.0, None), cwd=home)
    first.start(QuietHost())
    begun = threading.Event()
    cell = {"cell": 1, "on_output": lambda kind, text: begun.set()}
    threading.Thread(target=first.execute, args=(_LINES,), kwargs=cell, daemon=True).start()
    begun.wait()
    first.close(leave=True)
    (kernel,) = waiting_kernels(_SESSION)
    Path(home, "go").touch()
    while waiting_kernels(_SESSION)[0].cell:
        time.sleep(0.05)
    yield Row(
        "memory of the holder after 1,000,000 lines", _rss(_holder(kernel.pid)), "MiB", "<= 20 MiB"
    )
    start = time.perf_counter()
    second = _attached(home)
    result = second.resume_cell(
        1, on_output=lambda kind, text: None, on_display=lambda display: None
    )
    assert result is not None
    assert result.output.endswith("line 999999\n")
    yield Row(
        "1,000,000 lines of the time between are read",
        (time.perf_counter() - start) * 1000,
        "ms",
        "",
    )
    second.close()


def _attached(home: str) -> ProcessKernel:
    kernel = ProcessKernel(launcher=LocalDetachable(_SESSION, 1.0, attach(_SESSION)), cwd=home)
    kernel.start(QuietHost())
    return kernel


def _run(kernel: ProcessKernel, cell: int, code: str) -> None:
    result = kernel.execute(code, cell=cell, on_output=lambda kind, text: None)
    assert result.status == "ok", result.output
    kernel.acknowledge(cell)


def _holder(kernel: int) -> int:
    group = [
        int(each.name)
        for each in Path("/proc").glob("[0-9]*")
        if os.getpgid(int(each.name)) == kernel
    ]
    return min(pid for pid in group if pid != kernel)


def _rss(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
