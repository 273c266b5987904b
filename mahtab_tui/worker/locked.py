"""Runs a cell in a fork of the kernel that the operating system has locked: it can read and
compute, and its results return as plain data. Nothing that the fork sends is trusted or
executed."""

from __future__ import annotations

import ast
import builtins
import errno
import io
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from . import magics, plain_pickle
from .awaiting import EventLoop
from .capture import shorten
from .control import Host
from .descriptors import duplicate_high, is_readable
from .executor import MAX_SHOWN, Executor, Outcome, Report
from .lost_state import MAX_LABELS, StateRecorder
from .objects import name_of
from .sandbox import read_only
from .sandbox.private_places import ReadablePaths, is_env_file, readable_paths
from .sandbox.refusals import RefusalListener
from .sandbox.server import MODULES
from .side_effects import is_ignored_path, read_side_effect, to_text
from .stdlib import late_import
from .undo.checkpoint import fork_uninterrupted
from .variables import HIDDEN

if TYPE_CHECKING:
    from .control import HostCalls
    from .environment import CellEnvironment

TIME_LIMIT_S = 60.0
IDLE_LIMIT_S = 4.0
"""Seconds without computing: most library threads do not survive a fork."""
_POLL_INTERVAL_S = 0.25
MAX_NAMES = 1_000
"""New names that a cell may bring back."""
MAX_OPENED_PATHS = 1_000
_MAX_MESSAGE_BYTES = 2 * 2**20
_MAX_DATA_BYTES = 2**30
_MAX_PIECES = 20
_MAX_FRAMES = 1_000
_MAX_LOST_NAMES = 100
_MAX_NEEDS = 20
_MAX_CLAUSE_CHARS = 500
_MAX_TARGET_CHARS = 200
_MAX_LABEL_CHARS = 100

_MESSAGE_HEAD = struct.Struct("!QQ")
"""The sizes in bytes of a message and of the data after it."""
_LOWEST_FD = 500
"""The fork's own descriptors begin here, above those that code usually opens."""
_IMMUTABLE_TYPES = (int, float, str, bytes, tuple, type(None))
_MISSING = object()

_SET_BY_PYTHON = frozenset(
    ("__builtins__", "__warningregistry__", "__annotations__", "__conditional_annotations__")
)
"""Names that Python itself sets while a cell runs."""
_PIECE_KINDS = ("stdout", "value", "traceback")

_PACKAGES = (
    "numpy pandas matplotlib seaborn scipy sklearn statsmodels polars pyarrow PIL sympy networkx"
    " xarray plotly altair bokeh tabulate rich yaml toml tqdm dateutil pytz lxml bs4 openpyxl nltk"
    " spacy regex numexpr duckdb sqlite3 tomllib"
).split()
_HARMLESS_PACKAGES = frozenset(name.partition(".")[0] for name in (*MODULES, *_PACKAGES))
"""Importing these packages changes nothing."""
_TOOL_MODULES = frozenset("tests test testing conftest f2py tool setup distutils".split())
"""Names of modules within packages that are tools or tests."""

_HELPER_MODULES = (
    *("pandas.core.groupby.", "pandas.api.typing", "pandas.core.window.", "_csv", "csv"),
    *("itertools", "re", "ast", "io", "functools", "operator"),
)
"""Modules whose objects are steps on the way to a result."""
_ITERATOR_CLASSES = frozenset(
    (
        *("generator", "map", "filter", "zip", "enumerate", "reversed", "list_iterator"),
        *("dict_keys", "dict_values", "dict_items"),
    )
)

_REFUSAL_ERRNOS = frozenset(
    (errno.EPERM, errno.EACCES, errno.EBADF, errno.EROFS, errno.EFBIG, errno.ENOTSOCK)
)
_REFUSAL_WORDS = re.compile(
    r"permi(?:ssion|tted)|denied|read-?only database|unable to open|disk I/O|bad file descriptor",
    re.IGNORECASE,
)


