"""1+1 in Jupyter kernels: in turn by us and by the library's own client, in a kernel each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

from jupyter_client.manager import start_new_kernel

from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel
from tests.benchmarks.table import Row, timed_in_turns
from tests.integration.kernels import running


def rows() -> Iterator[Row]:
    manager: Any
    manager, client = start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
    try:
        yield _row(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _row(client: Any) -> Row:
    def run_theirs() -> None:
        client.execute_interactive("1+1", output_hook=lambda message: None)

    with running(jupyter_kernel("jupyter:python3", "/", "")) as cells:
        timed_in_turns(20, lambda: cells.text("1+1"), run_theirs)
        ours, theirs = timed_in_turns(200, lambda: cells.text("1+1"), run_theirs)
    return Row("1+1 in a Jupyter kernel", ours, "<= 1.2 x", theirs, "jupyter_client, blocking")
