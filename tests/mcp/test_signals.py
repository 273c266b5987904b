"""A signal ends the server, whatever it does."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.waiting import alive, wait_for
from tests.warm import Piped, piped

CODES = {
    "waits": "time.sleep(1000)",
    "computes": "while True: pass",
    "ignores interrupts": "import signal; signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass",
}


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_signal_ends_a_server_with_running_code(
    project: Path, number: signal.Signals, code: str
) -> None:
    with piped("mcp") as server:
        pid = worker_of(server, code)
        os.kill(server.pid, number)
        assert server.wait() == -number
        wait_for(lambda: not alive(pid))


def worker_of(server: Piped, code: str) -> int:
    """Have a server run some code; returns the process that does, once it does. Its stdin stays
    open."""
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    code = f"import os, time, pathlib; pathlib.Path('pid.new').write_text(str(os.getpid())); os.replace('pid.new', 'pid')\n{code}"
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "eval", "arguments": {"code": code}}},
    ]
    for message in messages:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
    found = Path("pid")
    wait_for(found.exists)
    return int(found.read_text())
