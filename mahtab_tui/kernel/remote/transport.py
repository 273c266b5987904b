"""The connection to another machine: a command whose stdin and stdout lead there."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import mahtab_tui.worker as worker
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import cloudpickle_folder
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.station_link import LINK_PIECE_BYTES, MAGIC

Ask = Callable[[str, bool], str | None]
"""Asks the user: the prompt, and whether the answer is hidden. Returns None if there is no
answer."""

CONNECT_TIMEOUT_S = 60.0
"""Seconds: a host may wake up, a container may be downloaded, a password may be typed."""
FINISH_TIMEOUT_S = 1.0
"""Seconds for a connection to end, if nothing depends on it."""
MAX_FINISH_TIMEOUT_S = 10.0
"""Seconds for a connection to end, so that the other machine learns that we know of an end."""

ADDRESS_HINT = "give ssh://HOST, ssh://USER@HOST:PORT/PATH/TO/PYTHON, or command: and a program with its arguments that runs Python"

_MIN_VERSION = (3, 9)
_MAX_PROMPT_CHARS = 4_000
_MAX_LABEL_CHARS = 30
_MAX_VERSION_CHARS = 20
_MAX_ERROR_CHARS = 4_000
_MAX_REASON_CHARS = 300
_MAX_REFUSAL_CHARS = 200
_MAX_BANNER_BYTES = 2**20
"""Bytes that may arrive before Python answers."""
_MAX_BANNER_LINES = 3
_POLL_INTERVAL_S = 0.2
_ENDED_GRACE_S = 2.0
"""Seconds without an answer after the command has ended; what it started may hold its output
open."""
_LAST_ERRORS_S = 1.0
"""Seconds for the errors of a command that has failed."""

_SSH_ADDRESS = re.compile(
    r"ssh://(?P<host>(?:[^@/\s]+@)?(?:\[[0-9A-Fa-f:.%]+\]|[^@/:\s\[\]]+))(?::(?P<port>\d{1,5}))?(?P<python>/\S.*)?"
)
_SSH_ALIVE_OPTIONS = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
"""Lets ssh itself notice a dead connection."""

_ASKPASS = """\
import os, socket, sys
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect(os.environ["MAHTAB_ASKPASS"])
    asking.sendall(" ".join(sys.argv[1:]).encode(errors="replace"))
    asking.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: asking.recv(4096), b""))
if not answer:
    sys.exit(1)
