"""The connection from the code in a sandbox to the engine."""

from __future__ import annotations

import itertools
import queue
import threading
from typing import Any

from ..control import Channel
from ..frames import Frame, FrameError
from ..interrupts import Interrupts
from .host import CallError

MAX_FRAME = 64 * 2**20
"""Bytes of one message to the engine."""


class EngineConnection:
    """Implements `EngineHost`: calls that wait for an answer, and messages that do not."""

    def __init__(self, fd: int, interrupts: Interrupts) -> None:
        self._channel = Channel(fd, interrupts, MAX_FRAME)
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._open: dict[int, queue.SimpleQueue[Frame]] = {}
        self.finished = False
        """Whether the final answer was given; what comes after it is ignored."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        number = next(self._ids)
        inbox: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        with self._lock:
            self._open[number] = inbox
        try:
            self._send({"op": "call", "id": number, "name": name, "args": args})
            try:
                answer = inbox.get()
            except KeyboardInterrupt:
                self._send({"op": "cancelled", "id": number})
                raise
        finally:
            with self._lock:
                self._open.pop(number, None)
        if "error" in answer:
            raise CallError(answer["error"])
        return answer["value"]

    def tell(self, name: str, args: dict[str, Any]) -> None:
        self._send({"op": "tell", "name": name, "args": args})
        if name == "final":
            self.finished = True

    def ready(self) -> None:
        """Report that the sandbox is locked down and waits for its first turn."""
        self._channel.send({"op": "ready"})

    def done(self, outcome: dict[str, Any]) -> None:
        self._channel.send({"op": "done", **outcome})

    def deliver(self, frame: Frame) -> None:
        """Hand an answer to the thread that waits for it, if one still does. Called by the reading
        thread."""
        with self._lock:
            inbox = self._open.get(frame["id"])
        if inbox is not None:
            inbox.put(frame)

    def _send(self, frame: Frame) -> None:
        try:
            self._channel.send(frame)
        except FrameError as error:
            raise CallError(
                f"Too much text at once: {error}. Hand on parts of the context as they are, or less text."
            ) from None
