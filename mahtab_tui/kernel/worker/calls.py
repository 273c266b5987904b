"""Calls from kernel code to the host. While they wait, they run nested cells that the host
sends."""

from __future__ import annotations

import itertools
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, Optional

from .frames import Frame

Serve = Callable[[Frame, Optional[str]], None]
"""Runs a nested cell, or refuses it with a sentence."""


class HostCalls:
    """The open calls. Any thread may call; nested cells run on the main thread while it waits."""

    def __init__(self, send: Callable[[Frame], None], serve: Serve) -> None:
        self._send = send
        self._serve = serve
        self._main = threading.get_ident()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._open: dict[int, queue.SimpleQueue[Frame]] = {}
        self._waiting: list[queue.SimpleQueue[Frame]] = []
        self.instead: Callable[[str, dict[str, Any]], Any] | None = None
        """Serves calls in a fork, which has no host."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host and wait for the answer (JSON values both ways). Raises `RuntimeError` with
        the host's message."""
        if self.instead is not None:
            return self.instead(name, args)
        if name == "terminal":
            sys.audit("mahtab_tui.terminal", args["argv"])
        number = next(self._ids)
        inbox: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._opened(number, inbox)
        try:
            self._send({"op": "call", "id": number, "name": name, "args": args})
            while True:
                frame = inbox.get()
                if frame["op"] == "execute":
                    self._serve(frame, None)
                elif frame["op"] == "interrupt":
                    raise KeyboardInterrupt
                elif "error" in frame:
                    raise RuntimeError(frame["error"])
                else:
                    return frame["value"]
        except KeyboardInterrupt:
            self._send({"op": "cancelled", "id": number})
            raise
        finally:
            self._closed(number, inbox)

    @property
    def waiting(self) -> int:
        """How many nested calls of the main thread are open."""
        return len(self._waiting)

    def interrupt(self) -> None:
        """End the main thread's innermost wait, for hosts that cannot send signals."""
        self.deliver({"op": "interrupt"})

    def deliver(self, frame: Frame) -> bool:
        """Hand over an answer or a nested cell; False if nobody waits for it. Called by the control
        thread."""
        with self._lock:
            waiting = self._waiting[-1] if self._waiting else None
            inbox = self._open.get(frame["id"]) if frame["op"] == "answer" else waiting
            if inbox is None:
                return False
            inbox.put(frame)
            return True

    def _opened(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        with self._lock:
            self._open[number] = inbox
            if threading.get_ident() == self._main:
                self._waiting.append(inbox)

    def _closed(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        with self._lock:
            del self._open[number]
            if inbox in self._waiting:
                self._waiting.remove(inbox)
        while not inbox.empty():
            frame = inbox.get()
            if frame["op"] == "execute":
                self._serve(frame, "the cell that asked for it no longer waits")
