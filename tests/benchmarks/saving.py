"""Cost of saving the namespace, and the time until it is restored."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import SaveTarget
from tests.benchmarks.table import Row, timed
from tests.integration.kernels import running

_FRAME = (
    "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.random.rand(1_342_177, 100)); x = 1"
)


def rows() -> Iterator[Row]:
    """A frame of 1 GB: written, written again without a change, and read into another kernel."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "namespaces").mkdir(mode=0o700)
        target = SaveTarget(f"{folder}/namespaces/session-1", os.urandom(32).hex(), 4096)
        kernel = ProcessKernel(keep=target)

        def save() -> None:
            kernel.keep((), (), 120.0)

        def sizes() -> dict[str, int]:
            files = Path(target.folder).glob("*.variables")
            return {path.name: path.stat().st_size for path in files}

        with running(kernel) as cells:
            cells.text(_FRAME)
            yield Row("a frame of 1 GB is written", timed(save))
            alone = timed(lambda: cells.text("1+1"), 50)
            writing = threading.Thread(target=save)
            writing.start()
            took = timed(lambda: cells.text("1+1"), 50)
            writing.join()
            what = "1+1 there and back while it is written"
            yield Row(what, took, "<= 5 ms more", alone, "nothing is written")
            before = sizes()
            yield Row("1 GB that has not changed, again", timed(save))
            cells.text("x = 2")
            save()
            new = sum(size for name, size in sizes().items() if name not in before) / 2**20
            yield Row("  written after x = 2", new, "nothing of the frame", unit="MiB")
        second = ProcessKernel(keep=target)
        with running(second) as cells:
            took = timed(lambda: _restore(second))
            yield Row("the frame of 1 GB is back, pandas loaded with it", took, "<= 2000 ms")
            cells.text("assert df.shape == (1_342_177, 100)")


def _restore(kernel: ProcessKernel) -> None:
    saved = kernel.saved_namespace()
    assert saved is not None
    for file in saved.files:
        assert not kernel.restore(file).missing
