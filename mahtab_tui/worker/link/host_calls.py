"""Calls of the host by code in cells, which wait for their results."""

from __future__ import annotations

import itertools
import queue
import sys
import threading
from typing import Any, Callable

from .frames import Frame


class HostCalls:
    """Calls of the host. Nested cells run on the main thread while it waits. Any thread may call."""

    def __init__(
        self,
        send: Callable[[Frame], None],
        serve: Callable[[Frame, str | None], None] = lambda frame, refusal: None,
        error: type[Exception] = RuntimeError,
    ) -> None:
        """Create it on the main thread.

        Args:
            send: Sends a frame to the host.
            serve: Runs a nested cell, or refuses it, with the reason.
            error: What a call raises with the host's message.
        """
        self._send = send
        self._serve = serve
        self._error = error
        self._main_thread_id = threading.get_ident()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._inboxes: dict[int, queue.SimpleQueue[Frame]] = {}
        """What has come for each call that waits, by its number."""
        self._main_thread_inboxes: list[queue.SimpleQueue[Frame]] = []
        """Those of the calls for which the main thread waits, the innermost last."""
        self.fork_handler: Callable[[str, dict[str, Any]], object] | None = None
        """Serves the calls in a locked fork, which has no host."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host and wait for the result. Raises the error with the host's message."""
        if self.fork_handler is not None:
            return self.fork_handler(name, args)
        if name == "terminal":
            sys.audit("mahtab_tui.terminal", args["argv"])
        number = next(self._numbers)
        inbox = queue.SimpleQueue[Frame]()
        with self._lock:
            self._inboxes[number] = inbox
            if threading.get_ident() == self._main_thread_id:
                self._main_thread_inboxes.append(inbox)
        try:
            self._send({"op": "call", "id": number, "name": name, "args": args})
            while True:
                frame = inbox.get()
                if frame["op"] == "execute":
                    self._serve(frame, None)
                elif frame["op"] == "interrupt":
                    raise KeyboardInterrupt
                elif "error" in frame:
                    raise self._error(frame["error"])
                else:
                    return frame["value"]
        except KeyboardInterrupt:
            self._send({"op": "cancelled", "id": number})
            raise
        finally:
            self._close_call(number, inbox)

    @property
    def waiting(self) -> int:
        """The number of calls for which the main thread waits."""
        return len(self._main_thread_inboxes)

    def interrupt(self) -> None:
        """End the call for which the main thread waits, with `KeyboardInterrupt`."""
        self.deliver({"op": "interrupt"})

    def deliver(self, frame: Frame) -> bool:
        """Hand an answer, or a nested cell, to the call that waits for it; return whether one
        does."""
        with self._lock:
            inbox = None
            if frame["op"] == "answer":
                inbox = self._inboxes.get(frame["id"])
            elif self._main_thread_inboxes:
                inbox = self._main_thread_inboxes[-1]
            if inbox is not None:
                inbox.put(frame)
            return inbox is not None

    def _close_call(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        with self._lock:
            del self._inboxes[number]
            if inbox in self._main_thread_inboxes:
                self._main_thread_inboxes.remove(inbox)
        while not inbox.empty():
            frame = inbox.get()
            if frame["op"] == "execute":
                self._serve(frame, "the cell that asked for it no longer waits")
