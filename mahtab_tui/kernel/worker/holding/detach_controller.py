"""Decides whether the kernel goes on without a host, and lets the next host in. Used by the control
thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable

from .holder_client import ATTACH, AWAY, BACK, Beside

if TYPE_CHECKING:
    from ..control import Channel
    from ..frames import Frame


FORGOTTEN = 3600.0
"""Seconds for which an idle kernel waits at most, unless it was left on purpose."""

STOPPING = 30.0
"""Seconds for a cell that is interrupted to end."""


class Staying:
    """Handles hosts that leave and come, for the control thread."""

    def __init__(
        self,
        beside: Beside,
        channel: Channel,
        hello: Callable[[], Frame],
        busy: Callable[[], bool],
        answer_alone: Callable[[int], None],
        left: Callable[[], None],
        stop_cells: Callable[[], None],
    ) -> None:
        """hello: the kernel's first frame. busy: whether a cell runs. answer_alone: answers a call
        that needs no host.

        left: called when a host has left. stop_cells: interrupts what runs.
        """
        self.fd = beside.fd
        self.asked_to_end = False
        """The host has said that the kernel shall end."""
        self._beside = beside
        self._channel = channel
        self._hello = hello
        self._busy = busy
        self._answer_alone = answer_alone
        self._left = left
        self._stop_cells = stop_cells
        self.on_purpose = False
        """The user wants the kernel to go on: its cell may take as long as it likes."""
        self._absent_since: float | None = None
        self._idle_since: float | None = None
        self._stopping_since: float | None = None

    def wait(self) -> int | None:
        """Milliseconds until `over` may be true; None while there is a host."""
        return 1000 if self._channel.absent else None

    def over(self) -> bool:
        """Whether the kernel has been without a host for so long that it ends."""
        now = time.monotonic()
        if not self._channel.absent:
            self._absent_since = self._idle_since = self._stopping_since = None
            return False
        self._absent_since = now if self._absent_since is None else self._absent_since
        if self._busy():
            self._idle_since = None
            return self._runs_away(now - self._absent_since, now)
        self._idle_since = now if self._idle_since is None else self._idle_since
        longest = self._beside.seconds if self.on_purpose else min(self._beside.seconds, FORGOTTEN)
        return self._stopping_since is not None or now - self._idle_since >= longest

    def _runs_away(self, absent: float, now: float) -> bool:
        """Interrupt a cell whose screen went long ago without a word; returns whether it does not
        end by that."""
        if self.on_purpose or absent < self._beside.seconds:
            return False
        if self._stopping_since is None:
            self._stopping_since = now
            self._stop_cells()
        return now - self._stopping_since >= STOPPING

    def serve(self) -> bool:
        """Hear the holder; returns whether the kernel goes on."""
        word, channel = self._beside.heard()
        if word == ATTACH and channel >= 0:
            self.on_purpose = False
            self._channel.host_came(channel, self._hello())
            self._answer_all_alone()  # the host before may not have answered
            return True
        if word in (AWAY, BACK):
            self._channel.away = word == AWAY
            if self._channel.away:
                self._answer_all_alone()
            return True
        if not word:  # somebody has killed the holder: the kernel ends with its host
            self._beside.lost()
            self.fd = -1
            return not self._channel.absent
        return False

    def stays(self) -> bool:
        """The host has closed its connection; returns whether the kernel waits for another one."""
        if self.asked_to_end or self.fd < 0 or not self._beside.story.state.has_run:
            return False
        self._channel.host_left()
        self._answer_all_alone()
        self._left()
        return True

    def _answer_all_alone(self) -> None:
        for number in self._beside.story.to_answer_alone():
            self._answer_alone(number)
