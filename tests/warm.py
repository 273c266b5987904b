"""The program started quickly: forked from a process that has loaded already what takes most of its start.

It is a process of its own with the arguments, environment, folder and files that it was given. What is about the start itself is tested
with the program as it is installed.
"""

from __future__ import annotations

import atexit
import functools
import marshal
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

CLIENT = """\
import marshal, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(connection, [b"program"], [0, 1, 2])
    with connection.makefile("rwb") as file:
        marshal.dump((sys.argv[2:], dict(os.environ), os.getcwd(), False), file)
        file.flush()
        marshal.load(file)
        status = marshal.load(file)
sys.exit(status) if status >= 0 else os.kill(os.getpid(), -status)
"""
"""Starts a program with its own files, and ends as it does."""


@functools.cache
def _server() -> tuple[str, subprocess.Popen[bytes]]:
    """Where the server of programs listens, of which each process of tests has one; it ends with its stdin, which is held here."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    address = str(Path(folder, "warm"))
    server = subprocess.Popen(
        [sys.executable, "-P", Path(__file__).with_name("warm_server.py"), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return address, server


def command() -> list[str]:
    """A command that runs the program quickly; without a terminal's signals, which go to this command only."""
    return [sys.executable, "-I", "-S", "-c", CLIENT, _server()[0]]


class Forked:
    """A program on a terminal, of which `terminal` is the program's end."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, terminal: int) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server()[0])
        self._file = self._connection.makefile("rwb")
        socket.send_fds(self._connection, [b"program"], [terminal] * 3)
        marshal.dump((list(arguments), dict(environment), str(folder), True), self._file)
        self._file.flush()
        self.pid: int = marshal.load(self._file)

    def wait(self, *, block: bool) -> int | None:
        """Its exit code (negative: the signal), or None while it goes on. Not to be called again after that."""
        if not block and not select.select([self._connection], [], [], 0)[0]:
            return None
        code: int = marshal.load(self._file)
        self._file.close()
        self._connection.close()
        return code
