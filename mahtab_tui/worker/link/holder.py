"""A small process that keeps a kernel alive when its screen is gone."""

from __future__ import annotations

import gc
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from _operator import _compare_digest
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, Protocol

from .frames import Frame, FrameReader, encode
from .spool import SHARED_STATE_BYTES, EventBacklog, SharedState, Spool

if TYPE_CHECKING:
    from .channel import Channel

# Words from the holder, or the station, to the kernel.
ATTACH = b"a"
"""Comes with the descriptor of a new host's connection."""
END = b"e"
AWAY = b"w"
"""The host cannot be reached now, or can again (`BACK`)."""
BACK = b"b"

CLAIMED = b"t"
"""The holder's word to a host: another host takes the kernel."""

KEY_SUFFIX = ".key"
"""Follows the path of the kernel's socket, in the name of the file with the key for visitors."""
LAST_OUTPUT_SUFFIX = ".last"
"""The same for the file with the output of the cell in which the kernel ended."""

ABANDONED_IDLE_LIMIT_S = 3600.0
"""Seconds for which an idle kernel waits, unless it was left on purpose."""
INTERRUPT_TIMEOUT_S = 30.0
"""Seconds from the interrupt of an abandoned cell to the end of its kernel."""
VISITOR_TIMEOUT_S = 5.0
"""Seconds for a connection to send everything, and for a kernel to end."""
RELEASE_TIMEOUT_S = 0.5
"""Seconds for a host to let go of a kernel that another host takes."""
MAX_VISITORS = 16
"""Connections at the same time; the oldest makes room."""
_MAX_MESSAGE_BYTES = 4096

Hide = Callable[[int], int]
"""Moves a descriptor to a number that cells do not hit, and returns the number."""


class HolderSettings(NamedTuple):
    """What a host gives to a kernel that may outlive it, as descriptors."""

    listener: int
    """A socket on which later hosts ask for the kernel."""
    pipe: int
    """The output of the kernel."""
    spool: int
    """The file to which output goes while there is no host."""
    lifeline: int
    """A socket whose other end the host closes when it ends."""
    path: str
    """The path of the listener."""
    hours: float
    """For which the kernel waits for a host."""


class StationSettings(NamedTuple):
    """The same from a station, which is a holder itself."""

    control: int
    """A socket for the words above."""
    pipe: int
    spool: int
    page: int
    """The memory of the `SharedState`."""
    hours: float


class HeldKernel(Protocol):
    """What the client needs of its kernel, `__main__.Worker`."""

    channel: Channel

    def hello(self) -> Frame:
        """Return the first frame for a host."""

    def is_busy(self) -> bool:
        """Return whether a cell runs, or variables are being saved."""

    def interrupt_abandoned_cell(self) -> None:
        """Interrupt the innermost cell that runs."""

    def on_host_left(self) -> None:
        """Save what is to be saved while no host asks for it."""

    def on_message(self, frame: Frame) -> None:
        """Handle a frame as if the host had sent it."""


class HolderClient:
    """The kernel's side: decides how long it waits without a host."""

    worker: HeldKernel

    def __init__(
        self,
        control: int,
        settings: HolderSettings | StationSettings,
        page: mmap.mmap,
        hide: Hide,
    ) -> None:
        spool = Spool(hide(settings.pipe), hide(settings.spool))
        self.backlog = EventBacklog(spool, SharedState(page))
        self.is_ending = False
        """Whether the host wants the kernel to end with it."""
        self.on_purpose = False
        """Whether the host left the kernel on purpose."""
        self._control = socket.socket(fileno=hide(control))
        self._seconds = settings.hours * 3600
        self._since: dict[str, float] = {}
        """When (`time.monotonic`) the kernel became "absent" (without a host), "idle" and
        "interrupted"."""
        # In a forked child, because the holder must notice the kernel's end.
        os.register_at_fork(after_in_child=self._control.close)

    @property
    def fd(self) -> int:
        return self._control.fileno()

    def has_expired(self) -> bool:
        """Return whether the kernel must end. A cell whose screen is gone for too long is interrupted
        first."""
        now = time.monotonic()
        since = self._since
        if not self.worker.channel.detached:
            since.clear()
            return False
        absent = now - since.setdefault("absent", now)
        if not self.worker.is_busy():
            if self.on_purpose:
                limit = self._seconds
            else:
                limit = min(self._seconds, ABANDONED_IDLE_LIMIT_S)
            return "interrupted" in since or now - since.setdefault("idle", now) >= limit
        since.pop("idle", None)
        if self.on_purpose or absent < self._seconds:
            return False
        if "interrupted" not in since:
            since["interrupted"] = now
            self.worker.interrupt_abandoned_cell()
        return now - since["interrupted"] >= INTERRUPT_TIMEOUT_S

    def on_message(self) -> bool:
        """Handle a word from the holder; return whether the kernel goes on."""
        word, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        channel = self.worker.channel
        if word == ATTACH and descriptors:
            self.on_purpose = False
            channel.attach_host(descriptors[0], self.worker.hello())
            self.auto_answer()
            return True
        if word in (AWAY, BACK):
            channel.link_down = word == AWAY
            if channel.link_down:
                self.auto_answer()
            return True
        if not word:
            self._control.close()
            return not channel.detached
        return False

    def on_host_closed(self) -> bool:
        """Go on without a host, if there is something to wait for; return whether."""
        if self.is_ending or self.fd < 0 or not self.backlog.state.has_run:
            return False
        self.worker.channel.detached = True
        self.auto_answer()
        self.worker.on_host_left()
        return True

    def auto_answer(self) -> None:
        """Answer the calls that need no host, such as displays, which are kept for it."""
        for number in self.backlog.auto_answered_calls():
            self.worker.on_message({"op": "answer", "id": number, "value": None})