sys.stdout.buffer.write(answer[1:] + b"\\n")
"""
"""Run by ssh when it needs a password."""


class AskpassServer:
    """A program for SSH_ASKPASS, and the socket on which it asks."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.waits = False
        """Whether the user is being asked."""
        self._folder = tempfile.mkdtemp(prefix="mahtab-")
        program = os.path.join(self._folder, "askpass")
        socket_path = os.path.join(self._folder, "s")
        command = shlex.join([sys.executable, "-I", "-S", "-c", _ASKPASS])
        Path(program).write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
        os.chmod(program, 0o700)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(socket_path)
        self._listener.listen()
        self.env = {
            "SSH_ASKPASS": program,
            "SSH_ASKPASS_REQUIRE": "force",
            "MAHTAB_ASKPASS": socket_path,
            "DISPLAY": os.environ.get("DISPLAY", ":"),
        }
        start_thread("mahtab-askpass", self._serve)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        """Answer the program's questions until the server is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        question = b"".join(iter(lambda: connection.recv(4096), b""))
        prompt = question.decode(errors="replace")[:_MAX_PROMPT_CHARS]
        # Everything but the question about an unknown host's key may be a password.
        is_hidden = "(yes/no" not in prompt
        self.waits = True
        try:
            answer = self._ask(prompt, is_hidden)
        finally:
            self.waits = False
        # The sign tells an empty answer from none.
        if answer is not None:
            connection.sendall(b"=" + answer.encode())


@functools.cache
def bundle() -> bytes:
    """Pack the worker and cloudpickle as a zip file. The same files give the same bytes, so that the
    other machine recognises them. Raises `KernelError`."""
    packed = io.BytesIO()
    folders = {"worker": Path(worker.__file__).parent, "cloudpickle": Path(cloudpickle_folder())}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, folder in folders.items():
            for file in sorted(folder.rglob("*.py")):
                entry = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}")
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
    return packed.getvalue()


class Address(NamedTuple):
    """Where a kernel runs."""

    text: str
    """As for ``--kernel``."""
    label: str
    """The machine or the command, for the user."""
    argv: tuple[str, ...]
    """The command whose stdin and stdout lead there."""


def parse(text: str) -> Address:
    """Parse an address. Raises `KernelError`."""
    if text.startswith("command:"):
        try:
            words = shlex.split(text.removeprefix("command:"))
        except ValueError as error:
            raise KernelError(f"{text} cannot be read ({error}): {ADDRESS_HINT}.") from None
        if not words:
            raise KernelError(f"{text} names no program: {ADDRESS_HINT}.")
        label = " ".join([Path(words[0]).name, *words[1:]])[:_MAX_LABEL_CHARS]
        return Address(text, label, (*words, "-c", _loader()))

    # A host that begins with a dash would be an option of ssh.
    match = _SSH_ADDRESS.fullmatch(text)
    if match is None or match["host"].startswith("-"):
        raise KernelError(f"{text} is not a kernel address: {ADDRESS_HINT}.")
    python = unquote(match["python"] or "python3")
    host = match["host"].replace("[", "").replace("]", "")
    port_options = ("-p", match["port"]) if match["port"] else ()
    # ssh joins the words, and the shell there splits them again.
    remote_command = shlex.join(["exec", python, "-c", _loader()])
    argv = ("ssh", "-T", *_SSH_ALIVE_OPTIONS, *port_options, "--", host, remote_command)
    return Address(text, host, argv)


def _loader() -> str:
    """Return the loader as an argument that no shell changes. Files next to the user's data do not
    become its modules."""
    source = (Path(worker.__file__).parent / "link" / "station_loader.py").read_bytes()
    encoded_source = base64.b64encode(source).decode()
    user_entries = (
        "[q and os.path.abspath(q) for q in os.environ.get('PYTHONPATH','').split(os.pathsep)]+['']"
    )
    clean_path = f"import sys,os;o={user_entries};sys.path[:]=[q for q in sys.path if q not in o]"
    return f"{clean_path};import base64;exec(base64.b64decode('{encoded_source}'))"


class KernelGone(KernelError):
    """The other machine was reached, but the kernel no longer exists."""


class KernelClaimed(KernelError):
    """Another host has attached to the kernel."""


class Transport:
    """A running command whose stdin and stdout lead to the station on another machine."""

    def __init__(
        self,
        address: Address,
        request: Mapping[str, Any],
        ask: Ask,
        given_up: threading.Event | None = None,
    ) -> None:
        """Connect to a machine, and wait for the station's answer.

        Args:
            address: The machine.
            request: The first line for the station.
            ask: Asks the user for a password or a confirmation.
            given_up: Set when nobody waits any more.

        Raises:
            KernelGone: The kernel of the request no longer exists.
            KernelClaimed: Another host has attached to it.
            KernelError: The machine cannot be reached, or does not answer as it should.
        """
        self._label = address.label
        self._given_up = given_up or threading.Event()
        self._errors = ""
        self._banner: deque[str] = deque(maxlen=_MAX_BANNER_LINES)
        """What was printed before Python answered, by a shell or a wrapper."""
        self.buffered = b""
        """Data after the station's answer."""
        try:
            self._questions = AskpassServer(ask)
        except OSError as error:
            raise KernelError(f"Temporary files cannot be written: {error.strerror}.") from None
        try:
            self._child = subprocess.Popen(
                address.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._questions.env},
                # It must not ask on the screen's terminal, nor get its Ctrl+C.
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._questions.close()
            raise KernelError(f"{address.argv[0]} cannot be started: {error.strerror}.") from None
        files = (self._child.stdin, self._child.stdout, self._child.stderr)
        self._files = [file for file in files if file is not None]
        self.stdin, self.stdout, self.stderr = (file.fileno() for file in self._files)
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)
        try:
            self.received = self._connect(request)
        except BaseException:
            self.close()
            raise
        finally:
            self._questions.close()

    def read_stderr(self) -> bool:
        """Read what has arrived on stderr; returns False at its end."""
        try:
            data = os.read(self.stderr, LINK_PIECE_BYTES)
        except BlockingIOError:
            return True
        self._errors = (self._errors + data.decode(errors="replace"))[-_MAX_ERROR_CHARS:]
        return bool(data)

    @property
    def errors(self) -> str:
        """The last line of the command's errors, without the full stop."""
        for line in reversed(self._errors.split("\n")):
            if line.strip():
                return line.strip().rstrip(".")
        return ""

    def exchange(self, data: bytes) -> bytes:
        """Send data, and return the data that follows. Raises `KernelError`."""
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        self._write(data, deadline)
        return self._read(deadline)

    def finish(self, timeout: float) -> None:
        """Close stdin, and wait some seconds for the command to end."""
        self._files[0].close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout)

    def close(self) -> None:
        """Kill the command."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()

    def _connect(self, request: Mapping[str, Any]) -> int:
        """Exchange the first lines with the loader and the station; returns the number of bytes that
        the station has received. Raises `KernelError`."""
        packed_files = bundle()
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        description = {
            "digest": hashlib.sha256(packed_files).hexdigest(),
            "size": len(packed_files),
        }
        # Sent before it is requested, because each round trip counts on a slow connection.
        with contextlib.suppress(KernelError):
            self._write_line(description, deadline)

        greeting = self._read_greeting(deadline)
        version = greeting[0] if greeting else "?"
        numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdigit())
        if numbers < _MIN_VERSION:
            raise KernelError(
                f"{self._label} has Python {version[:_MAX_VERSION_CHARS]};"
                f" a kernel needs Python {'.'.join(map(str, _MIN_VERSION))} or later."
            )
        # The machine may have the files from an earlier connection.
        if self._read_line(deadline) == b"send":
            self._write(packed_files, deadline)
        self._write_line(request, deadline)

        try:
            answer = json.loads(self._read_line(deadline))
            if "error" in answer:
                refusal = str(answer["error"])[:_MAX_REFUSAL_CHARS]
                raise KernelGone(f"{self._label} was reached, but {refusal}.")
            if "taken" in answer:
                raise KernelClaimed(f"The kernel on {self._label} is now open in another terminal.")
            self.answer: dict[str, Any] = dict(answer)
            return int(answer["received"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise KernelError(f"{self._label} does not respond like a kernel.") from None

    def _read_greeting(self, deadline: float) -> list[str]:
        """Read the loader's first line, after what a shell may print; returns its words."""
        read_bytes = 0
        while True:
            line = self._read_line(deadline)
            read_bytes += len(line) + 1
            text = line.decode(errors="replace")
            if line.startswith(MAGIC.encode() + b" "):
                return text.split()[1:]
            if text.strip():
                self._banner.append(text.strip())
            if read_bytes > _MAX_BANNER_BYTES:
                raise KernelError(f"{self._label} prints something, but does not run Python.")

    def _read_line(self, deadline: float) -> bytes:
        while b"\n" not in self.buffered:
            data = self._read(deadline)
            if len(self.buffered) > _MAX_BANNER_BYTES:
                raise KernelError(self._failure())
            self.buffered += data
        line, _, self.buffered = self.buffered.partition(b"\n")
        return line.rstrip(b"\r")

    def _read(self, deadline: float) -> bytes:
        while True:
            self._wait(select.POLLIN, self.stdout, deadline)
            with contextlib.suppress(BlockingIOError):
                if data := os.read(self.stdout, LINK_PIECE_BYTES):
                    return data
                raise KernelError(self._failure())

    def _failure(self) -> str:
        """Return a sentence about a command that has ended, with its last errors."""
        deadline = time.monotonic() + _LAST_ERRORS_S
        with contextlib.suppress(KernelError):
            while self.read_stderr():
                self._wait(select.POLLIN, self.stderr, deadline)
        reason = self._reason or "the command has ended"
        return f"{self._label} did not start a kernel: {reason}."

    @property
    def _reason(self) -> str:
        """What the command printed last: its errors, or else its output."""
        if self.errors:
            return self.errors[:_MAX_REASON_CHARS]
        lines = list(self._banner)
        unfinished_line = self.buffered.decode(errors="replace").strip()
        if unfinished_line:
            lines.append(unfinished_line)
        return "; ".join(lines)[-_MAX_REASON_CHARS:].rstrip(".")

    def _write_line(self, message: Mapping[str, Any], deadline: float) -> None:
        self._write(json.dumps(message).encode() + b"\n", deadline)

    def _write(self, data: bytes, deadline: float) -> None:
        unwritten = memoryview(data)
        while unwritten:
            try:
                unwritten = unwritten[os.write(self.stdin, unwritten) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, self.stdin, deadline)
            except OSError:
                raise KernelError(self._failure()) from None

    def _wait(self, event: int, descriptor: int, deadline: float) -> None:
        """Wait until a descriptor is ready, reading errors meanwhile. Raises `KernelError`."""
        poll = select.poll()
        poll.register(descriptor, event)
        poll.register(self.stderr, select.POLLIN)
        ended_at: float | None = None
        while True:
            if self._given_up.is_set():
                raise KernelError(f"{self._label} was not waited for.")
            remaining_s = deadline - time.monotonic()
            # While the user types a password, the time does not run out.
            if remaining_s <= 0 and self._questions.waits:
                remaining_s = 1.0
            if remaining_s <= 0:
                reason = f" ({self._reason})" if self._reason else ""
                raise KernelError(
                    f"{self._label} has not answered for {CONNECT_TIMEOUT_S:.0f} s{reason}."
                )
            ready = dict(poll.poll(min(remaining_s, _POLL_INTERVAL_S) * 1000))
            if self.stderr in ready and not self.read_stderr():
                poll.unregister(self.stderr)
            if descriptor in ready:
                return
            if self._child.poll() is not None:
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > _ENDED_GRACE_S:
                    raise KernelError(self._failure())
