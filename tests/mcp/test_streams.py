"""Writers of each stream: the protocol's stream, and the log's file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mahtab_tui.mcp import connection
from mahtab_tui.mcp.connection import Journal, log_file

SERVER = """
import os
from mahtab_tui.mcp.server import take_stdio
streams = take_stdio()
print("printed", flush=True)
os.system("echo child; cat")
streams.stdout.write(f"heard {streams.stdin.readline()}")
streams.stdout.flush()
"""


def test_nothing_but_the_protocol_reaches_its_streams() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVER], input="a line\n", capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("heard a line\n", "printed\nchild\n")


def test_large_log_is_rotated_when_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LARGEST", 10)
    for text in ("first text\n", "second\n", "third\n"):
        log = Journal("file")
        log.output("stdout", text)
        log.set_mode("off")
    assert log_file().read_text() == "second\nthird\n"
    assert log_file().with_name("repl.log.1").read_text() == "first text\n"
