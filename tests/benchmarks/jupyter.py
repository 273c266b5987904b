"""The figures of Jupyter kernels."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from jupyter_client.manager import start_new_kernel

from mahtab_tui.kernel.jupyter.opening import jupyter_kernel
from tests.benchmarks.kernel import QuietHost
from tests.benchmarks.table import Row, median, timed

ROUNDS = 200


def rows() -> Iterator[Row]:
    """1+1, in turn by us and by jupyter_client's own blocking client, in a kernel each."""
    kernel = jupyter_kernel("jupyter:python3", "", "/", "")
    kernel.start(QuietHost())
    manager, client = start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)

    def ours() -> None:
        kernel.execute("1+1", cell=1, origin="user", on_output=lambda kind, text: None)

    def theirs() -> None:
        client.execute_interactive("1+1", output_hook=lambda message: None)

    try:
        timed(ours, 20)
        timed(theirs, 20)
        took = [(timed(ours, 1)[0], timed(theirs, 1)[0]) for _ in range(ROUNDS)]
        baseline = median([each for _, each in took])
        yield Row("1+1 in a Jupyter kernel", median([each for each, _ in took]), "ms", "<= 1.2 x", baseline, "jupyter_client, blocking")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        kernel.close()
