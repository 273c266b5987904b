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
from mahtab_tui.worker.station import LINK_PIECE, MAGIC

Ask = Callable[[str, bool], str | None]
"""Asks the user: the prompt, and whether the answer is hidden. Returns None if there is no
answer."""

_LONGEST = 4_000

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
        self._folder = tempfile.mkdtemp(prefix="mahtab-")
        program, path = os.path.join(self._folder, "askpass"), os.path.join(self._folder, "s")
        command = shlex.join([sys.executable, "-I", "-S", "-c", _ASKPASS])
        Path(program).write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
        os.chmod(program, 0o700)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self.env = {
            "SSH_ASKPASS": program,
            "SSH_ASKPASS_REQUIRE": "force",
            "MAHTAB_ASKPASS": path,
            "DISPLAY": os.environ.get("DISPLAY", ":"),
        }
        start_thread("mahtab-askpass", self._serve)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listener.accept()
            except OSError:
                return
            with asking, contextlib.suppress(OSError):
                read = b"".join(iter(lambda: asking.recv(4096), b""))  # noqa: B023
                prompt = read.decode(errors="replace")[:_LONGEST]
                self.waits = True
                try:
                    answer = self._ask(prompt, "(yes/no" not in prompt)
                finally:
                    self.waits = False
                if answer is not None:
                    asking.sendall(b"=" + answer.encode())


@functools.cache
def bundle() -> bytes:
    """Pack the files. The same files give the same bytes, so that the other machine recognises
    them. Raises `KernelError`."""
    packed = io.BytesIO()
    folders = {"worker": Path(worker.__file__).parent, "cloudpickle": Path(cloudpickle_folder())}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, folder in folders.items():
            for file in sorted(folder.rglob("*.py")):
                entry = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}")
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
    return packed.getvalue()


WANTED = "give ssh://HOST, ssh://USER@HOST:PORT/PATH/TO/PYTHON, or command: and a program with its arguments that runs Python"

_SSH = re.compile(
    r"ssh://(?P<host>(?:[^@/\s]+@)?(?:\[[0-9A-Fa-f:.%]+\]|[^@/:\s\[\]]+))(?::(?P<port>\d{1,5}))?(?P<python>/\S.*)?"
)
_LABEL = 30
_ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
"""Lets ssh itself notice a dead connection."""


class Address(NamedTuple):
    text: str
    label: str
    argv: tuple[str, ...]


def parse(text: str) -> Address:
    if text.startswith("command:"):
        try:
            words = shlex.split(text.removeprefix("command:"))
        except ValueError as error:
            raise KernelError(f"{text} cannot be read ({error}): {WANTED}.") from None
        if not words:
            raise KernelError(f"{text} names no program: {WANTED}.")
        label = " ".join([Path(words[0]).name, *words[1:]])[:_LABEL]
        return Address(text, label, (*words, "-c", _loader()))
    found = _SSH.fullmatch(text)
    if found is None or found["host"].startswith("-"):
        raise KernelError(f"{text} is not a kernel address: {WANTED}.")
    python = unquote(found["python"] or "python3")
    host = found["host"].replace("[", "").replace("]", "")
    port = ("-p", found["port"]) if found["port"] else ()
    # ssh joins the words, and the shell there splits them again.
    there = shlex.join(["exec", python, "-c", _loader()])
    return Address(text, host, ("ssh", "-T", *_ALIVE, *port, "--", host, there))


def _loader() -> str:
    """Return the loader as an argument that no shell changes. Files next to the user's data do not
    become its modules."""
    source = Path(worker.__file__).with_name("station_loader.py").read_bytes()
    own = (
        "[q and os.path.abspath(q) for q in os.environ.get('PYTHONPATH','').split(os.pathsep)]+['']"
    )
    clean = f"import sys,os;o={own};sys.path[:]=[q for q in sys.path if q not in o]"
    return f"{clean};import base64;exec(base64.b64decode('{base64.b64encode(source).decode()}'))"


CONNECT_TIMEOUT = 60.0
"""Seconds: a host may wake up, a container may be downloaded, a password may be typed."""

FINISH_TIMEOUT = 1.0
MAX_FINISH_TIMEOUT = 10.0

_POLL_INTERVAL = 0.2
_MAX_BANNER_BYTES = 2**20
_MAX_BANNER_LINES = 3
_MAX_ERROR_CHARS = 4_000
_MAX_REASON_CHARS = 300
_ENDED_GRACE_S = 2.0
"""Seconds without an answer after the command has ended; what it started may hold its output
open."""


class KernelGone(KernelError):
    """The other machine was reached, but the kernel no longer exists."""


class KernelClaimed(KernelError):
    """Another host has attached to the kernel."""


