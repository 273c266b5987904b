"""The kernel's figures."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mahtab_tui.kernel.base import HostFunction, HostServer, KernelInfo
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult, OutputKind
from mahtab_tui.worker.variables import NamespaceTracker
from tests.benchmarks.table import Row, median, timed

_PRINTS = "for i in range(200_000): print(i)"


class QuietHost:
    """A host that wants nothing."""

    def kernel_state(self, info: KernelInfo, text: str) -> None: ...

    def background_output(self, text: str) -> None: ...

    def functions(self) -> Sequence[HostFunction]:
        return ()

    def servers(self) -> Sequence[HostServer]:
        return ()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        raise RuntimeError(name)

    def call_cancelled(self, name: str) -> None: ...


def run(kernel: ProcessKernel, code: str) -> CellResult:
    """One cell of the person's, its output thrown away."""

    def ignore(kind: OutputKind, text: str) -> None: ...

    return kernel.execute(code, cell=1, on_output=ignore)


def memory_mib(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _start_and_close() -> float:
    kernel = ProcessKernel()
    start = time.perf_counter()
    kernel.start(QuietHost())
    took = (time.perf_counter() - start) * 1000
    kernel.close()
    return took


def rows() -> Iterator[Row]:
    """Start, reset, a round trip, prints, the listing, memory."""
    bare = timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 10)
    yield Row(
        "kernel start",
        median([_start_and_close() for _ in range(10)]),
        "ms",
        "<= 60 ms",
        median(bare),
        "python -c pass",
    )
    kernel = ProcessKernel()
    kernel.start(QuietHost())
    try:
        yield Row("reset until ready", median(timed(kernel.reset, 10)), "ms", "<= 150 ms")
        run(kernel, "1")
        yield Row(
            "1+1 there and back", median(timed(lambda: run(kernel, "1+1"), 500)), "ms", "<= 0.3 ms"
        )
        piped = f"{sys.executable} -c '{_PRINTS}' | cat > /dev/null"
        baseline = median(timed(lambda: subprocess.run(piped, shell=True, check=True), 5))
        yield Row(
            "200,000 prints",
            median(timed(lambda: run(kernel, _PRINTS), 5)),
            "ms",
            "<= 2 x a pipe",
            baseline,
            "python -c … > pipe",
        )
        yield Row("kernel memory", memory_mib(kernel.info().pid), "MiB", "<= 16 MiB")
        run(kernel, "globals().update((f'v{i}', [i]) for i in range(10_000))")
        watch = NamespaceTracker({f"v{i}": [i] for i in range(10_000)})
        yield Row(
            "listing of 10,000 variables, in the kernel",
            median(timed(watch.listing, 10)),
            "ms",
            "<= 20 ms",
        )
        yield Row(
            "what a cell changed among 10,000 variables, in the kernel",
            median(timed(lambda: watch.changes(None), 10)),
            "ms",
            "<= 20 ms",
        )
        yield Row(
            "listing of 10,000 variables, there and back",
            median(timed(kernel.variables, 10)),
            "ms",
            "",
        )
        kernel.complete("v", 1)
        for what, code in (("all", "v"), ("a fuzzy few", "v99"), ("none", "zzq")):
            took = median(timed(lambda code=code: kernel.complete(code, len(code)), 20))  # type: ignore[misc]
            yield Row(f"completion: {what} of 10,000 names, there and back", took, "ms", "<= 50 ms")
    finally:
        kernel.close()
