"""Calls that code in cells makes to the host, and waits for."""

from __future__ import annotations

import itertools
import queue
import sys
import threading
from typing import Any, Callable

from .frames import Frame


def _serve_nothing(frame: Frame, refusal: str | None) -> None:
    """Drop a nested cell, where there are none."""


class HostCalls:
    """Calls of the host, each with an inbox for what answers it. While the main thread waits, it
    runs the cells that its call needs. Any thread may call."""

    def __init__(
        self,
        send: Callable[[Frame], None],
        serve: Callable[[Frame, str | None], None] = _serve_nothing,
        error: type[Exception] = RuntimeError,
    ) -> None:
        """Note the thread that creates it as the main thread.

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
        """The inboxes of the calls for which the main thread waits, the innermost last."""
        self.fork_handler: Callable[[str, dict[str, Any]], object] | None = None
        """Serves the calls in a locked fork, which has no host."""

    @property
    def waiting(self) -> int:
        """The number of calls for which the main thread waits."""
        return len(self._main_thread_inboxes)

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host, and wait for the result.

        Args:
            name: The function of the host.
            args: Its arguments by name, as JSON values.

        Returns:
            A JSON value.

        Raises:
            Exception: Of the class that was given to the constructor, with the host's message.
            KeyboardInterrupt: The call was interrupted; the host is told.
        """
        if self.fork_handler is not None:
            return self.fork_handler(name, args)
        if name == "terminal":
            # What guards this process must know of a program that the host starts for it.
            sys.audit("mahtab_tui.terminal", args["argv"])

        number = next(self._numbers)
        inbox = self._open_inbox(number)
        try:
            self._send({"op": "call", "id": number, "name": name, "args": args})
            return self._wait_for_answer(inbox)
        except KeyboardInterrupt:
            self._send({"op": "cancelled", "id": number})
            raise
        finally:
            self._close_inbox(number, inbox)

    def interrupt(self) -> None:
        """End the call for which the main thread waits, with `KeyboardInterrupt`."""
        self.deliver({"op": "interrupt"})

    def deliver(self, frame: Frame) -> bool:
        """Hand a frame to the call that waits for it: an answer to its call, anything else to the
        innermost call of the main thread.

        Returns:
            Whether there is such a call.
        """
        with self._lock:
            inbox = None
            if frame["op"] == "answer":
                inbox = self._inboxes.get(frame["id"])
            elif self._main_thread_inboxes:
                inbox = self._main_thread_inboxes[-1]
            if inbox is None:
                return False
            inbox.put(frame)
            return True

    def _open_inbox(self, number: int) -> queue.SimpleQueue[Frame]:
        """Return the inbox of a new call of this thread."""
        inbox = queue.SimpleQueue[Frame]()
        with self._lock:
            self._inboxes[number] = inbox
            if threading.get_ident() == self._main_thread_id:
                self._main_thread_inboxes.append(inbox)
        return inbox

    def _wait_for_answer(self, inbox: queue.SimpleQueue[Frame]) -> Any:
        """Run nested cells until the answer comes. Raises what `call` raises."""
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

    def _close_inbox(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        """Forget a call that has ended, and refuse the cells that came for it too late."""
        with self._lock:
            del self._inboxes[number]
            if inbox in self._main_thread_inboxes:
                self._main_thread_inboxes.remove(inbox)
        # The host waits for the result of a cell that came too late to run.
        while not inbox.empty():
            frame = inbox.get()
            if frame["op"] == "execute":
                self._serve(frame, "the cell that asked for it no longer waits")
