"""The kernel's side of its holder: decides how long the kernel waits without a host."""

from __future__ import annotations

import mmap
import os
import socket
import time
from typing import TYPE_CHECKING, Any, Protocol

from .backlog import EventBacklog
from .descriptors import hide_descriptor
from .frames import Frame
from .holder import run_holder
from .holder_protocol import (
    ATTACH,
    HOST_AWAY,
    HOST_BACK,
    SHARED_STATE_BYTES,
    HolderSettings,
    SharedState,
    StationSettings,
)
from .spool import Spool

if TYPE_CHECKING:
    from .channel import Channel

ABANDONED_IDLE_LIMIT_S = 3600.0
"""Seconds for which an idle kernel waits, unless it was left on purpose."""
INTERRUPT_TIMEOUT_S = 30.0
"""Seconds from the interrupt of an abandoned cell to the end of its kernel."""


class HeldKernel(Protocol):
    """What the client needs of its kernel, `worker.Worker`."""

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


class _Absence:
    """A time without a host. All times are on the clock of `time.monotonic`."""

    def __init__(self, since: float) -> None:
        """Begin.

        Args:
            since: When the host went away.
        """
        self.since = since
        self.idle_since: float | None = None
        """When the last cell ended; None while one runs."""
        self.interrupted_at: float | None = None
        """When a cell was interrupted because its host has been away for too long; None if none was."""


class HolderClient:
    """The kernel's side: decides how long it waits without a host. Used by the control thread."""

    worker: HeldKernel

    def __init__(
        self,
        control: int,
        settings: HolderSettings | StationSettings,
        page: mmap.mmap,
    ) -> None:
        """Connect to the holder; the kernel sets `worker` before anything is read.

        Args:
            control: The descriptor of a socket that leads to the holder.
            settings: What the host or the station asked for.
            page: The memory that holder and kernel share.
        """
        spool = Spool(hide_descriptor(settings.output_pipe), hide_descriptor(settings.spool))
        self.backlog = EventBacklog(spool, SharedState(page))
        self.is_ending = False
        """Whether the host wants the kernel to end with it."""
        self.on_purpose = False
        """Whether the host left the kernel on purpose."""
        self._control = socket.socket(fileno=hide_descriptor(control))
        self._max_absence_s = settings.max_absence_hours * 3600
        self._absence: _Absence | None = None
        """Since when there is no host; None if there is one."""
        # In a forked child, because the holder must notice the kernel's end.
        os.register_at_fork(after_in_child=self._control.close)

    @property
    def fd(self) -> int:
        """The descriptor of the socket to the holder; -1 if the holder has ended."""
        return self._control.fileno()

    def has_expired(self) -> bool:
        """Return whether the kernel must end. Called about once a second while there is no host.

        A cell whose screen is gone for too long is interrupted first.
        """
        if not self.worker.channel.detached:
            self._absence = None
            return False
        now = time.monotonic()
        if self._absence is None:
            self._absence = _Absence(now)
        if self.worker.is_busy():
            self._absence.idle_since = None
            return self._has_cell_expired(self._absence, now)
        if self._absence.idle_since is None:
            self._absence.idle_since = now
        return self._has_idle_expired(self._absence, now - self._absence.idle_since)

    def _has_idle_expired(self, absence: _Absence, idle_s: float) -> bool:
        """Return whether an idle kernel must end."""
        if absence.interrupted_at is not None:
            return True
        if self.on_purpose:
            return idle_s >= self._max_absence_s
        return idle_s >= min(self._max_absence_s, ABANDONED_IDLE_LIMIT_S)

    def _has_cell_expired(self, absence: _Absence, now: float) -> bool:
        """Interrupt the cell if its host has been away for too long; return whether that did not
        help."""
        if self.on_purpose or now - absence.since < self._max_absence_s:
            return False
        if absence.interrupted_at is None:
            absence.interrupted_at = now
            self.worker.interrupt_abandoned_cell()
        return now - absence.interrupted_at >= INTERRUPT_TIMEOUT_S

    def on_message(self) -> bool:
        """Handle a word from the holder; return whether the kernel goes on."""
        channel = self.worker.channel
        try:
            word, descriptors, *_ = socket.recv_fds(self._control, 1, 1)
        except OSError:  # code has closed the descriptor, whose number may be another file's now
            self._control.detach()
            return not channel.detached
        if word == ATTACH and descriptors:
            self.on_purpose = False
            channel.attach_host(descriptors[0], self.worker.hello())
            self.auto_answer()
            return True
        if word == HOST_AWAY:
            channel.link_down = True
            self.auto_answer()
            return True
        if word == HOST_BACK:
            channel.link_down = False
            return True
        if not word:  # the holder has ended
            self._control.close()
            return not channel.detached
        return False  # the word is `END_KERNEL`

    def on_host_closed(self) -> bool:
        """Save variables, and go on without a host if there is something to wait for, and a holder to
        which another host can come; return whether the kernel goes on."""
        if self.is_ending or not self.backlog.state.has_run:
            return False
        self.worker.channel.detached = True
        self.auto_answer()
        self.worker.on_host_left()
        return self.fd >= 0

    def auto_answer(self) -> None:
        """Answer the calls that need no host, such as displays, which are kept for it."""
        for number in self.backlog.auto_answered_calls():
            self.worker.on_message({"op": "answer", "id": number, "value": None})


def connect(settings: dict[str, Any]) -> HolderClient | None:
    """Connect the kernel to what keeps it, before it starts a thread.

    Args:
        settings: The fields of `StationSettings` or, for a holder that must be started, of
            `HolderSettings`.

    Returns:
        The kernel's side; None if no holder can be started.
    """
    if "control" in settings:
        return _connect_to_station(StationSettings(**settings))
    return _start_holder(HolderSettings(**settings))


def _connect_to_station(settings: StationSettings) -> HolderClient:
    page = mmap.mmap(settings.page, SHARED_STATE_BYTES)
    os.close(settings.page)
    return HolderClient(settings.control, settings, page)


def _start_holder(settings: HolderSettings) -> HolderClient | None:
    page = mmap.mmap(-1, SHARED_STATE_BYTES)
    kernel_pid = os.getpid()
    kernel_end, holder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        child_pid = os.fork()
    except OSError:
        return None
    if child_pid == 0:
        try:
            kernel_end.close()
            if os.fork():  # not a child of the kernel, whose code may wait for children
                os._exit(0)
            run_holder(kernel_pid, settings, holder_end.detach(), SharedState(page))
        finally:
            os._exit(1)
    os.waitpid(child_pid, 0)
    holder_end.close()
    os.close(settings.listener)
    os.close(settings.lifeline)
    return HolderClient(kernel_end.detach(), settings, page)
