"""Cost of saving the namespace, and the time until it is restored."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import KeepPlace
from tests.benchmarks.kernel import QuietHost
from tests.benchmarks.table import Row, median, timed

_FRAME = (
    "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.random.rand(1_342_177, 100)); x = 1"
)
_SECONDS = 120.0


def rows() -> Iterator[Row]:
    """A frame of 1 GB: written, written again without a change, and read into another kernel."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "namespaces").mkdir(mode=0o700)
        place = KeepPlace(f"{folder}/namespaces/session-1", os.urandom(32).hex(), 4096)
        first = _kernel(place)
        try:
            _run(first, _FRAME)
            yield Row(
                "a frame of 1 GB is written",
                timed(lambda: first.keep((), (), _SECONDS), 1)[0],
                "ms",
                "",
            )
            alone = median(timed(lambda: _run(first, "1+1"), 50))
            writing = threading.Thread(target=lambda: first.keep((), (), _SECONDS))
            writing.start()
            beside = median(timed(lambda: _run(first, "1+1"), 50))
            writing.join()
            yield Row(
                "1+1 there and back while it is written",
                beside,
                "ms",
                "<= 5 ms more",
                alone,
                "nothing is written",
            )
            before = _written(place)
            yield Row(
                "1 GB that has not changed, again",
                timed(lambda: first.keep((), (), _SECONDS), 1)[0],
                "ms",
                "",
            )
            _run(first, "x = 2")
            first.keep((), (), _SECONDS)
            new = sum(size for name, size in _written(place).items() if name not in before)
            yield Row("  written after x = 2", new / 2**20, "MiB", "nothing of the frame")
        finally:
            first.close()
        second = _kernel(place)
        try:
            yield Row(
                "the frame of 1 GB is back, pandas loaded with it",
                timed(lambda: _restore(second), 1)[0],
                "ms",
                "<= 2000 ms",
            )
            _run(second, "assert df.shape == (1_342_177, 100)")
        finally:
            second.close()


def _kernel(place: KeepPlace) -> ProcessKernel:
    kernel = ProcessKernel(keep=place)
    kernel.start(QuietHost())
    return kernel


def _run(kernel: ProcessKernel, code: str) -> None:
    result = kernel.execute(code, cell=1, on_output=lambda kind, text: None)
    assert result.status == "ok", result.output


def _restore(kernel: ProcessKernel) -> None:
    kept = kernel.kept()
    assert kept is not None
    for file in kept.files:
        assert not kernel.restore(file).missing


def _written(place: KeepPlace) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in Path(place.folder).glob("*.variables")}