def connect(settings: dict[str, Any], hide: Hide) -> HolderClient | None:
    """Use the station, or fork a holder; None if that is impossible."""
    if "control" in settings:
        station = StationSettings(**settings)
        page = mmap.mmap(station.page, SHARED_STATE_BYTES)
        os.close(station.page)
        return HolderClient(station.control, station, page, hide)
    holder_settings = HolderSettings(**settings)
    page = mmap.mmap(-1, SHARED_STATE_BYTES)
    kernel = os.getpid()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        child = os.fork()
    except OSError:
        return None
    if child == 0:
        try:
            ours.close()
            if os.fork():  # not a child of the kernel, whose code may wait for children
                os._exit(0)
            run_holder(kernel, holder_settings, theirs.detach(), SharedState(page))
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    theirs.close()
    os.close(holder_settings.listener)
    os.close(holder_settings.lifeline)
    return HolderClient(ours.detach(), holder_settings, page, hide)


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end is one of our user's."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return bool(struct.unpack("3i", peer)[1] == os.getuid())


def write_last_output(path: str, cell: int, output: Iterable[bytes]) -> None:
    """Save the output of the cell in which a kernel ended. path: the kernel's socket."""
    draft = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600), "wb") as file:
        file.write(b"%d\n" % cell)
        file.writelines(output)
    os.rename(draft, path + LAST_OUTPUT_SUFFIX)


