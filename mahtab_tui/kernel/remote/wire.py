"""A kernel process elsewhere as if it were here: its connection, its output and its end, while
wires come and go."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import chain, repeat

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import DetachHandle, Wire
from mahtab_tui.kernel.remote.address import parse
from mahtab_tui.kernel.remote.output import FarOutput
from mahtab_tui.kernel.remote.stations import Connected
from mahtab_tui.kernel.remote.transport import (
    LAST_WORDS,
    LONGEST_LAST_WORDS,
    KernelClaimed,
    KernelGone,
    Transport,
)
from mahtab_tui.kernel.worker.station.link import (
    AT,
    END,
    EXITED,
    FRAMES,
    LINK_PIECE,
    OUTPUT,
    SIGNAL,
    STORED,
    Link,
    LinkError,
)

PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Seconds before each further try to connect again; the last one from then on."""

SILENT = 20.0
"""Seconds without a word, after which a wire is given up: the station says something every 5 s."""

LAST_TRIES = 3
"""Tries to connect again after nobody waits for the kernel any more, so that it hears that it was
killed."""

_BEAT = 5.0
_HELD = 8 * 2**20
"""Bytes that the station has not confirmed, from which on no more are taken from the session."""


class RemoteProcess:
    """A kernel process elsewhere: the `launch.Process` of it, and the `launch.Held`. One thread
    carries everything over the wire."""

    has_our_clock = False

    def __init__(self, connected: Connected, wire: Wire) -> None:
        self._address = parse(connected.station.address)
        self._asked = connected.asked
        self._noted = connected.noted
        self._wire = wire
        self.token, self.waited, self.ready = connected.token, connected.waited, connected.ready
        self._link = Link()
        self._code: Future[int] = Future()
        self._exited: int | None = None
        """The kernel's exit code, when the station has said it."""
        self.channel, self._inner = socket.socketpair()
        self.lifeline, self._taken = socket.socketpair()
        self._wake, self._woken = socket.socketpair()
        for each in (self._wake, self._woken):
            each.setblocking(False)
        self.reader = FarOutput(lambda offset: self._order(STORED, str(offset).encode()))
        self.output = self.reader.pipe
        self._orders: deque[tuple[bytes, bytes]] = deque()
        """Messages for the station beside frames."""
        self._leaving = threading.Event()
        """This host lets the kernel go on without it."""
        self._told_all = False
        """The session says nothing more, and the station was told so."""
        self._connected = True
        self._killed = False
        self._last_tries = LAST_TRIES
        self._thread = threading.Thread(
            target=self._live, args=(connected.transport,), name="mahtab-wire", daemon=True
        )
        self._thread.start()

    @property
    def held(self) -> DetachHandle | None:
        """This process, if another host can find it."""
        return None if self._noted is None else self

    def signal(self, number: int) -> None:
        """Send a signal to the kernel and its children; later, if there is no wire now.

        A kernel that is killed counts as ended if there is no wire, once the wire is lost, or soon
        if nobody waits for it.
        """
        self._order(SIGNAL, str(number).encode())
        if number == signal.SIGKILL:
            self._killed = True
            if not self._connected:
                self._ended(-number)
            elif self._wire.given_up.is_set():
                waiting = threading.Timer(LAST_WORDS, self._ended, (-number,))
                waiting.daemon = True
                waiting.start()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the kernel's end; returns its exit code. Raises `subprocess.TimeoutExpired`."""
        try:
            code = self._code.result(timeout)
        except FutureTimeout:
            raise subprocess.TimeoutExpired(self._address.label, timeout or 0.0) from None
        if self._exited is not None:
            self._thread.join(LAST_WORDS)
        return code

    def leave(self) -> None:
        """Let the kernel go on there. It is told so, if there is a wire."""
        self._leaving.set()
        self._order()
        self._thread.join(LAST_WORDS)
        self.lifeline.close()

    def ended(self) -> None:
        """The kernel has ended, or counts as ended; another host may still find it if its end is
        not known."""
        if self._noted is not None and self._exited is not None:
            self._noted.forget()
        self.lifeline.close()

    def _order(self, kind: bytes = b"", data: bytes = b"") -> None:
        if kind:
            self._orders.append((kind, data))
        with contextlib.suppress(OSError):  # the thread has ended, or has enough to wake it
            self._wake.send(b"o")

    # The thread.

    def _live(self, first: Transport) -> None:
        transport: Transport | None = first
        try:
            while transport is not None:
                why = self._carry(transport)
                transport.close()
                transport = None if self._exited is not None else self._connect_again(why)
        except KernelClaimed:
            self._taken.send(b"t")
        except KernelGone as error:
            self.reader.write(f"\n{error}\n".encode())
            if self._noted is not None:
                self._noted.forget()
        finally:
            self._ended(-signal.SIGKILL if self._exited is None else self._exited)
            self.reader.end()
            for each in (self._inner, self._taken, self._wake, self._woken):
                each.close()

    def _ended(self, code: int) -> None:
        with contextlib.suppress(InvalidStateError):  # it counts as ended already
            self._code.set_result(code)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)

    def _connect_again(self, why: str) -> Transport | None:
        """Try until it succeeds; None once nobody waits for the kernel any more. Raises
        `KernelGone`, `KernelClaimed`."""
        self._connected = False
        if self._killed:
            self._ended(-signal.SIGKILL)
        pauses = chain(PAUSES, repeat(PAUSES[-1]))
        while self._last_tries and not self._leaving.is_set():
            self._last_tries -= self._code.done()
            pause = next(pauses)
            self._wire.lost(time.time() + pause, why)
            if self._leaving.wait(pause):
                return None
            try:
                transport = Transport(
                    self._address,
                    {**self._asked, "received": self._link.received},
                    self._wire.ask,
                    self._leaving,
                )
            except (KernelGone, KernelClaimed):
                raise
            except KernelError as error:
                why = str(error)
                continue
            self._connected = True
            self._wire.back()
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
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(self._inner, selectors.EVENT_READ)
            writing = False
            while self._exited is None and not (
                self._told_all and self._leaving.is_set() and link.settled
            ):
                while self._orders:
                    link.send(*self._orders.popleft())
                if bool(link.outgoing) != writing:
                    writing = not writing
                    (
                        selector.register(transport.stdin, selectors.EVENT_WRITE)
                        if writing
                        else selector.unregister(transport.stdin)
                    )
                for key, _ in selector.select(_BEAT):
                    try:
                        if key.fd == transport.stdout:
                            data = os.read(transport.stdout, LINK_PIECE)
                            if not data:
                                return transport.said or "the connection was closed"
                            heard = time.monotonic()
                            self._take(data)
                        elif key.fd == transport.stderr:
                            if not transport.read_stderr():
                                selector.unregister(transport.stderr)
                        elif key.fd == transport.stdin:
                            del link.outgoing[
                                : os.write(transport.stdin, link.outgoing[:LINK_PIECE])
                            ]
                        elif key.fileobj is self._woken:
                            self._woken.recv(LINK_PIECE)
                        elif link.waiting < _HELD and not self._forward():
                            selector.unregister(self._inner)
                    except BlockingIOError:
                        continue
                    except (OSError, LinkError) as error:
                        return str(error)
                now = time.monotonic()
                if now - heard > SILENT:
                    return f"nothing arrived for {SILENT:.0f} s"
                if now - beat > _BEAT:
                    beat = now
                    link.alive()
        with contextlib.suppress(
            OSError
        ):  # that its end is known here; if this is lost, the station leaves later
            os.write(transport.stdin, link.outgoing)
        transport.finish(LONGEST_LAST_WORDS)
        return ""

    def _forward(self) -> bool:
        """Send what the session says to the kernel; False when it says nothing more."""
        data = self._inner.recv(LINK_PIECE)
        self._link.send(FRAMES if data else END, data)
        self._told_all = not data
        return bool(data)

    def _take(self, data: bytes) -> None:
        """Hand on what has come, in order. Raises `LinkError`, `OSError`."""
        for message in self._link.feed(data):
            if message.kind == OUTPUT:
                self.reader.write(message.data)
            elif message.kind == AT:
                self.reader.skip_to(_number(message.data))
            elif message.kind == FRAMES:
                with contextlib.suppress(OSError):  # nobody reads: this host leaves
                    self._inner.sendall(message.data)
            elif message.kind == EXITED:
                self._exited = _number(message.data)
            else:
                raise LinkError("the other machine sent something that only the host may send")


def _number(data: bytes) -> int:
    """Raises `LinkError`."""
    if len(data) > 20 or not data.removeprefix(b"-").isdigit():
        raise LinkError("the other machine sent something other than a number")
    return int(data)
