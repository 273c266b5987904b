"""A frame of 1 GB is saved, saved again without a change, and restored in another kernel."""

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
            alone = timed(cells.text, 50, "1+1")
            writing = threading.Thread(target=save)
            writing.start()
            took = timed(cells.text, 50, "1+1")
            writing.join()
            label = "1+1 there and back while it is written"
            yield Row(label, took, "<= 5 ms more", alone, "nothing is written")
            sizes_before = sizes()
            yield Row("1 GB that has not changed, again", timed(save))
            cells.text("x = 2")
            save()
            new = sum(size for name, size in sizes().items() if name not in sizes_before) / 2**20
            yield Row("  written after x = 2", new, "nothing of the frame", unit="MiB")
        second = ProcessKernel(keep=target)
        with running(second) as cells:
            label = "the frame of 1 GB is back, pandas loaded with it"
            yield Row(label, timed(_restore, 1, second), "<= 2000 ms")
            cells.text("assert df.shape == (1_342_177, 100)")


def _restore(kernel: ProcessKernel) -> None:
    saved = kernel.saved_namespace()
    assert saved is not None
    for file in saved.files:
        assert not kernel.restore(file).missing
