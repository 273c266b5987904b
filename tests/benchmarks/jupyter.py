"""The figures of Jupyter kernels."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.manager import start_new_kernel
from jupyter_kernel_client.manager import KernelHttpManager

from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel
from tests.benchmarks.kernel import QuietHost
from tests.benchmarks.table import Row, median, timed
from tests.integration.jupyter import TOKEN, Server, jupyter_server

ROUNDS = 200


def rows() -> Iterator[Row]:
    """1+1, in turn by us and by the library's own client, in a kernel each."""
    yield from _here()
    with tempfile.TemporaryDirectory() as folder, jupyter_server(Path(folder)) as server:
        yield _of_server(server)


def _here() -> Iterator[Row]:
    kernel = jupyter_kernel("jupyter:python3", "", "/", "")
    kernel.start(QuietHost())
    manager, client = start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)

    def ours() -> None:
        kernel.execute("1+1", cell=1, on_output=lambda kind, text: None)

    def theirs() -> None:
        client.execute_interactive("1+1", output_hook=lambda message: None)

    try:
        timed(ours, 20)
        timed(theirs, 20)
        took = [(timed(ours, 1)[0], timed(theirs, 1)[0]) for _ in range(ROUNDS)]
        baseline = median([each for _, each in took])
        yield Row(
            "1+1 in a Jupyter kernel",
            median([each for each, _ in took]),
            "ms",
            "<= 1.2 x",
            baseline,
            "jupyter_client, blocking",
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        kernel.close()


def _of_server(server: Server) -> Row:
    ours = jupyter_kernel(server.address, TOKEN, "/", "")
    ours.start(QuietHost())
    manager = KernelHttpManager(server_url=server.address.removeprefix("jupyter+"), token=TOKEN)
    manager.start_kernel("python3")
    theirs = manager.client
    theirs.start_channels()
    theirs.wait_for_ready(60)

    def run_ours() -> None:
        ours.execute("1+1", cell=1, on_output=lambda kind, text: None)

    def run_theirs() -> None:
        theirs.execute_interactive("1+1", output_hook=lambda message: None)

    try:
        took = [(timed(run_ours, 1)[0], timed(run_theirs, 1)[0]) for _ in range(ROUNDS)]
        baseline = median([each for _, each in took])
        return Row(
            "1+1 on a Jupyter server",
            median([each for each, _ in took]),
            "ms",
            "<= 1.2 x",
            baseline,
            "jupyter_kernel_client",
        )
    finally:
        theirs.stop_channels()
        manager.shutdown_kernel(now=True)
        ours.close()
