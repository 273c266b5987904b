"""The connection to another machine: a command whose stdin and stdout lead there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.local_process import MIN_VERSION
from mahtab_tui.kernel.remote.address import Address
from mahtab_tui.kernel.remote.askpass import Ask, AskpassServer
from mahtab_tui.kernel.remote.bundle import bundle
from mahtab_tui.worker.link.station_link import LINK_PIECE_BYTES, MAGIC

CONNECT_TIMEOUT_S = 60.0
"""Seconds for an answer: a host may wake up, a container may be downloaded."""
FINISH_TIMEOUT_S = 1.0
"""Seconds for a connection to end, if nothing depends on it."""
MAX_FINISH_TIMEOUT_S = 10.0
"""Seconds for a connection to end, so that the other machine learns that we know of an end."""

_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")
"""The version of Python on the other machine."""
_MAX_VERSION_CHARS = 20
"""Characters of what the other machine calls its version, in a message."""
_MAX_ERROR_CHARS = 4_000
"""Characters that are kept of the command's errors."""
_MAX_REASON_CHARS = 300
"""Characters of what the command printed last, in a message."""
_MAX_REFUSAL_CHARS = 200
"""Characters of the other machine's words in a message."""
_MAX_BANNER_BYTES = 2**20
"""Bytes that may arrive before Python answers."""
_MAX_BANNER_LINES = 3
"""Lines that are kept of what is printed before Python answers."""
_POLL_INTERVAL_S = 0.2
"""Seconds between two looks at whether anybody still waits."""
_ENDED_GRACE_S = 2.0
"""Seconds without an answer after the command has ended; what it started may hold its output
open."""
_LAST_ERRORS_S = 1.0
"""Seconds for the errors of a command that has failed."""


class KernelGone(KernelError):
    """The other machine was reached, but the kernel no longer exists."""


class KernelClaimed(KernelError):
    """Another host has attached to the kernel."""


def _start_command(address: Address, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the command that leads to a machine. Raises `OSError`.

    Args:
        address: The machine.
        variables: Environment variables besides those of this process.
    """
    return subprocess.Popen(
        address.argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
        # It must not ask on the screen's terminal, nor get its Ctrl+C.
        start_new_session=True,
        bufsize=0,
    )


def open_transport(
    address: Address,
    request: Mapping[str, Any],
    ask: Ask,
    given_up: threading.Event | None = None,
) -> Transport:
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
    try:
        questions = AskpassServer(ask)
    except OSError as error:
        reason = error.strerror or error
        raise KernelError(f"Temporary files cannot be written: {reason}.") from None
    try:
        command = _start_command(address, questions.env)
    except OSError as error:
        questions.close()
        raise KernelError(f"{address.argv[0]} cannot be started: {error.strerror}.") from None

    transport = Transport(address.label, command, questions, given_up or threading.Event())
    try:
        transport.connect(request)
    except BaseException:
        transport.close()
        raise
    finally:
        questions.close()
    return transport


class Transport:
    """A running command whose stdin and stdout lead to the station on another machine."""

    def __init__(
        self,
        label: str,
        command: subprocess.Popen[bytes],
        questions: AskpassServer,
        given_up: threading.Event,
    ) -> None:
        """
        Args:
            label: The name of the machine, for messages.
            command: The command, with pipes for all its streams.
            questions: What the command asks the user.
            given_up: Set when nobody waits any more.
        """
        self._label = label
        self._command = command
        self._questions = questions
        self._given_up = given_up
        self._errors = ""
        """The end of what the command has printed to stderr."""
        self._banner: deque[str] = deque(maxlen=_MAX_BANNER_LINES)
        """What was printed before Python answered, by a shell or a wrapper."""
        self.buffered = b""
        """Data after the station's answer."""
        self.answer: dict[str, Any] = {}
        """The station's answer to the request."""
        self.received_number = 0
        """The number of the last message that the station has received."""
        files = (command.stdin, command.stdout, command.stderr)
        self._files = [file for file in files if file is not None]
        self.stdin, self.stdout, self.stderr = (file.fileno() for file in self._files)
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)

    def connect(self, request: Mapping[str, Any]) -> None:
        """Exchange the first lines with the loader and the station; see `open_transport`.

        Raises:
            KernelError: There is no such answer.
        """
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
        self._check_version(greeting[0] if greeting else "?")
        # The machine may have the files from an earlier connection.
        if self._read_line(deadline) == b"send":
            self._write(packed_files, deadline)
        self._write_line(request, deadline)
        self._take_answer(self._read_line(deadline))

    def _check_version(self, version: str) -> None:
        """Raise `KernelError` if the machine's Python is too old."""
        numbers = _VERSION.match(version)
        if numbers is None or tuple(map(int, numbers.groups())) < MIN_VERSION:
            raise KernelError(
                f"{self._label} has Python {version[:_MAX_VERSION_CHARS]};"
                f" a kernel needs Python {'.'.join(map(str, MIN_VERSION))} or later."
            )

    def _take_answer(self, line: bytes) -> None:
        """Take the station's answer to the request. Raises `KernelError`."""
        try:
            answer = json.loads(line)
            if "error" in answer:
                refusal = str(answer["error"])[:_MAX_REFUSAL_CHARS]
                raise KernelGone(f"{self._label} was reached, but {refusal}.")
            if "taken" in answer:
                raise KernelClaimed(f"The kernel on {self._label} is now open in another terminal.")
            self.answer = dict(answer)
            self.received_number = int(answer["received"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise KernelError(f"{self._label} does not respond like a kernel.") from None

    def read_stderr(self) -> bool:
        """Read what has arrived on stderr; return False at its end."""
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
            self._command.wait(timeout)

    def close(self) -> None:
        """Kill the command."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._command.pid, signal.SIGKILL)
        self._command.wait()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()

    def _read_greeting(self, deadline: float) -> list[str]:
        """Read the loader's first line, after what a shell may print, and return the words in it.

        Raises `KernelError`.
        """
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
        """Return the next line, without its end. Raises `KernelError`."""
        while b"\n" not in self.buffered:
            data = self._read(deadline)
            if len(self.buffered) > _MAX_BANNER_BYTES:
                raise KernelError(self._failure())
            self.buffered += data
        line, _, self.buffered = self.buffered.partition(b"\n")
        return line.rstrip(b"\r")

    def _read(self, deadline: float) -> bytes:
        """Return the next data. Raises `KernelError` when there is no more."""
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
        """Send data. Raises `KernelError`."""
        unwritten = memoryview(data)
        while unwritten:
            try:
                unwritten = unwritten[os.write(self.stdin, unwritten) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, self.stdin, deadline)
            except OSError:
                raise KernelError(self._failure()) from None

    def _wait(self, event: int, descriptor: int, deadline: float) -> None:
        """Wait until a descriptor is ready, and read errors meanwhile.

        Args:
            event: `select.POLLIN` or `select.POLLOUT`.
            descriptor: The descriptor to wait for.
            deadline: When to give up, as monotonic time.

        Raises:
            KernelError: The time is up, the command has ended, or nobody waits any more.
        """
        poll = select.poll()
        poll.register(descriptor, event)
        poll.register(self.stderr, select.POLLIN)
        ended_at: float | None = None
        while True:
            if self._given_up.is_set():
                raise KernelError(f"{self._label} was not waited for.")
            remaining_s = deadline - time.monotonic()
            # While the user types a password, the time does not run out.
            if remaining_s <= 0 and self._questions.is_asking:
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
            if self._command.poll() is not None:
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > _ENDED_GRACE_S:
                    raise KernelError(self._failure())
