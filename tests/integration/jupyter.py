"""Kernels of Jupyter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel
from tests.integration.kernels import PATIENCE, Cells, RecordingHost, running
from tests.waiting import wait_for


@contextmanager
def running_kernel(
    folder: Path,
) -> Iterator[tuple[str, BlockingKernelClient, subprocess.Popen[bytes]]]:
    file = folder / "connection.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "ipykernel_launcher", "-f", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    client = BlockingKernelClient()
    try:
        wait_for(lambda: file.exists() and file.read_text().endswith("}"))
        client.load_connection_file(str(file))
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE)
        yield str(file), client, process
    finally:
        client.stop_channels()
        process.kill()
        process.wait()


def cells_at(address: str) -> AbstractContextManager[Cells]:
    return running(jupyter_kernel(address, os.getcwd(), ""))


def start(address: str) -> Kernel:
    kernel = jupyter_kernel(address, "/", "")
    kernel.start(RecordingHost())
    return kernel


def value_for(client: BlockingKernelClient, expression: str) -> Any:
    reply = client.execute_interactive(
        "", silent=True, user_expressions={"value": expression}, timeout=PATIENCE
    )
    return reply["content"]["user_expressions"]["value"]
