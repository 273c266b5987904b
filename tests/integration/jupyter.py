"""A Jupyter server, a kernel of another program and one for another language, for tests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_client.blocking.client import BlockingKernelClient

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel
from tests.integration.kernels import PATIENCE, Cells, RecordingHost, running
from tests.ports import free_port
from tests.waiting import wait_for

TOKEN = "sesame-opens-the-door"


class Server(NamedTuple):
    address: str
    process: subprocess.Popen[bytes]
    root: Path


@contextmanager
def jupyter_server(folder: Path, *options: str) -> Iterator[Server]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "jupyter_server",
        "--allow-root",
        "--no-browser",
        f"--port={port}",
        "--ServerApp.port_retries=0",
    ]
    command += [
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={folder}",
        "--ServerApp.base_url=/user/x",
        *options,
    ]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
    try:
        wait_for_port(port)
        secure = "s" if any(option.startswith("--certfile") for option in options) else ""
        yield Server(f"jupyter+http{secure}://127.0.0.1:{port}/user/x", process, folder)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for_port(port: int) -> None:
    def answers() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    wait_for(answers)


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


UPPER = """
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

class Upper(Kernel):
    implementation = "upper"
    implementation_version = "1"
    language_info = {"name": "upper", "version": "1", "mimetype": "text/plain", "file_extension": ".up"}
    banner = "UPPER"

    async def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **more):
        if code == "fail":
            return {"status": "error", "ename": "Failed", "evalue": "as asked", "traceback": []}
        if code == "crash":
            raise RuntimeError("inside")
        if code == "wait":
            # Said from elsewhere, so that nothing but the sleep is interrupted: what an interrupt raises in a finaliser is lost.
            import threading, time
            said = "stream", {"name": "stdout", "text": "go"}
            threading.Timer(0.2, self.send_response, (self.iopub_socket, *said)).start()
            time.sleep(60)
        if code == "odd":
            for content in ({}, {"name": 1, "text": 2}, {"data": 3}, {"data": {"text/plain": [1]}}, {"data": {"image/png": "no base64 \\u00e9"}}, {"data": {"text/html": 5}}):
                for kind in ("stream", "display_data", "execute_result", "clear_output", "comm_msg", "status", "mahtab_tui", "nothing\\x1b[2J"):
                    self.send_response(self.iopub_socket, kind, content)
        self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": code.upper() + "\\n"})
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    def do_complete(self, code, cursor_pos):
        return {"status": "ok", "matches": ["lower", "LOWER"], "cursor_start": 0, "cursor_end": cursor_pos, "metadata": {}}

IPKernelApp.launch_instance(kernel_class=Upper)
"""


def install_upper(folder: Path) -> str:
    spec = folder / "kernels" / "upper"
    spec.mkdir(parents=True)
    (spec / "upper.py").write_text(UPPER)
    argv = [sys.executable, str(spec / "upper.py"), "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Upper", "language": "upper"})
    )
    return str(folder)


def cells_at(address: str, token: str = "") -> AbstractContextManager[Cells]:
    return running(jupyter_kernel(address, token, os.getcwd(), ""))


def start(address: str, token: str = "") -> Kernel:
    kernel = jupyter_kernel(address, token, "/", "")
    kernel.start(RecordingHost())
    return kernel


def value_for(client: BlockingKernelClient, expression: str) -> Any:
    reply = client.execute_interactive(
        "", silent=True, user_expressions={"told": expression}, timeout=PATIENCE
    )
    return reply["content"]["user_expressions"]["told"]
