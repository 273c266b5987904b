"""The kernel's side of a locked fork: passes on its output, ends it in time, and reads its report.
Nothing that the fork sends is trusted or executed."""

from __future__ import annotations

import json
import keyword
import os
import pickletools
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

from ..cells.capture import shorten
from ..cells.outcomes import MAX_SENT_CHARS, ForkReport, Outcome
from ..link.descriptors import is_readable
from ..link.held_signals import HeldSignals
from ..link.host import Host
from ..stdlib import late_import
from ..values.objects import is_module, own_dict
from ..values.variables import HIDDEN_NAMES
from . import plain_pickle, trial
from .fork_messages import (
    MAX_LOST_NAMES,
    MAX_NAMES,
    MESSAGE_HEAD,
    imported_modules,
    is_harmless_module,
    is_named,
    may_name_module,
    names_other_module,
    parse_cell,
    replaces_callable,
    stopped,
    to_clause,
)
from .lost_state import MAX_LABELS
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
_COSTLY_OPCODES = frozenset(
    ("BINPERSID", "LONG_BINPUT", "PUT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET")
)
"""A few bytes after the first three can describe an object of a library that fills the memory, or a
large place in the memo of the pickle, which has room for all smaller ones. Hashing or comparing
nested tuples visits each as often as it is referred to."""
_MAX_UNTRIED_BYTES = 2**14
"""Values of up to this size are loaded without a trial, if they are Python's own objects."""
_MAX_PIECES = 20
"""Texts of a cell's outcome."""
_MAX_FRAMES = 1_000
"""Frames of a cell's error."""
_MAX_LABEL_CHARS = 100
"""Characters of a setting's or a lost variable's name."""
_MAX_ERROR_CHARS = 200
TOO_LARGE = "makes values that are too large to be brought back"
"""What code does whose report is too large, as a clause."""
_PIECE_KINDS = ("stdout", "value", "traceback")


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
        self._namespace = namespace
        self._tree = parse_cell(source)
        self._keep = keep
        self._imported_names = frozenset[str]()
        """What the code imports, modules and names in modules; known once the report is read."""
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
            return self._read_report(message, data)
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

    def _read_report(self, message: dict[str, Any], data: bytes) -> ForkReport:
        """Return the report, made of checked values; that of a stopped cell if there are too many.

        May raise anything.
        """
        if needs := to_clause(message["needs"]):
            return stopped(needs)
        if len(message["values"]) > MAX_NAMES:
            return stopped(f"makes more than {MAX_NAMES:,} names")
        if len(message["deleted"]) > MAX_NAMES:
            return stopped(f"deletes more than {MAX_NAMES:,} names")

        values: dict[str, Any] = {}
        if self._keep:
            self._import_modules(message["modules"])
            read_values = partial(self._read_values, message["values"], data)
            is_small = _are_surely_small(message["values"], data)
            if not is_small and not trial.ends_within_limits(read_values):
                return stopped(TOO_LARGE)
            values = read_values()
        deleted_names = [_checked_name(name) for name in message["deleted"]]
        deleted = [name for name in deleted_names if name in self._namespace]

        lost_labels = [str(name)[:_MAX_LABEL_CHARS] for name in message["lost"][:MAX_LOST_NAMES]]
        lost_names = [label for label in lost_labels if label.isidentifier()]
        labels = message["settings"][:MAX_LABELS]
        settings = [to_clause(label)[:_MAX_LABEL_CHARS] for label in labels]
        outcome = _read_outcome(message, data)
        copied_names = [_checked_name(name) for name in message["copied"][:MAX_NAMES]]
        has_more_lost = len(message["lost"]) >= MAX_LOST_NAMES
        return ForkReport(
            outcome, values, deleted, lost_names, "", settings, copied_names, has_more_lost
        )

    def _import_modules(self, names: list[Any]) -> None:
        """Import the modules that the fork has loaded, if the code itself imports them: the fork may
        send any name."""
        self._imported_names = frozenset(imported_modules(self._tree))
        for name in names:
            is_allowed = name in self._imported_names and is_harmless_module(name)
            if is_allowed and name not in sys.modules:
                late_import(name)

    def _read_values(self, rows: list[list[Any]], data: bytes) -> dict[str, object]:
        """Return the values of the report. May raise anything, and take any time and memory."""
        return {
            _checked_name(name): self._read_value(name, form, fields, data)
            for name, form, fields in rows
        }

    def _read_value(self, name: str, form: str, fields: list[Any], data: bytes) -> object:
        """Return a value of the report.

        Args:
            name: The variable that gets it.
            form: As in `ValueRow`.
            fields: As in `ValueRow`.
            data: The data of the message.

        Raises:
            ValueError: The value may not have this name, or is not what the fields say. Others may
                be raised for fields that are not as described.
        """
        if form == "data":
            start, size = fields
            return plain_pickle.load(data[start : start + size])
        if form == "same":
            value = self._namespace[fields[0]]
            if is_module(value) and names_other_module(name, str(own_dict(value).get("__name__"))):
                raise ValueError(name)
        elif form == "module":
            value = sys.modules[fields[0]]
            if not may_name_module(name, fields[0], self._tree):
                raise ValueError(name)
        else:  # "of"
            module, attribute = fields
            value = self._read_attribute(module, attribute)
            # A function under another name could be taken for something else.
            is_renamed = not isinstance(value, type) and name != attribute
            if is_renamed or not is_named(value, attribute):
                raise ValueError(name)
        if (callable(value) or form == "module") and replaces_callable(name, self._namespace):
            raise ValueError(name)
        return value

    def _read_attribute(self, module: str, name: str) -> object:
        """Return an attribute of a loaded module. Raises `KeyError` or `AttributeError`."""
        names = vars(sys.modules[module])
        # Some modules load their parts on first use, which may run any code of the module's.
        is_imported = f"{module}.{name}" in self._imported_names
        if name not in names and is_imported and is_harmless_module(module):
            return getattr(sys.modules[module], name)
        return names[name]


def _are_surely_small(rows: list[list[Any]], data: bytes) -> bool:
    """Return whether values need little time and memory, without reading them.

    May raise anything for rows that are not as described.
    """
    if len(data) > _MAX_UNTRIED_BYTES:
        return False
    for _, form, fields in rows:
        if form == "data":
            start, size = fields
            pickled = data[start : start + size]
            if any(opcode.name in _COSTLY_OPCODES for opcode, _, _ in pickletools.genops(pickled)):
                return False
    return True


def _read_outcome(message: dict[str, Any], data: bytes) -> Outcome:
    """Return how the cell ended, with at most as much text as a kernel may send.

    May raise anything.
    """
    status = message["status"]
    if status not in ("ok", "error", "interrupted"):
        status = "error"
    pieces = []
    for kind, start, size in message["pieces"][:_MAX_PIECES]:
        if kind in _PIECE_KINDS:
            text = data[start : start + size].decode("utf-8", "replace")
            # Before the next text: all of them may be the whole data.
            pieces.append((kind, shorten(text, MAX_SENT_CHARS)))
    frames: Any = [
        [str(file), int(line), str(function), int(row)]
        for file, line, function, row in message["frames"][:_MAX_FRAMES]
    ]
    return Outcome(status, pieces, [], frames)


def _checked_name(name: object) -> str:
    """Return a name that the fork sends.

    Raises `ValueError` unless code of the user's could have bound it.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError("not a name")
    if name in HIDDEN_NAMES or name.startswith("__"):
        raise ValueError("a name of Python's own")
    return name
