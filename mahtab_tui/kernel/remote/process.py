"""A kernel's process on another machine, which stays connected."""

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
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.connection_state import ConnectionState
from mahtab_tui.kernel.process_parts import DetachHandle, Output
from mahtab_tui.kernel.remote.address import parse_address
from mahtab_tui.kernel.remote.attaching import ConnectedKernel
from mahtab_tui.kernel.remote.remote_output import RemoteOutput
from mahtab_tui.kernel.remote.transport import (
    FINISH_TIMEOUT_S,
    MAX_FINISH_TIMEOUT_S,
    KernelClaimed,
    KernelGone,
    Transport,
    open_transport,
)
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.station_link import (
    END,
    EXITED,
    FRAMES,
    LINK_PIECE_BYTES,
    OFFSET,
    OUTPUT,
    SIGNAL,
    STORED,
    Link,
    LinkError,
)

RECONNECT_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Seconds before each attempt to reconnect; the last pause repeats."""
MAX_SILENCE_S = 20.0
"""Seconds of silence after which a connection is given up; the station sends something every 5
s."""
HEARTBEAT_S = 5.0
"""Seconds between the signs of life that we send."""
LAST_TRIES = 3
"""Attempts to reconnect to a kernel whose end is already known."""
MAX_PENDING_BYTES = 8 * 2**20
"""Nothing more is taken from the session while this many bytes are unconfirmed."""
MAX_NUMBER_BYTES = 20
"""Bytes of an offset or an exit code, as decimal digits."""


class _Order(NamedTuple):
    """A message for the station."""

    kind: bytes
    data: bytes


class RemoteProcess:
    """Implements `launch.Process` and `launch.DetachHandle`.

    One thread handles the whole connection.
    """

    shares_clock = False

    def __init__(self, connected: ConnectedKernel, state: ConnectionState) -> None:
        """
        Args:
            connected: The kernel, and the connection to it.
            state: Is told when the connection is lost and when it is back.
        """
        self._address = parse_address(connected.station.address)
        self._request = connected.station.request(connected.host_id)
        self._note = connected.note
        self.detach_handle: DetachHandle | None = None if self._note is None else self
        self._connection_state = state
        self.token = connected.token
        self.was_reattached = connected.was_reattached
        self.ready = connected.ready
        self._link = Link()
        self._exit_code: Future[int] = Future()
        """The exit code that the session gets; it may be assumed."""
        self._reported_code: int | None = None
        """The exit code that the station has reported."""
        # Pairs of sockets: the other threads have the first one, the connection's thread the second.
        self.channel, self._inner_channel = socket.socketpair()
        self.lifeline, self._inner_lifeline = socket.socketpair()
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_sender.setblocking(False)
        self._wake_receiver.setblocking(False)
        self._output = RemoteOutput(lambda offset: self._order(STORED, str(offset).encode()))
        self.output = self._output.pipe
        self.reader: Output = self._output
        self._orders: deque[_Order] = deque()
        """Messages for the station."""
        self._leaving = threading.Event()
        """Set when the session leaves the kernel."""
        self._all_sent = False
        """Whether the session has closed its channel, and everything from it is passed on."""
        self._connected = True
        self._killed = False
        """Whether it was sent the signal that ends it for certain."""
        self._remaining_tries = LAST_TRIES
        self._thread = start_thread("mahtab-wire", self._run, connected.transport)

    def signal(self, number: int) -> None:
        """Send a signal, later if there is no connection.

        A killed kernel counts as ended once the connection is lost, or soon if nobody waits for it.
        """
        self._order(SIGNAL, str(number).encode())
        if number == signal.SIGKILL:
            self._killed = True
            if not self._connected:
                self._ended(-number)
            elif self._connection_state.given_up.is_set():
                timer = threading.Timer(FINISH_TIMEOUT_S, self._ended, (-number,))
                timer.daemon = True
                timer.start()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, waiting for it. Raises `subprocess.TimeoutExpired`."""
        try:
            exit_code = self._exit_code.result(timeout)
        except FutureTimeout:
            raise subprocess.TimeoutExpired(self._address.label, timeout or 0.0) from None
        if self._reported_code is not None:
            self._thread.join(FINISH_TIMEOUT_S)
        return exit_code

    def leave(self) -> None:
        """Leave the kernel running, once everything is sent to it."""
        self._leaving.set()
        self._order()
        self._thread.join(FINISH_TIMEOUT_S)
        self.lifeline.close()

    def ended(self) -> None:
        """Forget the kernel, because it has ended."""
        if self._note is not None and self._reported_code is not None:
            self._note.forget()
        self.lifeline.close()

    def _order(self, kind: bytes = b"", data: bytes = b"") -> None:
        """Let the connection's thread send a message, or only wake it."""
        if kind:
            self._orders.append(_Order(kind, data))
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"o")

    # The connection's thread

    def _run(self, first_transport: Transport) -> None:
        """Pass messages on, over one connection after the other, until the kernel ends or is
        left."""
        transport: Transport | None = first_transport
        try:
            while transport is not None:
                reason = self._carry(transport)
                transport.close()
                if self._reported_code is not None:
                    break
                transport = self._reconnect(reason)
        except KernelClaimed:
            self._inner_lifeline.send(b"t")
        except KernelGone as error:
            self._output.write(f"\n{error}\n".encode())
            if self._note is not None:
                self._note.forget()
        finally:
            exit_code = self._reported_code
            self._ended(-signal.SIGKILL if exit_code is None else exit_code)
            self._output.end()
            self._inner_channel.close()
            self._inner_lifeline.close()
            self._wake_sender.close()
            self._wake_receiver.close()

    def _ended(self, exit_code: int) -> None:
        """Let the session see that the process has ended, if it has not yet."""
        with contextlib.suppress(InvalidStateError):
            self._exit_code.set_result(exit_code)
        with contextlib.suppress(OSError):
            self._inner_channel.shutdown(socket.SHUT_WR)

    def _reconnect(self, reason: str) -> Transport | None:
        """Connect again, as often as necessary.

        Args:
            reason: Why the connection was lost.

        Returns:
            The new connection; None once the kernel is not needed any more.

        Raises:
            KernelGone: The kernel no longer exists.
            KernelClaimed: Another host has attached to it.
        """
        self._connected = False
        if self._killed:
            self._ended(-signal.SIGKILL)
        pauses = chain(RECONNECT_PAUSES_S, repeat(RECONNECT_PAUSES_S[-1]))
        while self._remaining_tries and not self._leaving.is_set():
            if self._exit_code.done():
                self._remaining_tries -= 1
            pause = next(pauses)
            self._connection_state.lost(time.time() + pause, reason)
            if self._leaving.wait(pause):
                return None
            request = {**self._request, "received": self._link.received_number}
            try:
                transport = open_transport(
                    self._address, request, self._connection_state.ask, self._leaving
                )
            except (KernelGone, KernelClaimed):
                raise
            except KernelError as error:
                reason = str(error)
                continue
            self._connected = True
            self._connection_state.back()
            return transport
        return None

    def _carry(self, transport: Transport) -> str:
        """Pass messages on in both directions until the connection or the kernel ends.

        Returns:
            Why the connection was lost; empty if it is not needed any more.
        """
        link = self._link
        try:
            link.connect(transport.received_number)
            self._receive(transport.buffered)
        except LinkError as error:
            return str(error)

        reason = self._exchange(transport)
        if reason:
            return reason
        # Tells the station that we know of the end; if this is lost, the station exits later.
        with contextlib.suppress(OSError):
            os.write(transport.stdin, link.outgoing)
        transport.finish(MAX_FINISH_TIMEOUT_S)
        return ""

    def _exchange(self, transport: Transport) -> str:
        """Send and receive until the connection is lost or not needed any more.

        Return why it was lost.
        """
        link = self._link
        last_received = time.monotonic()
        last_heartbeat = last_received
        with selectors.DefaultSelector() as selector:
            selector.register(transport.stdout, selectors.EVENT_READ)
            selector.register(transport.stderr, selectors.EVENT_READ)
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            selector.register(self._inner_channel, selectors.EVENT_READ)
            is_writing = False
            while not self._is_settled():
                while self._orders:
                    order = self._orders.popleft()
                    link.send(order.kind, order.data)
                is_writing = _watch_writing(selector, transport, link, is_writing=is_writing)

                for key, _ in selector.select(HEARTBEAT_S):
                    try:
                        if self._transfer(key, selector, transport):
                            last_received = time.monotonic()
                    except BlockingIOError:
                        continue
                    except (OSError, LinkError) as error:
                        return str(error) or type(error).__name__

                now = time.monotonic()
                if now - last_received > MAX_SILENCE_S:
                    return f"nothing arrived for {MAX_SILENCE_S:.0f} s"
                if now - last_heartbeat > HEARTBEAT_S:
                    last_heartbeat = now
                    link.send_heartbeat()
        return ""

    def _transfer(
        self,
        key: selectors.SelectorKey,
        selector: selectors.BaseSelector,
        transport: Transport,
    ) -> bool:
        """Read or write where a selector says that this is possible.

        Returns:
            Whether the station has sent something.

        Raises:
            OSError: The connection is lost.
            LinkError: It is lost, or the station does not keep to the protocol.
        """
        link = self._link
        if key.fd == transport.stdout:
            data = os.read(transport.stdout, LINK_PIECE_BYTES)
            if not data:
                raise LinkError(transport.errors or "the connection was closed")
            self._receive(data)
            return True
        if key.fd == transport.stderr:
            if not transport.read_stderr():
                selector.unregister(transport.stderr)
        elif key.fd == transport.stdin:
            written = os.write(transport.stdin, link.outgoing[:LINK_PIECE_BYTES])
            del link.outgoing[:written]
        elif key.fileobj is self._wake_receiver:
            self._wake_receiver.recv(LINK_PIECE_BYTES)
        elif link.unconfirmed_bytes < MAX_PENDING_BYTES:
            data = self._inner_channel.recv(LINK_PIECE_BYTES)
            link.send(FRAMES if data else END, data)
            if not data:
                self._all_sent = True
                selector.unregister(self._inner_channel)
        return False

    def _is_settled(self) -> bool:
        """Return whether the kernel has ended, or everything is sent to a kernel that is left."""
        if self._reported_code is not None:
            return True
        return self._all_sent and self._leaving.is_set() and self._link.is_settled

    def _receive(self, data: bytes) -> None:
        """Pass on what the station has sent. Raises `LinkError`."""
        for message in self._link.feed(data):
            if message.kind == OUTPUT:
                self._output.write(message.data)
            elif message.kind == OFFSET:
                self._output.skip_to(_parse_number(message.data))
            elif message.kind == FRAMES:
                with contextlib.suppress(OSError):
                    self._inner_channel.sendall(message.data)
            elif message.kind == EXITED:
                self._reported_code = _parse_number(message.data)
            else:
                raise LinkError("the other machine sent something that only the host may send")


def _watch_writing(
    selector: selectors.BaseSelector, transport: Transport, link: Link, *, is_writing: bool
) -> bool:
    """Watch the command's stdin only while there is something to write.

    Args:
        selector: Watches the connection.
        transport: The connection.
        link: Has what is to be written.
        is_writing: Whether the stdin is watched now.

    Returns:
        Whether it is watched from now on.
    """
    has_data = bool(link.outgoing)
    if has_data and not is_writing:
        selector.register(transport.stdin, selectors.EVENT_WRITE)
    elif is_writing and not has_data:
        selector.unregister(transport.stdin)
    return has_data


def _parse_number(data: bytes) -> int:
    """Return a number that the station has sent. Raises `LinkError`."""
    if len(data) > MAX_NUMBER_BYTES or not data.removeprefix(b"-").isdigit():
        raise LinkError("the other machine sent something other than a number")
    return int(data)