def run_locked(
    executor: Executor,
    environment: CellEnvironment,
    calls: HostCalls,
    cell: int,
    source: str,
) -> Report:
    """Run a cell in a locked fork, on the main thread. Nothing of it remains after
    `KeyboardInterrupt`."""
    if obstacle := read_only.missing():
        return _stopped(f"cannot be locked: {obstacle}")

    try:
        project = os.getcwd()
    except OSError as error:
        return _stopped(f"cannot be locked: the working folder is missing ({error.strerror})")
    readable = readable_paths(project, [*filter(None, sys.path), *environment.loaded])
    parent_pid = os.getpid()
    with ExitStack() as own_ends, ExitStack() as fork_ends:
        channel, fork_channel = socket.socketpair()
        own_ends.enter_context(channel)
        fork_ends.enter_context(fork_channel)
        output_reader, output_writer = os.pipe()
        own_ends.callback(os.close, output_reader)
        fork_ends.callback(os.close, output_writer)

        try:
            pid = fork_uninterrupted()
        except OSError as error:
            return _stopped(f"could not be forked ({error.strerror})")
        if pid == 0:
            # Whatever fails in the fork, it must not go on as a second kernel.
            try:
                child = _Child(executor, environment, calls, fork_channel.fileno())
                child.run(parent_pid, output_writer, readable, cell, source)
            finally:
                os._exit(0)

        try:
            fork_ends.close()
            return _Parent(pid, channel, output_reader, executor.namespace).follow()
        finally:
            os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):  # code of the user's waits for all children
                os.waitpid(pid, 0)


def describe_locked_run(report: Report, namespace: dict[str, Any], *, keep: bool) -> str:
    """Name what stays in the fork, in a line; empty if nothing does."""
    lost_names = list(report.fork_only)
    if not keep:
        lost_names += [*report.values, *report.deleted]
    existing_names = [name for name in lost_names if name in namespace]
    new_names = [name for name in lost_names if name not in namespace]

    parts = []
    if changed := [*existing_names, *report.lost_settings]:
        parts.append(f"changes to {_quote_names(changed)} were not kept")
    if new_names:
        verb = "was" if len(new_names) == 1 else "were"
        parts.append(f"{_quote_names(new_names)} {verb} not kept")
    return f"ran apart: {'; '.join(parts)}\n" if parts else ""


def _quote_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# In the kernel


def _stopped(needs: str) -> Report:
    return Report(Outcome("interrupted", [], [], []), {}, [], [], needs)