class Transport:
    def __init__(
        self,
        address: Address,
        request: Mapping[str, Any],
        ask: Ask,
        given_up: threading.Event | None = None,
    ) -> None:
        """request: the first line for the station. given_up: set when nobody waits any more. Raises
        `KernelError`."""
        self._label = address.label
        self._given_up = given_up or threading.Event()
        self._errors = ""
        self._banner: deque[str] = deque(maxlen=_MAX_BANNER_LINES)
        """What was printed before Python answered, by a shell or a wrapper."""
        self.buffered = b""
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
                start_new_session=True,  # so that it cannot ask on the screen's terminal or get its Ctrl+C
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
        """Returns False at its end."""
        try:
            data = os.read(self.stderr, LINK_PIECE)
        except BlockingIOError:
            return True
        self._errors = (self._errors + data.decode(errors="replace"))[-_MAX_ERROR_CHARS:]
        return bool(data)

    @property
    def errors(self) -> str:
        lines = self._errors.split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "").rstrip(".")

    def exchange(self, data: bytes) -> bytes:
        """Send data, and return the data that follows. Raises `KernelError`."""
        deadline = time.monotonic() + CONNECT_TIMEOUT
        self._write(data, deadline)
        return self._read(deadline)

    def finish(self, seconds: float) -> None:
        self._files[0].close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()

    def _connect(self, request: Mapping[str, Any]) -> int:
        files = bundle()
        deadline = time.monotonic() + CONNECT_TIMEOUT
        about = {"digest": hashlib.sha256(files).hexdigest(), "size": len(files)}
        # Sent before it is requested, because each round trip counts on a slow connection.
        with contextlib.suppress(KernelError):
            self._write_line(about, deadline)
        words = self._greeting(deadline)
        version = words[0] if words else "?"
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < (3, 9):
            raise KernelError(
                f"{self._label} has Python {version[:20]}; a kernel needs Python 3.9 or later."
            )
        if self._line(deadline) == b"send":
            self._write(files, deadline)
        self._write_line(request, deadline)
        try:
            answer = json.loads(self._line(deadline))
            if "error" in answer:
                raise KernelGone(f"{self._label} was reached, but {str(answer['error'])[:200]}.")
            if "taken" in answer:
                raise KernelClaimed(f"The kernel on {self._label} is now open in another terminal.")
            self.answer: dict[str, Any] = dict(answer)
            return int(answer["received"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise KernelError(f"{self._label} does not respond like a kernel.") from None

    def _greeting(self, deadline: float) -> list[str]:
        read = 0
        while True:
            line = self._line(deadline)
            read += len(line) + 1
            if line.startswith(MAGIC.encode() + b" "):
                return line.decode(errors="replace").split()[1:]
            if text := line.decode(errors="replace").strip():
                self._banner.append(text)
            if read > _MAX_BANNER_BYTES:
                raise KernelError(f"{self._label} prints something, but does not run Python.")

    def _line(self, deadline: float) -> bytes:
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
                if data := os.read(self.stdout, LINK_PIECE):
                    return data
                raise KernelError(self._failure())

    def _failure(self) -> str:
        deadline = time.monotonic() + 1.0
        with contextlib.suppress(KernelError):
            while self.read_stderr():
                self._wait(select.POLLIN, self.stderr, deadline)
        reason = self._reason or "the command has ended"
        return f"{self._label} did not start a kernel: {reason}."

    @property
    def _reason(self) -> str:
        """What the command printed last: its errors, or else its output."""
        unfinished_line = self.buffered.decode(errors="replace").strip()
        printed = "; ".join([*self._banner, *filter(None, [unfinished_line])])
        return self.errors[:_MAX_REASON_CHARS] or printed[-_MAX_REASON_CHARS:].rstrip(".")

    def _write_line(self, message: Mapping[str, Any], deadline: float) -> None:
        self._write(json.dumps(message).encode() + b"\n", deadline)

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.stdin, view) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, self.stdin, deadline)
            except OSError:
                raise KernelError(self._failure()) from None

    def _wait(self, event: int, descriptor: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        poll.register(self.stderr, select.POLLIN)
        ended_at: float | None = None
        while True:
            if self._given_up.is_set():
                raise KernelError(f"{self._label} was not waited for.")
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 and self._questions.waits:
                remaining_s = 1.0
            if remaining_s <= 0:
                reason = f" ({self._reason})" if self._reason else ""
                raise KernelError(
                    f"{self._label} has not answered for {CONNECT_TIMEOUT:.0f} s{reason}."
                )
            ready = dict(poll.poll(min(remaining_s, _POLL_INTERVAL) * 1000))
            if self.stderr in ready and not self.read_stderr():
                poll.unregister(self.stderr)
            if descriptor in ready:
                return
            if self._child.poll() is not None:
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > _ENDED_GRACE_S:
                    raise KernelError(self._failure())
