"""The kernel's connection to the holder beside it."""

from __future__ import annotations

import _socket
import mmap
import os
from typing import Any, NamedTuple

from ..stdlib import late_import
from .event_backlog import PAGE, EventBacklog, State
from .spool import Spool

ATTACH, END, AWAY, BACK = b"a", b"e", b"w", b"b"
"""Messages of the holder: a host attaches, whose end of the connection comes with it; the kernel
shall end; no wire leads to the host, or one does again."""


class HolderSettings(NamedTuple):
    """Messages of the host about the holder."""

    listener: int
    """The socket on which hosts are awaited."""
    pipe: int
    """The read end of the pipe for fd 1 and 2."""
    spool: int
    lifeline: int
    """A socket whose other end the host has; it is closed when the host ends."""
    path: str
    """The socket's file. The key's file is beside it."""
    hours: float
    """How long an idle kernel waits for a host."""


class StationSettings(NamedTuple):
    """Messages of a station, which is the holder of a kernel elsewhere."""

    control: int
    """The socket over which it speaks."""
    pipe: int
    spool: int
    page: int
    """The file of the memory that both have."""
    hours: float


class Beside:
    """The holder, as the kernel sees it, and what both know."""

    def __init__(self, control: Any, story: EventBacklog, seconds: float) -> None:
        self.story = story
        self.seconds = seconds
        """How long an idle kernel waits for a host."""
        self._control = control
        self.fd = control.fileno()
        os.register_at_fork(after_in_child=self._cut)

    def heard(self) -> tuple[bytes, int]:
        """Return what the holder says, and the descriptor that comes with it, or -1; nothing once
        the holder is gone."""
        socket = late_import("socket")
        word, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        return word, descriptors[0] if descriptors else -1

    def lost(self) -> None:
        """The holder is gone."""
        self._control.close()
        self.fd = -1

    def _cut(self) -> None:
        """In a forked child: the holder must see the kernel's end."""
        if self.fd >= 0:
            self.lost()


def begin_holder(settings: HolderSettings, hide: Any) -> Beside | None:
    """Fork the holder; None if that cannot be done. hide: moves a descriptor to where code does not
    hit it."""
    page = mmap.mmap(-1, PAGE)
    ours, theirs = _socket.socketpair(
        _socket.AF_UNIX, _socket.SOCK_SEQPACKET
    )  # importing the whole module takes 10 ms
    kernel = os.getpid()
    try:
        child = os.fork()
    except OSError:
        return None
    if child == 0:
        try:
            ours.close()
            if os.fork():  # so that it is no child of the kernel: code may wait for its children
                os._exit(0)
            late_import(f"{__package__}.holder").hold(
                kernel, settings, theirs.detach(), State(page)
            )
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    theirs.close()
    os.close(settings.listener)
    os.close(settings.lifeline)
    control = _socket.socket(fileno=hide(ours.detach()))
    spool = Spool(hide(settings.pipe), hide(settings.spool))
    return Beside(control, EventBacklog(spool, State(page)), settings.hours * 3600)


def join_station(settings: StationSettings, hide: Any) -> Beside:
    """Let a station be the holder. hide: as for `begin_holder`."""
    page = mmap.mmap(settings.page, PAGE)
    os.close(settings.page)
    spool = Spool(hide(settings.pipe), hide(settings.spool))
    return Beside(
        _socket.socket(fileno=hide(settings.control)),
        EventBacklog(spool, State(page)),
        settings.hours * 3600,
    )
