"""One wire: a command whose stdin and stdout lead to another machine, and what is said over it
before the link begins."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.remote.address import Address
from mahtab_tui.kernel.remote.bundle import bundle
from mahtab_tui.kernel.remote.questions import Ask, Questions
from mahtab_tui.kernel.worker.station.link import LINK_PIECE, MAGIC

CONNECT_TIMEOUT = 60.0
"""Seconds until the other side speaks: a host that sleeps, a container that is fetched, a password
that is typed."""

LAST_WORDS = 1.0
"""Seconds that somebody waits for the command to carry the last words and to end."""
LONGEST_LAST_WORDS = 10.0
"""Seconds after which the command is ended although it still carries the last words, on a thread
for which nobody waits."""

_LOOK = 0.2
"""Seconds between two checks whether the user waits no more."""
_BANNER = 2**20
"""Bytes that the way there may print before the loader's line."""
_SAID = 4_000
"""Characters that are kept of what the command says on stderr."""


class KernelGone(KernelError):
    """The other machine was reached, but the kernel is not there any more."""


class KernelClaimed(KernelError):
    """Another host has the kernel now."""


class Transport:
    """A connection to the station of a kernel."""

    def __init__(
        self,
        address: Address,
        asked: Mapping[str, Any],
        ask: Ask,
        given_up: threading.Event | None = None,
    ) -> None:
        """Start the command, and connect. asked: the relay's first line. ask: asks the user for a
        password. given_up: when it is set, nobody waits for the answer any more. Raises
        `KernelError`."""
        self._address = address
        self._given_up = given_up or threading.Event()
        self._said = ""
        self._buffer = b""
        try:
            self._questions = Questions(ask)
        except OSError as error:
            raise KernelError(f"Temporary files cannot be written: {error.strerror}.") from None
        try:
            self._child = subprocess.Popen(
                address.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._questions.env},
                start_new_session=True,  # so that it cannot ask on the screen's terminal, and no Ctrl+C reaches it
                bufsize=0,
            )
        except OSError as error:
            self._questions.close()
            raise KernelError(f"{address.argv[0]} cannot be started: {error.strerror}.") from None
        self._files = [
            file
            for file in (self._child.stdin, self._child.stdout, self._child.stderr)
            if file is not None
        ]
        self.stdin, self.stdout, self.stderr = (file.fileno() for file in self._files)
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)
        try:
            self.received = self._connect(asked)
        except BaseException:
            self.close()
            raise
        finally:
            self._questions.close()

    def take(self) -> bytes:
        """Return what has come after the greeting and is not read yet."""
        data, self._buffer = self._buffer, b""
        return data

    def read_stderr(self) -> bool:
        """Keep what the command says; False at its end."""
        try:
            data = os.read(self.stderr, LINK_PIECE)
        except BlockingIOError:
            return True
        self._said = (self._said + data.decode(errors="replace"))[-_SAID:]
        return bool(data)

    @property
    def said(self) -> str:
        """The last line that the command has said on stderr, without a full stop."""
        lines = self._said.split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "").rstrip(".")

    def exchange(self, data: bytes) -> bytes:
        """Send something, and return what comes next. Raises `KernelError` if nothing does."""
        deadline = time.monotonic() + CONNECT_TIMEOUT
        self._write(data, deadline)
        return self._read(deadline)

    def finish(self, seconds: float) -> None:
        """Let the command carry what was written, and end by itself."""
        self._files[0].close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)

    def close(self) -> None:
        """End the command, and what it has started here."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()

    def _connect(self, asked: Mapping[str, Any]) -> int:
        files = bundle()
        deadline = time.monotonic() + CONNECT_TIMEOUT
        # Said before it is asked for: each round trip counts on a slow wire.
        with contextlib.suppress(KernelError):  # it has ended: what it said before tells why
            self._write(
                json.dumps({"digest": files.digest, "size": len(files.data)}).encode() + b"\n",
                deadline,
            )
        words = self._greeting(deadline)
        version = words[0] if words else "?"
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < (3, 9):
            raise KernelError(
                f"{self._address.label} has Python {version[:20]}; a kernel needs Python 3.9 or later."
            )
        if self._line(deadline) == b"send":
            self._write(files.data, deadline)
        self._write(json.dumps(asked).encode() + b"\n", deadline)
        try:
            answer = json.loads(self._line(deadline))
            if "error" in answer:
                raise KernelGone(
                    f"{self._address.label} was reached, but {str(answer['error'])[:200]}."
                )
            if "taken" in answer:
                raise KernelClaimed(
                    f"The kernel on {self._address.label} is now open in another terminal."
                )
            self.answer: dict[str, Any] = dict(answer)
            return int(answer["received"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise KernelError(f"{self._address.label} does not respond like a kernel.") from None

    def _greeting(self, deadline: float) -> list[str]:
        """Read up to the loader's line, past whatever the way there prints."""
        read = 0
        while True:
            line = self._line(deadline)
            read += len(line) + 1
            if line.startswith(MAGIC.encode() + b" "):
                return line.decode(errors="replace").split()[1:]
            if read > _BANNER:
                raise KernelError(
                    f"{self._address.label} prints something, but does not run Python."
                )

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            data = self._read(deadline)
            if len(self._buffer) > _BANNER:
                raise KernelError(self._failure())
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.rstrip(b"\r")

    def _read(self, deadline: float) -> bytes:
        """Return what comes next. Raises `KernelError` if nothing does."""
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
        return f"{self._address.label} did not start a kernel{f': {self.said[:300]}' if self.said else ': the command has ended'}."

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
        while True:
            if self._given_up.is_set():
                raise KernelError(f"{self._address.label} was not waited for.")
            left = deadline - time.monotonic()
            if left <= 0 and self._questions.waits:
                left = 1.0
            if left <= 0:
                raise KernelError(
                    f"{self._address.label} has not answered for {CONNECT_TIMEOUT:.0f} s{f' ({self.said[:200]})' if self.said else ''}."
                )
            ready = dict(poll.poll(min(left, _LOOK) * 1000))
            if self.stderr in ready and not self.read_stderr():
                poll.unregister(self.stderr)
            if descriptor in ready:
                return


def clean_up(address: Address, ask: Ask) -> tuple[int, list[str]]:
    """Remove what was left on another machine; returns how many kernels are there, which prevent
    it, and the folders removed. Raises `KernelError`."""
    transport = Transport(address, {"clean": True}, ask)
    transport.close()
    try:
        return int(transport.answer["kernels"]), [
            str(folder)[:1000] for folder in transport.answer["removed"]
        ]
    except (KeyError, TypeError, ValueError):
        raise KernelError(f"{address.label} did not report what it removed.") from None