class _Visitor:
    """A connection whose message is not complete."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.until = time.monotonic() + VISITOR_TIMEOUT_S
        self.reader = FrameReader(_MAX_MESSAGE_BYTES)
        self.channels: list[int] = []
        """Descriptors that it has sent: the end of a channel for the kernel."""

    def close(self) -> None:
        for channel in self.channels:
            os.close(channel)
        self.connection.close()


def run_holder(kernel: int, settings: HolderSettings, control: int, state: SharedState) -> NoReturn:
    """Become the holder of a kernel, in a process that was forked for it.

    Args:
        kernel: the process of the kernel.
        settings: from the host.
        control: the descriptor of a socket that leads to the kernel's `HolderClient`.
        state: shared with the kernel.
    """
    gc.enable()
    # Interrupts are for the kernel, but reach its whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(settings.path + KEY_SUFFIX, encoding="ascii") as file:
        key = file.read()
    null = os.open(os.devnull, os.O_RDWR)
    inherited_fds = [settings.listener, settings.pipe, settings.spool, settings.lifeline, control]
    for number in (0, 1, 2):
        os.dup2(null, number)
    low = 3
    for number in sorted(inherited_fds):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, 65536)
    os.chdir(os.path.dirname(settings.path))
    _Holder(kernel, settings, socket.socket(fileno=control), state, key).run()


class _Holder:
    """Waits for hosts, and takes the output while there is none."""

    def __init__(
        self,
        kernel: int,
        settings: HolderSettings,
        control: socket.socket,
        state: SharedState,
        key: str,
    ) -> None:
        self._kernel = kernel
        self._path = settings.path
        self._key = key
        self._control = control
        self._state = state
        self._spool = Spool(settings.pipe, settings.spool)
        self._listener = socket.socket(fileno=settings.listener)
        self._host: socket.socket | None = socket.socket(fileno=settings.lifeline)
        self._visitors: dict[int, _Visitor] = {}
        self._ends_at = 0.0
        """When (`time.monotonic`) the kernel is killed; 0 if it may live."""
        self._printing = True
        """Whether the kernel's output is open."""
        control.setblocking(False)
        self._listener.setblocking(False)

    def run(self) -> NoReturn:
        while True:
            poll = select.poll()
            output = [self._spool.pipe] if self._printing else []
            source = output if self._host is None else [self._host]
            for source_fd in (self._control, self._listener, *self._visitors, *source):
                poll.register(source_fd, select.POLLIN)
            ready = [number for number, _ in poll.poll(self._wait())]
            if self._control.fileno() in ready:
                self._end()
            self._serve(ready)

    def _wait(self) -> float | None:
        times = [visitor.until for visitor in self._visitors.values()]
        times += [self._ends_at] if self._ends_at else []
        if times:
            return max(0.0, 1000 * (min(times) - time.monotonic()))
        return None

    def _serve(self, ready: list[int]) -> None:
        now = time.monotonic()
        if self._ends_at and now >= self._ends_at:
            self._end()
        if self._host is not None and self._host.fileno() in ready and not _is_alive(self._host):
            self._host.close()
            self._host = None
        if self._host is None and self._spool.pipe in ready:
            with suppress(BlockingIOError):
                self._printing = self._spool.move() > 0
        for number, visitor in list(self._visitors.items()):
            if number in ready:
                self._receive(number)
            if now >= visitor.until:
                self._dismiss(number)
        if self._listener.fileno() in ready:
            self._accept()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if not is_same_user(connection):
            connection.close()
            return
        connection.setblocking(False)
        if len(self._visitors) >= MAX_VISITORS:
            self._dismiss(next(iter(self._visitors)))
        self._visitors[connection.fileno()] = _Visitor(connection)

    def _dismiss(self, number: int) -> None:
        if number in self._visitors:
            self._visitors.pop(number).close()

    def _receive(self, number: int) -> None:
        visitor = self._visitors[number]
        try:
            data, channels, _, _ = socket.recv_fds(visitor.connection, _MAX_MESSAGE_BYTES, 1)
            visitor.channels += channels
            frames = visitor.reader.feed(data)
            if frames:
                sent_key = str(frames[0].get("key"))
            else:
                sent_key = self._key
            is_authentic = _compare_digest(sent_key.encode(errors="replace"), self._key.encode())
            if not data or len(visitor.channels) > 1 or not is_authentic:
                self._dismiss(number)
            elif frames:
                self._answer(number, frames[0])
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._dismiss(number)

    def _answer(self, number: int, frame: Frame) -> None:
        visitor = self._visitors[number]
        has_host = self._host is not None
        reply = {"op": "kernel", **self._state.as_frame(), "pid": self._kernel, "host": has_host}
        may_attach = not has_host or frame.get("by_force") is True
        if frame["op"] == "attach" and visitor.channels and may_attach:
            self._attach(number, reply)
            return
        visitor.connection.send(encode(reply))
        self._dismiss(number)
        if frame["op"] == "stop" and not has_host:
            if reply["cell"]:
                self._end()
            self._ends_at = time.monotonic() + VISITOR_TIMEOUT_S
            self._control.send(END)

    def _attach(self, number: int, reply: Frame) -> None:
        visitor = self._visitors[number]
        if self._host is not None:
            with suppress(OSError):
                self._host.send(CLAIMED)
                self._host.shutdown(socket.SHUT_WR)
                self._host.settimeout(RELEASE_TIMEOUT_S)
                self._host.recv(1)
            self._host.close()
            self._host = None
        socket.send_fds(self._control, [ATTACH], visitor.channels)
        socket.send_fds(
            visitor.connection,
            [encode({**reply, "op": "attached"})],
            [self._spool.pipe, self._spool.file],
        )
        for channel in visitor.channels:
            os.close(channel)
        self._host = self._visitors.pop(number).connection

    def _end(self) -> NoReturn:
        for path in (self._path, self._path + KEY_SUFFIX):
            with suppress(OSError):
                os.unlink(path)
        if self._host is None:
            if self._state.cell:
                with suppress(OSError):
                    self._spool.move_all()
                    output = self._spool.iter_from(self._state.output_offset)
                    write_last_output(self._path, self._state.cell, output)
            os.killpg(0, signal.SIGKILL)
        sys.exit()


def _is_alive(host: socket.socket) -> bool:
    try:
        return bool(host.recv(64, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False