class _Parent:
    def __init__(
        self, pid: int, channel: socket.socket, output: int, namespace: dict[str, Any]
    ) -> None:
        self._pid = pid
        self._channel = channel
        self._output = output
        self._namespace = namespace
        # The number of a process's CPU clock, as `clock_getcpuclockid` makes it.
        self._clock = (~pid << 3) | 2
        self._poll = select.poll()
        self._data = bytearray()
        self._listener: RefusalListener | None = None
        self._ready = False
        """Whether the lock has been tried, and the code may run."""
        self._refusal = ""
        """The first action that the system refused to the code, as a clause."""

    def follow(self) -> Report:
        try:
            report = self._follow()
        finally:
            if self._listener is not None:
                self._listener.close()
        if self._refusal and not report.needs.startswith("wanted to "):
            return _stopped(f"wanted to {self._refusal}")
        return report

    def _follow(self) -> Report:
        self._poll.register(self._output, select.POLLIN)
        self._poll.register(self._channel, select.POLLIN)
        deadline = time.monotonic() + TIME_LIMIT_S
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
            if now > deadline:
                return _stopped(f"ran longer than {TIME_LIMIT_S:.0f} s")
            if now - last_active > IDLE_LIMIT_S:
                return _stopped(
                    f"made no progress for {IDLE_LIMIT_S:.0f} s: it waits, or its library's threads"
                    " do not run in a fork"
                )

    def _handle_events(self, events: dict[int, int]) -> Report | None:
        """Handle what the system reports about descriptors; return the report, if it is complete."""
        if self._output in events and not self._pass_output():
            self._poll.unregister(self._output)
        if self._channel.fileno() in events and (report := self._receive()) is not None:
            return report
        if self._listener is not None and (event := events.get(self._listener.fd)):
            self._answer_refusal(self._listener)
            if event & select.POLLHUP:
                self._poll.unregister(self._listener.fd)
        return None

    def _cpu_seconds(self, default: float) -> float:
        """Return the CPU time of the fork, or a default if it has ended."""
        with suppress(OSError):
            return time.clock_gettime(self._clock)
        return default

    def _receive(self) -> Report | None:
        """Read what the fork sends; return the report, if it is complete."""
        piece = b""
        descriptors: list[int] = []
        with suppress(ConnectionError):
            piece, descriptors, _, _ = socket.recv_fds(self._channel, 1 << 20, 1)
        if descriptors:
            self._accept_listener(descriptors[0])
        if not piece:
            return _stopped(self._exit_cause())
        self._data += piece
        try:
            return self._read_messages()
        except Exception as error:  # the fork may send anything
            about = f"{type(error).__name__}: {str(error)[:200]}"
            return _stopped(f"sent results that cannot be read ({about})")

    def _accept_listener(self, descriptor: int) -> None:
        """Listen to refusals on the first descriptor that the fork sends. Others may be of its
        code."""
        if self._listener is not None:
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, False)
        self._listener = RefusalListener(descriptor)
        self._poll.register(descriptor, select.POLLIN)

    def _answer_refusal(self, listener: RefusalListener) -> None:
        wanted = listener.answer()
        # The lock itself is tried before the code runs.
        if wanted and self._ready and not self._refusal:
            self._refusal = _clause(wanted)

    def _pass_output(self) -> bool:
        """Write output of the fork to the kernel's; return whether more may come."""
        data = memoryview(os.read(self._output, 1 << 16))
        is_open = bool(data)
        while data:
            data = data[os.write(1, data) :]
        return is_open

    def _exit_cause(self) -> str:
        """Return why the fork has ended, as a clause."""
        info = None
        with suppress(ChildProcessError):  # code of the user's waits for all children
            info = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        if info is None or info.si_code == os.CLD_EXITED:
            return "ended its process"
        if info.si_status in (signal.SIGSEGV, signal.SIGBUS):
            return "wrote to memory that it shares with a file, or crashed"
        return f"ended its process (signal {info.si_status})"

    def _read_messages(self) -> Report | None:
        """Handle the messages that are complete; return the report, if it is among them. May raise
        anything."""
        while len(self._data) >= _MESSAGE_HEAD.size:
            text_size, data_size = _MESSAGE_HEAD.unpack_from(self._data)
            if text_size > _MAX_MESSAGE_BYTES or data_size > _MAX_DATA_BYTES:
                return _stopped("makes more data than can be brought back")
            text_end = _MESSAGE_HEAD.size + text_size
            data_end = text_end + data_size
            if len(self._data) < data_end:
                return None

            message = json.loads(bytes(self._data[_MESSAGE_HEAD.size : text_end]))
            data = bytes(self._data[text_end:data_end])
            del self._data[:data_end]
            # What the code printed before appears before.
            while is_readable(self._output) and self._pass_output():
                pass
            if (report := self._handle_message(message, data)) is not None:
                return report
        return None

    def _handle_message(self, message: dict[str, Any], data: bytes) -> Report | None:
        operation = message["op"]
        if operation == "display":
            self._display(message, data)
        elif operation == "ready":
            self._ready = True
        elif operation == "refused":
            return _stopped(f"cannot be locked: {_clause(message['reason'])}")
        elif operation != "listener":
            return self._read_report(message, data)
        return None

    def _display(self, message: dict[str, Any], data: bytes) -> None:
        content_size = int(message["data_size"])
        args = {field: str(message[field]) for field in ("mime", "name", "action")}
        args["data"] = data[:content_size].decode("utf-8", "replace")
        args["text"] = data[content_size:].decode("utf-8", "replace")
        Host.call("display", args)
        self._channel.send(b".")  # lets the fork go on

    def _read_report(self, message: dict[str, Any], data: bytes) -> Report:
        if needs := _clause(message["needs"]):
            return _stopped(needs)
        if len(message["values"]) > MAX_NAMES:
            return _stopped(f"makes more than {MAX_NAMES:,} names")

        for module in message["modules"]:
            if module not in sys.modules and _is_harmless_module(module):
                late_import(module)
        values = {
            _checked_name(name): self._read_value(name, form, fields, data)
            for name, form, fields in message["values"]
        }
        deleted_names = map(_checked_name, message["deleted"][:MAX_NAMES])
        deleted = [name for name in deleted_names if name in self._namespace]

        lost = [str(name)[:_MAX_LABEL_CHARS] for name in message["lost"][:_MAX_LOST_NAMES]]
        lost_names = [name for name in lost if name.isidentifier()]
        labels = message["settings"][:MAX_LABELS]
        settings = [_clause(label)[:_MAX_LABEL_CHARS] for label in labels]
        return Report(_read_outcome(message, data), values, deleted, lost_names, "", settings)

    def _read_value(self, name: str, form: str, fields: list[Any], data: bytes) -> Any:
        """Return a value of the report. form: says what its fields are (see `_Child._encode`)."""
        if form == "data":
            start, size = fields
            return plain_pickle.load(data[start : start + size])
        if form == "same":
            value = self._namespace[fields[0]]
        elif form == "module":
            value = sys.modules[fields[0]]
        else:
            module, attribute = fields
            value = vars(sys.modules[module])[attribute]
            is_renamed = not isinstance(value, type) and name != attribute
            if is_renamed or not _is_named(value, attribute):
                raise ValueError(name)
        if (callable(value) or form == "module") and _hides(name, self._namespace):
            raise ValueError(name)
        return value


