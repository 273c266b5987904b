"""Calls that code in cells makes to the host, and waits for."""

from __future__ import annotations

import itertools
import queue
import sys
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Callable

from .frames import Frame


def _ignore_nested_cell(frame: Frame, refusal: str | None) -> None:
    """Do nothing, because this host sends no nested cells."""


class HostCalls:
    """Calls to the host, each with an inbox for its answer and for nested cells.

    While the main thread waits, it runs the cells that its call needs. Any thread may call.
    """

    def __init__(
        self,
        send: Callable[[Frame], None],
        run_nested_cell: Callable[[Frame, str | None], None] = _ignore_nested_cell,
        error_class: type[Exception] = RuntimeError,
        shielded: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Take the thread that runs this as the main thread.

        Args:
            send: Sends a frame to the host.
            run_nested_cell: Runs a cell, or refuses it for a reason (None to run it).
            error_class: The class of the exception with which a call fails.
            shielded: Delays interrupts of the main thread within a context.
        """
        self._send = send
        self._run_nested_cell = run_nested_cell
        self._error_class = error_class
        self._shielded = shielded
        self._main_thread_id = threading.get_ident()
        self._call_numbers = itertools.count(1)
        # Finalizers may call the host from within.
        self._lock = threading.RLock()
        """Held while a call begins or ends, and while a nested cell or an interrupt is put into an
        inbox."""
        self._inboxes: dict[int, queue.SimpleQueue[Frame]] = {}
        """The inboxes of the calls that wait, by their numbers."""
        self._main_thread_inboxes: list[queue.SimpleQueue[Frame]] = []
        """The inboxes of the calls for which the main thread waits, the innermost last."""
        self.reader_thread_id = 0
        """The thread that reads the host's answers, and so cannot wait for one; 0 if there is none."""
        self.fork_handler: Callable[[str, dict[str, Any]], object] | None = None
        """Serves calls in place of the host. A locked fork sets it, because it has no host."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host, and wait for the result. If anything ends the wait, the host is told.

        Args:
            name: The function of the host.
            args: Its arguments by name, as JSON values.

        Returns:
            A JSON value.

        Raises:
            Exception: The call failed; of `error_class`, with the host's message, or with a sentence
                about a call on the thread that reads the answers.
            KeyboardInterrupt: The call was interrupted.
        """
        if self.fork_handler is not None:
            return self.fork_handler(name, args)
        # A finalizer may run on any thread.
        if threading.get_ident() == self.reader_thread_id:
            raise self._error_class(
                "a finalizer cannot call the session from the kernel's own thread"
            )
        _audit(name, args)

        answer = self._ask(next(self._call_numbers), name, args)
        if "error" in answer:
            raise self._error_class(answer["error"])
        return answer["value"]

    def _ask(self, number: int, name: str, args: dict[str, Any]) -> Frame:
        """Send a call, and return the answer to it. If anything ends the wait, tell the host.

        Args:
            number: Identifies the call.
            name: The function of the host.
            args: Its arguments by name.
        """
        is_from_main_thread = threading.get_ident() == self._main_thread_id
        inbox = queue.SimpleQueue[Frame]()
        try:
            self._open_inbox(number, inbox)
            self._send(
                {
                    "op": "call",
                    "id": number,
                    "name": name,
                    "args": args,
                    "is_from_main_thread": is_from_main_thread,
                }
            )
            return self._wait_for_answer(inbox)
        except BaseException:
            # Another interrupt must not keep this from the host.
            delay = self._shielded() if is_from_main_thread else nullcontext()
            with delay, suppress(RuntimeError):  # a forked process has no host
                self._send({"op": "cancelled", "id": number})
            raise
        finally:
            try:
                self._close_inbox(number, inbox)
            finally:
                # Again, because a signal may have ended the first attempt.
                self._close_inbox(number, inbox)

    def interrupt(self, cell_count: int, interrupt_code: Callable[[], object]) -> None:
        """Interrupt the innermost cell: its call ends with `KeyboardInterrupt` if it waits for one.

        Args:
            cell_count: How many cells run on the main thread, each nested in the one before.
            interrupt_code: Interrupts the cell if it does not wait for a call. No call of the main
                thread begins or ends meanwhile.
        """
        with self._lock:
            waiting_call_count = len(self._main_thread_inboxes)
            if waiting_call_count and waiting_call_count >= cell_count:
                self._main_thread_inboxes[-1].put({"op": "interrupt"})
            else:
                interrupt_code()

    def is_waiting(self, cell_count: int) -> bool:
        """Return whether the innermost of so many cells on the main thread waits for a call."""
        return len(self._main_thread_inboxes) >= cell_count

    def deliver(self, frame: Frame) -> bool:
        """Put an answer into the inbox of its call, and a nested cell into that of the innermost
        call of the main thread. Return False if no such call waits."""
        if frame["op"] == "answer":
            # Without the lock, whose holder may wait for this answer in a finalizer.
            inbox = self._inboxes.get(frame["id"])
            if inbox is None:
                return False
            inbox.put(frame)
            return True
        with self._lock:
            if not self._main_thread_inboxes:
                return False
            self._main_thread_inboxes[-1].put(frame)
            return True

    def _open_inbox(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        """Register the inbox of a new call of this thread."""
        with self._lock:
            # First, because `interrupt` uses the inbox from here on.
            if threading.get_ident() == self._main_thread_id:
                self._main_thread_inboxes.append(inbox)
            self._inboxes[number] = inbox

    def _wait_for_answer(self, inbox: queue.SimpleQueue[Frame]) -> Frame:
        """Run nested cells until the answer comes. Raises `KeyboardInterrupt`."""
        while True:
            frame = inbox.get()
            if frame["op"] == "execute":
                self._run_nested_cell(frame, None)
            elif frame["op"] == "interrupt":
                raise KeyboardInterrupt
            else:
                return frame

    def _close_inbox(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        """Forget a call that has ended, and refuse the cells that came too late for it.

        Raises `KeyboardInterrupt` if an interrupt came too late for it.
        """
        is_interrupted = False
        while frame := self._take_late_frame(number, inbox):
            if frame["op"] == "execute":
                # The host waits for the result of the cell.
                self._run_nested_cell(frame, "the cell that asked for it no longer waits")
            elif frame["op"] == "interrupt":
                is_interrupted = True
        if is_interrupted:
            raise KeyboardInterrupt

    def _take_late_frame(self, number: int, inbox: queue.SimpleQueue[Frame]) -> Frame | None:
        """Return the next frame in the inbox of a call that has ended.

        If there is none, forget the inbox, and return None.
        """
        with self._lock:
            if not inbox.empty():
                return inbox.get()
            self._inboxes.pop(number, None)
            if inbox in self._main_thread_inboxes:
                self._main_thread_inboxes.remove(inbox)
            return None


def _audit(name: str, args: dict[str, Any]) -> None:
    """Tell what guards this process of a program that the host starts for it."""
    if name == "terminal":
        sys.audit("mahtab_tui.terminal", args["argv"])
