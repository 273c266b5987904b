"""MCP servers that tests start, and configurations that name them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.config_files import config_file, toml
from tests.waiting import wait_for

HERE = Path(__file__).parent
PATH = {"PYTHONPATH": str(HERE.parents[1])}


def plain(behaviour: str = "", tools: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A server that starts quickly. tools: instead of its own."""
    args = ["-I", str(HERE / "plain.py"), behaviour, json.dumps(tools)]
    return {"command": sys.executable, "args": args}


def friendly() -> dict[str, Any]:
    """A server built with the SDK."""
    return {"command": sys.executable, "args": [str(HERE / "friendly.py")], "env": PATH}


@contextlib.contextmanager
def listening(name: str, port: int, *arguments: str) -> Iterator[None]:
    """Run a server over HTTP."""
    command = [sys.executable, str(HERE / f"{name}.py"), str(port), *arguments]

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    env = {**os.environ, **PATH}
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as program:
        try:
            wait_for(listens)
            yield
        finally:
            program.kill()


def configure(home: Path, **servers: dict[str, Any]) -> None:
    config_file(home, f"mcp = {toml(servers)}\n")