def _read_outcome(message: dict[str, Any], data: bytes) -> Outcome:
    status = message["status"]
    if status not in ("ok", "error", "interrupted"):
        status = "error"
    texts = [
        (kind, data[start : start + size].decode("utf-8", "replace"))
        for kind, start, size in message["pieces"][:_MAX_PIECES]
        if kind in _PIECE_KINDS
    ]
    pieces = [(kind, shorten(text, MAX_SHOWN)) for kind, text in texts]
    frames: Any = [
        [str(file), int(line), str(function), int(row)]
        for file, line, function, row in message["frames"][:_MAX_FRAMES]
    ]
    return Outcome(status, pieces, [], frames)


def _checked_name(name: Any) -> str:
    """Return a name that the fork sends. Raises `ValueError` unless code of the user's could have
    bound it."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError("not a name")
    if name in HIDDEN or name.startswith("__"):
        raise ValueError("a name of Python's own")
    return name


def _clause(text: Any) -> str:
    return " ".join(str(text).split())[:_MAX_CLAUSE_CHARS]


def _is_harmless_module(name: str) -> bool:
    """Return whether importing a module changes nothing. Modules that are no part of a package's
    interface may do anything."""
    package, *inner = name.split(".")
    return package in _HARMLESS_PACKAGES and not any(
        part.startswith("_") or part in _TOOL_MODULES for part in inner
    )


def _hides(name: str, namespace: dict[str, Any]) -> bool:
    """Return whether a function of the cell would replace what the user calls by this name."""
    return name in vars(builtins) or callable(namespace.get(name))


def _is_named(value: Any, name: str) -> bool:
    """Return whether a value is a class, or a function of this name."""
    return isinstance(value, type) or (callable(value) and getattr(value, "__name__", "") == name)


# In the fork


class _Child:
    def __init__(
        self, executor: Executor, environment: CellEnvironment, calls: HostCalls, channel: int
    ) -> None:
        self._executor = executor
        self._environment = environment
        self._calls = calls
        self._channel = duplicate_high(channel, _LOWEST_FD)
        self._needs: dict[str, None] = {}
        """What the code wanted and did not get, as clauses."""
        self._opened: dict[str, None] = {}
        """Paths that the code has opened."""
        self._loaded_before = frozenset(sys.modules)

    def run(
        self, parent_pid: int, output: int, readable: ReadablePaths, cell: int, source: str
    ) -> None:
        """Lock this process, run the code, and report. output: a descriptor."""
        read_only.leave_parent(parent_pid)
        no_input = os.open(os.devnull, os.O_RDONLY)
        for descriptor, standard_stream in ((no_input, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, standard_stream)
        sys.dont_write_bytecode = True
        try:
            read_only.lock(readable, (0, 1, 2, self._channel), self._hand_over)
        except Exception as error:
            self._send({"op": "refused", "reason": str(error) or type(error).__name__})
            return
        self._send({"op": "ready"})
        self._prepare()
        self._report(source, self._executor.run(cell, source))

    def _hand_over(self, listener: int) -> None:
        """Send the descriptor of a `RefusalListener` to the kernel."""
        channel = socket.socket(fileno=os.dup(self._channel))
        socket.send_fds(channel, [_encode_message({"op": "listener"})], [listener])
        channel.close()

    def _prepare(self) -> None:
        executor = self._executor
        executor.undo = magics.Reloading.reloader = None
        executor.state_recorder = self._state = StateRecorder(executor.namespace)
        executor.loop = EventLoop()
        self._environment.use_in_fork()
        self._calls.fork_handler = self._serve_call
        self._before = dict(executor.namespace)
        sys.last_value = None
        sys.addaudithook(self._audit)

    def _serve_call(self, name: str, args: dict[str, Any]) -> Any:
        """Serve a call to the host. Only displays leave the fork."""
        if name == "display":
            self._environment.flush()
            content = args["data"].encode("utf-8", "replace")
            text = args["text"].encode("utf-8", "replace")
            fields = {field: args[field] for field in ("mime", "name", "action")}
            message = {**fields, "op": "display", "data_size": len(content)}
            self._send(message, content + text)
            os.read(self._channel, 1)  # the kernel has displayed it
            return None
        self._needs.setdefault(f"call {name}()")
        raise RuntimeError(f"{name}() cannot be called here")

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what code wants. This only explains: the operating system refuses. The exception is
        files of the environment far down in the project, which are refused here."""
        if event == "open" and type(args[0]) is not int and is_env_file(to_text(args[0])):
            self._record_need("read", to_text(args[0]))
            raise PermissionError(errno.EACCES, "this file may contain secrets", to_text(args[0]))
        if event == "open" and type(args[0]) is str and len(self._opened) < MAX_OPENED_PATHS:
            self._opened.setdefault(args[0])
        # Libraries may set variables; the code of a cell asks for it.
        if event == "os.putenv" and sys._getframe(2).f_code.co_filename.startswith("In ["):
            self._record_need("set the variable", to_text(args[0]))
        elif effect := read_side_effect(event, args):
            self._record_need(effect.verb, effect.target)

    def _record_need(self, verb: str, target: str) -> None:
        if len(self._needs) < _MAX_NEEDS:
            self._needs.setdefault(f"{verb} {target[:_MAX_TARGET_CHARS]}".strip())

    def _report(self, source: str, outcome: Outcome) -> None:
        sys.stdout.flush()
        tree = magics.parse_python(source) or ast.Module([], [])  # empty for a magic command
        needs = self._first_need(outcome)
        new_values = {} if needs else self._new_values()
        if len(new_values) > MAX_NAMES:
            needs = f"makes more than {MAX_NAMES:,} names"
            new_values = {}

        lost_names = self._changed_names(outcome, new_values)
        lost_names += self._changed_dunder_names()
        pieces, data = _join_pieces(outcome.pieces)
        values: list[list[Any]] = []
        encoded_blocks = [data]
        data_size = len(data)
        origins = _import_origins(tree)
        read_names = _read_names(tree)
        for name, value in new_values.items():
            encoded = self._encode(name, value, origins.get(name, ""))
            if isinstance(encoded, bytes):
                values.append([name, "data", [data_size, len(encoded)]])
                encoded_blocks.append(encoded)
                data_size += len(encoded)
            elif isinstance(encoded, list):
                values.append([name, *encoded])
            elif _is_helper(value, name in read_names) or outcome.status != "ok":
                lost_names.append(name)
            elif not needs:
                needs = f"wanted to keep {name} ({encoded}), which is not plain data"

        self._send(
            {
                "op": "done",
                "status": outcome.status,
                "pieces": pieces,
                "frames": outcome.frames,
                "needs": needs,
                "values": values,
                "modules": [name for name in _imported_modules(tree) if self._is_loadable(name)],
                "deleted": self._deleted_names(),
                "lost": list(dict.fromkeys(lost_names)),
                "settings": self._state.changed_labels(source),
            },
            b"".join(encoded_blocks),
        )

    def _is_loadable(self, module: str) -> bool:
        """Return whether the kernel has a module, or may import it."""
        is_allowed = module in self._loaded_before or _is_harmless_module(module)
        return is_allowed and module in sys.modules

    def _rebound_names(self) -> Iterator[str]:
        """Yield the names that were bound to another object, or are new."""
        for name, value in list(self._executor.namespace.items()):
            if type(name) is str and self._before.get(name, _MISSING) is not value:
                yield name

    def _new_values(self) -> dict[str, Any]:
        return {
            name: self._executor.namespace[name]
            for name in self._rebound_names()
            if name.isidentifier() and not name.startswith("__") and name not in HIDDEN
        }

    def _changed_names(self, outcome: Outcome, new_values: dict[str, Any]) -> list[str]:
        """Return the names whose objects were changed in place."""
        names = [
            change["name"]
            for change in outcome.changes
            if change["change"] in ("changed", "perhaps")
        ]
        return [name for name in names if name in self._before and name not in new_values]

    def _changed_dunder_names(self) -> list[str]:
        """Return the changed names that begin with two underscores, which Python itself uses."""
        return [
            name
            for name in self._rebound_names()
            if name.startswith("__") and name not in _SET_BY_PYTHON
        ]

    def _deleted_names(self) -> list[str]:
        return [
            name
            for name in self._before
            if name not in self._executor.namespace and not name.startswith("__")
        ]

    def _first_need(self, outcome: Outcome) -> str:
        """Return what the code wanted and did not get, as a clause; empty if it got everything."""
        if self._needs:
            return f"wanted to {next(iter(self._needs))}"
        error = getattr(sys, "last_value", None)
        if outcome.status == "error" and error is not None and (reason := _describe_refusal(error)):
            return reason
        path = next(filter(_is_refused_file, self._opened), None)
        return "" if path is None else f"wanted to read {_clause(path)[:_MAX_TARGET_CHARS]}"

    def _encode(self, name: str, value: Any, origin: str) -> bytes | list[Any] | str:
        """Return how the kernel gets a new value.

        Args:
            name: The variable.
            value: Its value.
            origin: The module that the code imported the name from, or empty.

        Returns:
            Plain data as bytes; or a form and its fields, by which the kernel finds the same object
            (``["same", [name]]``, ``["module", [name]]``, ``["of", [module, name]]``); or, for
            other objects, a description of their type.
        """
        hides = _hides(name, self._before)
        is_hiding_function = hides and callable(value)
        if not is_hiding_function and not isinstance(value, _IMMUTABLE_TYPES):
            for existing_name, existing_value in self._before.items():
                if existing_value is value and existing_name not in HIDDEN:
                    return ["same", [existing_name]]

        if isinstance(value, types.ModuleType):
            module = str(vars(value).get("__name__"))
            is_importable = sys.modules.get(module) is value and self._is_loadable(module)
            if is_importable and not hides:
                return ["module", [module]]
            return f"the module {module}"

        if origin and not hides and callable(value) and self._is_loadable(origin):
            attribute = value.__name__ if isinstance(value, type) else name
            is_from_module = vars(sys.modules[origin]).get(attribute) is value
            if is_from_module and _is_named(value, attribute):
                return ["of", [origin, attribute]]

        try:
            return plain_pickle.dump(value)
        except plain_pickle.NotPlainError as error:
            return str(error)
        except Exception:  # raised by code of the user's classes
            return name_of(type(value))

    def _send(self, message: dict[str, Any], data: bytes = b"") -> None:
        for part in (_encode_message(message, len(data)), data):
            view = memoryview(part)
            while view:
                view = view[os.write(self._channel, view) :]


