"""Cost of saving the namespace, and the time until it is restored."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import SaveTarget
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
        location = SaveTarget(f"{folder}/namespaces/session-1", os.urandom(32).hex(), 4096)
        first = _kernel(location)
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
            while_saving = median(timed(lambda: _run(first, "1+1"), 50))
            writing.join()
            yield Row(
                "1+1 there and back while it is written",
                while_saving,
                "ms",
                "<= 5 ms more",
                alone,
                "nothing is written",
            )
            before = _written(location)
            yield Row(
                "1 GB that has not changed, again",
                timed(lambda: first.keep((), (), _SECONDS), 1)[0],
                "ms",
                "",
            )
            _run(first, "x = 2")
            first.keep((), (), _SECONDS)
            new = sum(size for name, size in _written(location).items() if name not in before)
            yield Row("  written after x = 2", new / 2**20, "MiB", "nothing of the frame")
        finally:
            first.close()
        second = _kernel(location)
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


def _kernel(location: SaveTarget) -> ProcessKernel:
    kernel = ProcessKernel(keep=location)
    kernel.start(QuietHost())
    return kernel


def _run(kernel: ProcessKernel, code: str) -> None:
    result = kernel.execute(code, cell=1, on_output=lambda kind, text: None)
    assert result.status == "ok", result.output


def _restore(kernel: ProcessKernel) -> None:
    saved = kernel.saved_namespace()
    assert saved is not None
    for file in saved.files:
        assert not kernel.restore(file).missing


def _written(location: SaveTarget) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in Path(location.folder).glob("*.variables")}
