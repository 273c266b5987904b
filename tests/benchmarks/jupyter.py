"""The figures of Jupyter kernels."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel
from jupyter_kernel_client.manager import KernelHttpManager

from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel
from tests.benchmarks.table import Row, timed_in_turns
from tests.integration.jupyter import TOKEN, jupyter_server
from tests.integration.kernels import running


def rows() -> Iterator[Row]:
    """1+1, in turn by us and by the library's own client, in a kernel each."""
    manager: Any
    manager, client = start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
    try:
        yield _row("in a Jupyter kernel", "jupyter:python3", "", client, "jupyter_client, blocking")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    with tempfile.TemporaryDirectory() as folder, jupyter_server(Path(folder)) as server:
        manager = KernelHttpManager(server_url=server.address.removeprefix("jupyter+"), token=TOKEN)
        manager.start_kernel("python3")
        client = manager.client
        client.start_channels()
        client.wait_for_ready(60)
        try:
            yield _row(
                "on a Jupyter server", server.address, TOKEN, client, "jupyter_kernel_client"
            )
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def _row(where: str, address: str, token: str, client: Any, library: str) -> Row:
    def run_theirs() -> None:
        client.execute_interactive("1+1", output_hook=lambda message: None)

    with running(jupyter_kernel(address, token, "/", "")) as cells:
        timed_in_turns(20, lambda: cells.text("1+1"), run_theirs)
        ours, theirs = timed_in_turns(200, lambda: cells.text("1+1"), run_theirs)
    return Row(f"1+1 {where}", ours, "<= 1.2 x", theirs, library)