def _join_pieces(pieces: list[tuple[str, str]]) -> tuple[list[list[Any]], bytes]:
    """Return rows of a kind, the start and the size in bytes, and the texts as one."""
    rows: list[list[Any]] = []
    data = b""
    for kind, text in pieces:
        encoded = text.encode("utf-8", "replace")
        rows.append([kind, len(data), len(encoded)])
        data += encoded
    return rows, data


def _encode_message(message: dict[str, Any], data_size: int = 0) -> bytes:
    text = json.dumps(message).encode()
    return _MESSAGE_HEAD.pack(len(text), data_size) + text


def _read_names(tree: ast.Module) -> set[str]:
    """Return the names that code reads."""
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _import_origins(tree: ast.Module) -> dict[str, str]:
    """Return the modules from which code imports names, by name."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in sys.modules and not node.level
        for alias in node.names
    }


def _imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yield the names of what code imports, which may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_helper(value: Any, is_read: bool) -> bool:
    """Return whether a value has served its purpose in its cell. is_read: whether the cell reads
    its name."""
    cls = type(value)
    if cls.__module__.startswith(("matplotlib.", "seaborn.")):
        return True
    if isinstance(value, io.IOBase) and value.closed:
        return True
    if not is_read:
        return False
    is_of_cell = "__main__" in (cls.__module__, getattr(value, "__module__", ""))
    is_step = cls.__name__ in _ITERATOR_CLASSES or cls.__module__.startswith(_HELPER_MODULES)
    return is_of_cell or callable(value) or is_step


def _is_refused_file(path: str) -> bool:
    """Return whether the lock keeps an existing file from being read. The code may have hidden the
    error."""
    if is_ignored_path(path):
        return False
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EACCES
    return False


def _describe_refusal(error: BaseException) -> str:
    """Return what the lock refused, as a clause; empty if the error has another cause."""
    cause: BaseException | None = error
    seen_ids: set[int] = set()
    while cause is not None and id(cause) not in seen_ids:
        seen_ids.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in _REFUSAL_ERRNOS:
            if cause.filename:
                return f"wanted to read {to_text(cause.filename)}"
            return f"wanted more than reading ({cause.strerror})"
        if isinstance(cause, MemoryError):
            return "wanted more memory than a locked fork has"
        with suppress(Exception):  # its text may come from user code
            if not isinstance(cause, OSError) and _REFUSAL_WORDS.search(text := str(cause)):
                return f"wanted more than reading ({_clause(text)[:_MAX_TARGET_CHARS]})"
        cause = cause.__cause__ or cause.__context__
    return ""
