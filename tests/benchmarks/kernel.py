"""The kernel's figures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.worker.cells.tracker import NamespaceTracker
from tests.benchmarks.table import Row, timed
from tests.integration.kernels import RecordingHost, running

_PRINTS = "for i in range(200_000): print(i)"


def memory_mib(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def _start() -> float:
    kernel = ProcessKernel()
    (took,) = timed(kernel.start, 1, RecordingHost())
    kernel.close()
    return took


def rows() -> Iterator[Row]:
    bare = timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 10)
    yield Row("kernel start", [_start() for _ in range(10)], "<= 60 ms", bare, "python -c pass")
    kernel = ProcessKernel()
    with running(kernel) as cells:
        yield Row("reset until ready", timed(kernel.reset, 10), "<= 150 ms")
        cells.text("1")
        yield Row("1+1 there and back", timed(cells.text, 500, "1+1"), "<= 0.3 ms")
        piped = f"{sys.executable} -c '{_PRINTS}' | cat > /dev/null"
        baseline = timed(lambda: subprocess.run(piped, shell=True, check=True), 5)
        took = timed(lambda: kernel.execute(_PRINTS, cell=1, on_output=lambda kind, text: None), 5)
        yield Row("200,000 prints", took, "<= 2 x a pipe", baseline, "python -c … > pipe")
        yield Row("kernel memory", memory_mib(kernel.info().pid), "<= 16 MiB", unit="MiB")
        cells.text("globals().update((f'v{i}', [i]) for i in range(10_000))")
        watch = NamespaceTracker({f"v{i}": [i] for i in range(10_000)})
        label = "listing of 10,000 variables"
        yield Row(f"{label}, in the kernel", timed(watch.listing, 10), "<= 20 ms")
        took = timed(watch.changes, 10, None)
        yield Row("what a cell changed among 10,000 variables, in the kernel", took, "<= 20 ms")
        yield Row(f"{label}, there and back", timed(kernel.variables, 10))
        kernel.complete("v", 1)
        for label, code in (("all", "v"), ("a fuzzy few", "v99"), ("none", "zzq")):
            took = timed(kernel.complete, 20, code, len(code))
            yield Row(f"completion: {label} of 10,000 names, there and back", took, "<= 50 ms")
