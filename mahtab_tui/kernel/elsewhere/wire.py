"""A kernel process elsewhere as if it were here: its connection, its output and its end, while wires come and go."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import chain, repeat

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.elsewhere.address import Address
from mahtab_tui.kernel.elsewhere.transport import NotThere, Transport
from mahtab_tui.kernel.launch import BOOTSTRAP, Wire, WireState
from mahtab_tui.kernel.worker.far.link import END, EXITED, FRAMES, OUTPUT, PIECE, SIGNAL, Link, LinkError
from mahtab_tui.kernel.worker.frames import TOKEN_SIZE

PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Seconds before each further try to connect again; the last one from then on."""

SILENT = 20.0
"""Seconds without a word, after which a wire is given up: the station says something every 5 s."""

LAST_TRIES = 3
"""Tries to connect again after nobody waits for the kernel any more, so that it hears that it was killed."""

LAST_WORDS = 1.0
"""Seconds that the command may take to carry the last words and to end."""

_BEAT = 5.0
_HELD = 8 * 2**20
"""Bytes that the station has not confirmed, from which on no more are taken from the session."""


class FarProcess:
    """A kernel process elsewhere: the `launch.Process` of it. One thread carries everything over the wire."""

    has_our_clock = False
    held = None

    def __init__(self, address: Address, python: str, cwd: str, env: Mapping[str, str], keep: float, wire: Wire) -> None:
        """Connect, and start the kernel there. Raises `KernelError`.

        python, cwd: empty for those that the command leads to. env: variables that it gets. keep: seconds that it is kept without a wire while
        no cell runs. wire: told whether there is one.
        """
        self._address = address
        self._wire = wire
        self.token = os.urandom(TOKEN_SIZE)
        self._asked = {"session": secrets.token_hex(8), "token": secrets.token_hex(16)}
        self._start = {
            "python": python,
            "cwd": cwd,
            "env": dict(env),
            "keep": keep,
            "bootstrap": BOOTSTRAP,
            "kernel_token": self.token.hex(),
            "token_size": TOKEN_SIZE,
        }
        self._link = Link()
        self._code: Future[int] = Future()
        self._exited: int | None = None
        """The kernel's exit code, when the station has said it."""
        self._transport = Transport(address, {**self._asked, "received": 0, "start": self._start}, wire.ask)
        self.channel, self._inner = socket.socketpair()
        self.output, self._printed = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        self._signals: list[int] = []
        self._connected = True
        self._thread = threading.Thread(target=self._live, name="mahtab-wire", daemon=True)
        self._thread.start()

    def signal(self, number: int) -> None:
        """Send a signal to the kernel and its children; later, if there is no wire now. A kernel that is killed without a wire counts as ended."""
        self._signals.append(number)
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"s")
        if number == signal.SIGKILL and not self._connected:
            self._ended(-number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the kernel's end; returns its exit code. Raises `subprocess.TimeoutExpired`."""
        try:
            code = self._code.result(timeout)
        except FutureTimeout:
            raise subprocess.TimeoutExpired(self._address.label, timeout or 0.0) from None
        if self._exited is not None:
            self._thread.join(LAST_WORDS)
        return code

    # The thread.

    def _live(self) -> None:
        transport: Transport | None = self._transport
        try:
            while transport is not None:
                why = self._carry(transport)
                transport.close()
                transport = None if self._exited is not None else self._connect_again(why)
        except NotThere as error:
            self._say(f"\n{error}\n".encode())
        finally:
            self._ended(-signal.SIGKILL if self._exited is None else self._exited)
            for descriptor in (self._printed, self._wake_read, self._wake_write):
                os.close(descriptor)
            self._inner.close()

    def _ended(self, code: int) -> None:
        with contextlib.suppress(InvalidStateError):  # it counts as ended already
            self._code.set_result(code)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)

    def _connect_again(self, why: str) -> Transport | None:
        """Try until it succeeds; None once nobody waits for the kernel any more. Raises `NotThere`."""
        self._connected = False
        pauses = chain(PAUSES, repeat(PAUSES[-1]))
        last_tries = LAST_TRIES
        while last_tries:
            last_tries -= self._code.done()
            pause = next(pauses)
            self._wire.changed(WireState(False, time.time() + pause, why))
            time.sleep(pause)
            try:
                transport = Transport(self._address, {**self._asked, "received": self._link.received}, self._wire.ask)
            except NotThere:
                raise
            except KernelError as error:
                why = str(error)
                continue
            self._connected = True
            self._wire.changed(WireState(True))
            return transport
        return None

    def _carry(self, transport: Transport) -> str:
        """Carry everything over one wire until it breaks; returns why it did."""
        link = self._link
        try:
            link.connect(transport.received)
            self._take(transport.take())
        except LinkError as error:
            return str(error)
        heard = beat = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(transport.stdout, selectors.EVENT_READ)
            selector.register(transport.stderr, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            selector.register(self._inner, selectors.EVENT_READ)
            writing = False
            while self._exited is None:
                while self._signals:
                    link.send(SIGNAL, str(self._signals.pop(0)).encode())
                if bool(link.outgoing) != writing:
                    writing = not writing
                    (selector.register(transport.stdin, selectors.EVENT_WRITE) if writing else selector.unregister(transport.stdin))
                for key, _ in selector.select(_BEAT):
                    try:
                        if key.fd == transport.stdout:
                            data = os.read(transport.stdout, PIECE)
                            if not data:
                                return transport.said or "the connection was closed"
                            heard = time.monotonic()
                            self._take(data)
                        elif key.fd == transport.stderr:
                            if not transport.read_stderr():
                                selector.unregister(transport.stderr)
                        elif key.fd == transport.stdin:
                            del link.outgoing[: os.write(transport.stdin, link.outgoing[:PIECE])]
                        elif key.fd == self._wake_read:
                            os.read(self._wake_read, PIECE)
                        elif link.waiting < _HELD and not self._forward():
                            selector.unregister(self._inner)
                    except BlockingIOError:
                        continue
                    except (OSError, LinkError) as error:
                        return str(error)
                now = time.monotonic()
                if now - heard > SILENT:
                    return f"nothing was heard for {SILENT:.0f} s"
                if now - beat > _BEAT:
                    beat = now
                    link.alive()
        with contextlib.suppress(OSError):  # that its end is known here; if this is lost, the station leaves later
            os.write(transport.stdin, link.outgoing)
        transport.finish(LAST_WORDS)
        return ""

    def _forward(self) -> bool:
        """Send what the session says to the kernel; False when it says nothing more."""
        data = self._inner.recv(PIECE)
        self._link.send(FRAMES if data else END, data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        """Hand on what has come, in order. Raises `LinkError`, `OSError`."""
        for message in self._link.feed(data):
            if message.kind == OUTPUT:
                self._say(message.data)
            elif message.kind == FRAMES:
                self._inner.sendall(message.data)
            elif message.kind == EXITED and message.data.lstrip(b"-").isdigit():
                self._exited = int(message.data)
            else:
                raise LinkError("the other machine says something that only the host may say")

    def _say(self, data: bytes) -> None:
        view = memoryview(data)
        with contextlib.suppress(OSError):  # nobody reads: the session has ended
            while view:
                view = view[os.write(self._printed, view) :]
