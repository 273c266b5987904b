"""The kernel's side of a locked fork: passes on its output, ends it in time, and gets its messages.

Nothing that the fork sends is trusted. `fork_report` reads what it reports at the end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Any

from ..cells.outcomes import ForkReport
from ..link.descriptors import is_readable
from ..link.held_signals import HeldSignals
from ..link.host import Host
from . import plain_pickle
from .fork_messages import MESSAGE_HEAD, parse_cell, stopped, to_clause
from .fork_report import TOO_LARGE, ReportReader
from .refusals import RefusalListener

TIME_LIMIT_S = 60.0
"""Seconds for a whole cell."""
IDLE_LIMIT_S = 4.0
"""Seconds without output or CPU time. A fork may wait forever for a library's thread, because
threads do not survive a fork."""
_POLL_INTERVAL_S = 0.25
_EXIT_TIME_S = 1.0
"""Seconds that a process may take to end after it has closed its channel."""
_EXIT_INTERVAL_S = 0.005
_RECEIVED_BYTES = 2**20
"""Bytes of messages that are read at once."""
_OUTPUT_BYTES = 2**16
"""Bytes of output that are read at once."""
_MAX_MESSAGE_BYTES = 2 * 2**20
_MAX_DATA_BYTES = plain_pickle.MAX_BYTES + 2**26
"""Values and texts."""
_MAX_ERROR_CHARS = 200


class ForkObserver:
    """Follows one fork until it reports, waits too long, or does what it may not."""

    def __init__(
        self,
        pid: int,
        channel: socket.socket,
        output: int,
        namespace: dict[str, object],
        source: str,
        *,
        keep: bool,
    ) -> None:
        """Observe a fork that has just been made.

        Args:
            pid: Its process.
            channel: Where it sends messages and, once, a descriptor.
            output: The descriptor of what its code prints.
            namespace: The kernel's, to which its results refer.
            source: The cell's code.
            keep: Whether to read new values.
        """
        self._pid = pid
        self._channel = channel
        self._output = output
        self._reader = ReportReader(namespace, parse_cell(source), keep=keep)
        # The number of a process's CPU clock, as `clock_getcpuclockid` makes it.
        self._clock = (~pid << 3) | 2
        self._poll = select.poll()
        self._data = bytearray()
        """What the fork has sent and is not handled yet."""
        self._listener: RefusalListener | None = None
        """Hears what the system refuses; None until the fork has sent its descriptor."""
        self._ready = False
        """Whether the lock has been tried, and the code may run."""
        self._deadline = 0.0
        """When it has to end, in seconds on the clock of `time.monotonic`."""
        self._refusal = ""
        """The first action that the system refused to the code, as a clause."""

    def follow(self) -> ForkReport:
        """Wait for the report, and show what the code prints meanwhile.

        If the system refused an action, the report names this action first.
        """
        try:
            report = self._follow()
        finally:
            if self._listener is not None:
                self._listener.close()
        if not self._refusal:
            return report
        needs = f"wanted to {self._refusal}"
        # The code can write anything there, so that it stands after what the system has seen.
        if report.needs not in ("", needs):
            needs = f"{needs}, which Linux refused; its own words: {report.needs}"
        return stopped(needs)

    def _follow(self) -> ForkReport:
        """Handle what the fork does until there is a report, or its time is over."""
        self._poll.register(self._output, select.POLLIN)
        self._poll.register(self._channel, select.POLLIN)
        self._deadline = time.monotonic() + TIME_LIMIT_S
        last_active = time.monotonic()
        last_cpu_seconds = 0.0
        while True:
            events = dict(self._poll.poll(_POLL_INTERVAL_S * 1000))
            if (report := self._handle_events(events)) is not None:
                return report

            now = time.monotonic()
            cpu_seconds = self._cpu_seconds(last_cpu_seconds)
            if events or cpu_seconds != last_cpu_seconds:
                last_active = now
                last_cpu_seconds = cpu_seconds
            if now > self._deadline:
                return stopped(f"ran longer than {TIME_LIMIT_S:.0f} s")
            # A fork that waits uses no CPU time.
            if now - last_active > IDLE_LIMIT_S:
                return stopped(
                    f"made no progress for {IDLE_LIMIT_S:.0f} s: it waits, or its library's threads"
                    " do not run in a fork"
                )

    def _handle_events(self, events: dict[int, int]) -> ForkReport | None:
        """Handle what the system reports about descriptors; return the report, if it is complete."""
        if self._output in events and not self._pass_output():
            self._poll.unregister(self._output)
        if self._channel.fileno() in events and (report := self._receive()) is not None:
            return report
        if self._listener is not None:
            listener_event = events.get(self._listener.fd, 0)
            if listener_event:
                self._answer_refusal(self._listener)
            if listener_event & select.POLLHUP:
                self._poll.unregister(self._listener.fd)
        return None

    def _cpu_seconds(self, default: float) -> float:
        """Return the CPU time of the fork, or a default if it has ended."""
        with suppress(OSError):
            return time.clock_gettime(self._clock)
        return default

    def _receive(self) -> ForkReport | None:
        """Read what the fork sends; return the report, if it is complete."""
        piece = b""
        descriptors: list[int] = []
        # A signal waits until somebody owns the descriptor.
        with HeldSignals():
            with suppress(ConnectionError):
                piece, descriptors, _, _ = socket.recv_fds(self._channel, _RECEIVED_BYTES, 1)
            if descriptors:
                self._accept_listener(descriptors[0])
        if not piece:
            return stopped(self._exit_cause())
        self._data += piece
        try:
            return self._read_messages()
        except Exception as error:  # the fork may send anything
            problem = f"{type(error).__name__}: {str(error)[:_MAX_ERROR_CHARS]}"
            return stopped(f"sent results that cannot be read ({problem})")

    def _accept_listener(self, descriptor: int) -> None:
        """Listen to refusals on the first descriptor that the fork sends.

        The cell's code may have sent any other.
        """
        if self._listener is not None:
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, False)
        self._listener = RefusalListener(descriptor, self._pid)
        self._poll.register(descriptor, select.POLLIN)

    def _answer_refusal(self, listener: RefusalListener) -> None:
        refused_action = listener.answer()
        # Before the code runs, the fork tries its lock, which must refuse.
        if refused_action and self._ready and not self._refusal:
            self._refusal = to_clause(refused_action)

    def _pass_output(self) -> bool:
        """Write output of the fork to the kernel's; return whether more may come."""
        unwritten = memoryview(os.read(self._output, _OUTPUT_BYTES))
        is_open = bool(unwritten)
        while unwritten:
            written_bytes = os.write(1, unwritten)
            unwritten = unwritten[written_bytes:]
        return is_open

    def _exit_cause(self) -> str:
        """Return why the fork has ended, as a clause.

        If it has only closed the channel, it does not end, and nothing waits for it.
        """
        info = None
        last_try = time.monotonic() + _EXIT_TIME_S
        with suppress(ChildProcessError):  # code of the user's waits for all children
            while info is None and time.monotonic() < last_try:
                info = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
                if info is None:
                    time.sleep(_EXIT_INTERVAL_S)
        if info is None or info.si_code == os.CLD_EXITED:
            return "ended its process"
        if info.si_status in (signal.SIGSEGV, signal.SIGBUS):
            return "wrote to memory that it shares with a file, or crashed"
        return f"ended its process (signal {info.si_status})"

    def _read_messages(self) -> ForkReport | None:
        """Handle the messages that are complete; return the report, if it is among them.

        May raise anything.
        """
        while len(self._data) >= MESSAGE_HEAD.size:
            text_size, data_size = MESSAGE_HEAD.unpack_from(self._data)
            if text_size > _MAX_MESSAGE_BYTES or data_size > _MAX_DATA_BYTES:
                return stopped(TOO_LARGE)
            text_end = MESSAGE_HEAD.size + text_size
            data_end = text_end + data_size
            if len(self._data) < data_end:
                return None

            message = json.loads(bytes(self._data[MESSAGE_HEAD.size : text_end]))
            data = bytes(self._data[text_end:data_end])
            del self._data[:data_end]
            # What the code printed before appears before.
            while is_readable(self._output) and self._pass_output():
                if time.monotonic() > self._deadline:  # a thread of the code prints without end
                    return None
            if (report := self._handle_message(message, data)) is not None:
                return report
        return None

    def _handle_message(self, message: dict[str, object], data: bytes) -> ForkReport | None:
        """Handle a message; return the report, if it is one. May raise anything."""
        operation = message["op"]
        if operation == "display":
            return self._display(message, data)
        if operation == "ready":
            self._ready = True
        elif operation == "refused":
            return stopped(f"cannot be locked: {to_clause(message['reason'])}")
        elif operation != "listener":  # whose descriptor came beside the data
            return self._reader.read(message, data)
        return None

    def _display(self, message: dict[str, Any], data: bytes) -> ForkReport | None:
        """Show what the code displays, and let the fork go on; return the report of a stopped cell if
        the fork does not read the answers."""
        content_size = int(message["data_size"])
        args = {field: str(message[field]) for field in ("mime", "name", "action")}
        args["data"] = data[:content_size].decode("utf-8", "replace")
        args["text"] = data[content_size:].decode("utf-8", "replace")
        Host.call("display", args)
        try:
            self._channel.send(b".", socket.MSG_DONTWAIT)
        except BlockingIOError:
            return stopped("displays without waiting for the kernel")
        except ConnectionError:  # it has ended, which is noticed when the channel is read
            pass
        return None
