"""Decides whether the kernel goes on without a host, and lets the next host in. Used by the control thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable

from .beside import ATTACH, AWAY, BACK, Beside

if TYPE_CHECKING:
    from ..control import Channel
    from ..frames import Frame


class Staying:
    """What the control thread does about hosts that leave and come."""

    def __init__(
        self,
        beside: Beside,
        channel: Channel,
        hello: Callable[[], Frame],
        busy: Callable[[], bool],
        answer_alone: Callable[[int], None],
        left: Callable[[], None],
    ) -> None:
        """hello: the kernel's first frame. busy: whether a cell runs. answer_alone: answers a call that needs no host. left: called when a host has left."""
        self.fd = beside.fd
        self.asked_to_end = False
        """The host has said that the kernel shall end."""
        self._beside = beside
        self._channel = channel
        self._hello = hello
        self._busy = busy
        self._answer_alone = answer_alone
        self._left = left
        self._idle_since: float | None = None

    def wait(self) -> int | None:
        """Milliseconds until `over` may be true; None while there is a host."""
        return 1000 if self._channel.absent else None

    def over(self) -> bool:
        """Whether the kernel has been idle without a host for so long that it ends."""
        if not self._channel.absent or self._busy():
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = time.monotonic()
        return time.monotonic() - self._idle_since >= self._beside.seconds

    def serve(self) -> bool:
        """Hear the holder; returns whether the kernel goes on."""
        word, channel = self._beside.heard()
        if word == ATTACH and channel >= 0:
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
