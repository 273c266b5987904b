"""Start the program, and pytest's workers, quickly: fork them from processes that have loaded their
modules."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

CLIENT = """\
import marshal, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(connection, [b"program"], [0, 1, 2])
    with connection.makefile("rwb") as file:
        marshal.dump((sys.argv[3:], dict(os.environ), os.getcwd(), sys.argv[2]), file)
        file.flush()
        marshal.load(file)
        status = marshal.load(file)
sys.exit(status) if status >= 0 else os.kill(os.getpid(), -status)
"""
"""Starts a program with the files of this process, and ends as it does."""

# How a forked program is run.
TERMINAL = "terminal"
"""With a terminal of its own."""
PIPES = "pipes"
BOUND = "bound"
"""With pipes, and killed when the process is killed that has started it."""

AGENT = "outside-agent"
"""The first argument for `tests.servers.outside_agent` in place of the program."""

FOLDER = "TESTS_WARM"
"""The environment variable with the folder of the server, which all processes of a run share."""

RUNNING: list[subprocess.Popen[bytes]] = []
"""References, without which Python would wait for the process."""


def prepare() -> None:
    """Make the server's folder in the process that ends last, and hold the server's stdin open."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    os.environ[FOLDER] = folder
    os.mkfifo(Path(folder, "alive"))
    os.open(Path(folder, "alive"), os.O_RDWR)


@functools.cache
def _server(*tests: str) -> str:
    """Return the address of a server, and start it if this is the first call of the run.

    Args:
        tests: What a server for pytest's workers loads, as pytest's arguments; none for a server
            of the program.
    """
    if FOLDER not in os.environ:
        prepare()
    folder = Path(os.environ[FOLDER])
    address = folder / ("workers" if tests else "programs")
    program = Path(__file__).with_name("warm_server.py")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            with (folder / "alive").open() as alive:
                server = subprocess.Popen(
                    [sys.executable, "-P", program, address, *tests],
                    stdin=alive,
                    stdout=subprocess.PIPE,
                )
            RUNNING.append(server)
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
    return str(address)


def command() -> list[str]:
    """Return a command that runs the program quickly, but gets a terminal's signals itself."""
    return _client(_server())


def bound_command() -> list[str]:
    """Return a command that runs the program quickly, and ends it if it is killed itself."""
    return _client(_server(), BOUND)


def agent_command(*abilities: str) -> list[str]:
    """Return a command that runs the agent of `tests.servers.outside_agent` quickly, and ends it if it is
    killed itself."""
    return [*bound_command(), AGENT, *abilities]


def worker_command(tests: Sequence[str]) -> list[str]:
    """Return a command that runs a worker of pytest, which finds these tests loaded."""
    return _client(_server(*tests))


def _client(address: str, way: str = PIPES) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", CLIENT, address, way]


def run_program(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program without a terminal, in the working directory."""
    return subprocess.run(
        [*command(), *arguments], input=stdin, capture_output=True, text=True, timeout=100
    )


class Forked:
    """A program with stdin, stdout and stderr. on_terminal: these are its own terminal."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        files: Sequence[int],
        *,
        on_terminal: bool = True,
    ) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server())
        self._file = self._connection.makefile("rwb")
        socket.send_fds(self._connection, [b"program"], list(files))
        way = TERMINAL if on_terminal else PIPES
        marshal.dump((list(arguments), dict(environment), str(folder), way), self._file)
        self._file.flush()
        self.pid: int = marshal.load(self._file)

    def wait(self, *, block: bool, seconds: float | None = None) -> int | None:
        """Return its exit code (negative: the signal), or None if it still runs."""
        if not select.select([self._connection], [], [], seconds if block else 0)[0]:
            return None
        code: int = marshal.load(self._file)
        self._file.close()
        self._connection.close()
        return code


class Piped(NamedTuple):
    """A program that reads from and writes to pipes."""

    program: Forked
    stdin: TextIO
    stdout: TextIO

    @property
    def pid(self) -> int:
        return self.program.pid

    def wait(self, seconds: float = 60.0) -> int | None:
        return self.program.wait(block=True, seconds=seconds)


@contextlib.contextmanager
def piped(*arguments: str) -> Iterator[Piped]:
    """Start the program in the current folder, and kill it when the block ends."""
    its_stdin, stdin = os.pipe()
    stdout, its_stdout = os.pipe()
    program = Forked(
        arguments, os.environ, Path.cwd(), [its_stdin, its_stdout, 2], on_terminal=False
    )
    os.close(its_stdin)
    os.close(its_stdout)
    with os.fdopen(stdin, "w") as into, os.fdopen(stdout) as out:
        try:
            yield Piped(program, into, out)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program.pid, signal.SIGKILL)
