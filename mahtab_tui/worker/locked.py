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
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

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

LIMIT = 60.0
IDLE = 4.0
"""Seconds without computing: most library threads do not survive a fork."""
_TICK = 0.25
_MOST_TEXT, _MOST_DATA = 2 * 2**20, 2**30
MAX_NAMES = 1_000
"""New names that a cell may bring back."""
_HEAD = struct.Struct("!QQ")
_LOWEST = 500
_SET_BY_PYTHON = frozenset(
    ("__builtins__", "__warningregistry__", "__annotations__", "__conditional_annotations__")
)
"""Names that Python itself sets while a cell runs."""
MAX_OPENED_PATHS = 1_000
_KINDS = ("stdout", "value", "traceback")

_PACKAGES = (
    "numpy pandas matplotlib seaborn scipy sklearn statsmodels polars pyarrow PIL sympy networkx xarray plotly altair bokeh tabulate rich yaml toml"
    " tqdm dateutil pytz lxml bs4 openpyxl nltk spacy regex numexpr duckdb sqlite3 tomllib"
).split()
_LOADABLE = frozenset(name.partition(".")[0] for name in (*MODULES, *_PACKAGES))
"""Importing these packages changes nothing."""
_NO_INTERFACE = frozenset("tests test testing conftest f2py tool setup distutils".split())
"""Names of modules within packages that are tools or tests."""
_REFUSED = frozenset(
    (errno.EPERM, errno.EACCES, errno.EBADF, errno.EROFS, errno.EFBIG, errno.ENOTSOCK)
)
_SOUNDS_REFUSED = re.compile(
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
    if why := read_only.missing():
        return _stopped(f"cannot be locked: {why}")
    readable = readable_paths(os.getcwd(), [*filter(None, sys.path), *environment.loaded])
    ours, theirs = socket.socketpair()
    output, into = os.pipe()
    parent = os.getpid()
    try:
        pid = fork_uninterrupted()
    except OSError as error:
        return _stopped(f"could not be forked ({error.strerror})")
    if pid == 0:
        child = _Child(executor, environment, calls, theirs.fileno())
        child.run(parent, into, readable, (cell, source))
    theirs.close()
    os.close(into)
    try:
        return _Parent(pid, ours, output, executor.namespace).follow()
    finally:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # code of the user's waits for all children
            os.waitpid(pid, 0)
        ours.close()
        os.close(output)


def describe_locked_run(report: Report, namespace: dict[str, Any], *, keep: bool) -> str:
    """Name what stays in the fork, in a line; empty if nothing does."""
    names = [*report.fork_only, *(() if keep else (*report.values, *report.deleted))]
    existing = [*(name for name in names if name in namespace), *report.lost_settings]
    changed = ", ".join(f"`{name}`" for name in existing)
    lost = ", ".join(f"`{name}`" for name in names if name not in namespace)
    parts = [f"changes to {changed} were not kept"] if changed else []
    parts += [f"{lost} {'were' if ',' in lost else 'was'} not kept"] if lost else []
    return f"ran apart: {'; '.join(parts)}\n" if parts else ""


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
        self._clock = (~pid << 3) | 2
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
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        until, active, computed = time.monotonic() + LIMIT, time.monotonic(), 0.0
        while True:
            ready = dict(poll.poll(_TICK * 1000))
            if self._output in ready and not self._pass_output():
                poll.unregister(self._output)
            if self._channel.fileno() in ready:
                had_listener = self._listener is not None
                if (report := self._receive()) is not None:
                    return report
                if self._listener is not None and not had_listener:
                    poll.register(self._listener.fd, select.POLLIN)
            if self._listener is not None and (events := ready.get(self._listener.fd)):
                self._answer_refusals(self._listener)
                if events & select.POLLHUP:
                    poll.unregister(self._listener.fd)
            now, total = time.monotonic(), computed
            with suppress(OSError):
                total = time.clock_gettime(self._clock)
            if ready or total != computed:
                active, computed = now, total
            if now > until:
                return _stopped(f"ran longer than {LIMIT:.0f} s")
            if now - active > IDLE:
                return _stopped(
                    f"made no progress for {IDLE:.0f} s: it waits, or its library's threads do not run in a fork"
                )

    def _receive(self) -> Report | None:
        """Read what the fork sends; return the report, if it is complete."""
        piece = b""
        descriptors: list[int] = []
        with suppress(ConnectionError):
            piece, descriptors, _, _ = socket.recv_fds(self._channel, 1 << 20, 1)
        if descriptors and self._listener is None:
            os.set_inheritable(descriptors[0], False)
            self._listener = RefusalListener(descriptors[0])
        if not piece:
            return _stopped(self._exit_cause())
        self._data += piece
        try:
            return self._read()
        except Exception as error:  # the fork may send anything
            about = f"{type(error).__name__}: {str(error)[:200]}"
            return _stopped(f"sent results that cannot be read ({about})")

    def _answer_refusals(self, listener: RefusalListener) -> None:
        wanted = listener.answer()
        # The lock itself is tried before the code runs.
        if wanted and self._ready and not self._refusal:
            self._refusal = _clause(wanted)

    def _pass_output(self) -> bool:
        data = memoryview(os.read(self._output, 1 << 16))
        more = bool(data)
        while data:
            data = data[os.write(1, data) :]
        return more

    def _exit_cause(self) -> str:
        info = None
        with suppress(ChildProcessError):  # code of the user's waits for all children
            info = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        if info is None or info.si_code == os.CLD_EXITED:
            return "ended its process"
        if info.si_status in (signal.SIGSEGV, signal.SIGBUS):
            return "wrote to memory that it shares with a file, or crashed"
        return f"ended its process (signal {info.si_status})"

    def _read(self) -> Report | None:
        """Read the next message, if complete; return the report, if it is one. May raise
        anything."""
        while len(self._data) >= _HEAD.size:
            text_size, data_size = _HEAD.unpack_from(self._data)
            if text_size > _MOST_TEXT or data_size > _MOST_DATA:
                return _stopped("makes more data than can be brought back")
            middle = _HEAD.size + text_size
            end = middle + data_size
            if len(self._data) < end:
                return None
            message = json.loads(bytes(self._data[_HEAD.size : middle]))
            data = bytes(self._data[middle:end])
            del self._data[:end]
            while is_readable(self._output) and self._pass_output():
                pass
            if message["op"] == "display":
                start = int(message["data_size"])
                parts = {name: str(message[name]) for name in ("mime", "name", "action")}
                parts["data"] = data[:start].decode("utf-8", "replace")
                parts["text"] = data[start:].decode("utf-8", "replace")
                Host.call("display", parts)
                self._channel.send(b".")
            elif message["op"] == "ready":
                self._ready = True
            elif message["op"] == "listener":
                continue
            elif message["op"] == "refused":
                return _stopped(f"cannot be locked: {_clause(message['why'])}")
            else:
                return self._report(message, data)
        return None

    def _report(self, message: dict[str, Any], data: bytes) -> Report:
        if needs := _clause(message["needs"]):
            return _stopped(needs)
        known = message["status"] in ("ok", "error", "interrupted")
        status = message["status"] if known else "error"
        texts = [
            (kind, data[start : start + size].decode("utf-8", "replace"))
            for kind, start, size in message["pieces"][:20]
            if kind in _KINDS
        ]
        pieces = [(kind, shorten(text, MAX_SHOWN)) for kind, text in texts]
        frames: Any = [
            [str(file), int(line), str(function), int(row)]
            for file, line, function, row in message["frames"][:1000]
        ]
        for name in message["modules"]:
            if name not in sys.modules and _is_package(name):
                late_import(name)
        if len(message["values"]) > MAX_NAMES:
            return _stopped(f"makes more than {MAX_NAMES:,} names")
        values = {
            _name(name): self._value(name, how, parts, data)
            for name, how, parts in message["values"]
        }
        deleted = [
            name for name in map(_name, message["deleted"][:MAX_NAMES]) if name in self._namespace
        ]
        apart = [str(name)[:100] for name in message["apart"][:100] if str(name).isidentifier()]
        settings = [_clause(label)[:100] for label in message["settings"][:MAX_LABELS]]
        outcome = Outcome(status, pieces, [], frames)
        return Report(outcome, values, deleted, apart, "", settings)

    def _value(self, name: str, how: str, parts: list[Any], data: bytes) -> Any:
        if how == "data":
            start, size = parts
            return plain_pickle.load(data[start : start + size])
        if how == "same":
            value = self._namespace[parts[0]]
        elif how == "module":
            value = sys.modules[parts[0]]
        else:
            value = vars(sys.modules[parts[0]])[parts[1]]
            if not _is_named(value, parts[1]) or not (isinstance(value, type) or name == parts[1]):
                raise ValueError(name)
        if (callable(value) or how == "module") and _hides(name, self._namespace):
            raise ValueError(name)
        return value


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError("not a name")
    if name in HIDDEN or name.startswith("__"):
        raise ValueError("a name of Python's own")
    return name


def _clause(text: Any) -> str:
    return " ".join(str(text).split())[:500]


def _is_package(name: str) -> bool:
    """Return whether importing a module changes nothing. Modules that are no part of a package's
    interface may do anything."""
    package, *inner = name.split(".")
    return package in _LOADABLE and not any(
        part.startswith("_") or part in _NO_INTERFACE for part in inner
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
        self._channel = duplicate_high(channel, _LOWEST)
        self._wants: dict[str, None] = {}
        self._opened: dict[str, None] = {}
        """Paths that the code has opened."""
        self._loaded = frozenset(sys.modules)

    def run(
        self, parent: int, output: int, readable: ReadablePaths, job: tuple[int, str]
    ) -> NoReturn:
        try:
            read_only.leave_parent(parent)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for old, new in ((nothing, 0), (output, 1), (output, 2)):
                os.dup2(old, new)
            sys.dont_write_bytecode = True
            try:
                read_only.lock(readable, (0, 1, 2, self._channel), self._hand_over)
            except Exception as error:
                self._send({"op": "refused", "why": str(error) or type(error).__name__})
            else:
                self._send({"op": "ready"})
                self._prepare()
                self._report(job[1], self._executor.run(*job))
        finally:
            os._exit(0)

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
            about = {name: args[name] for name in ("mime", "name", "action")}
            about |= {"op": "display", "data_size": len(content)}
            self._send(about, content + text)
            os.read(self._channel, 1)
            return None
        self._wants.setdefault(f"call {name}()")
        raise RuntimeError(f"{name}() cannot be called here")

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what code wants. This only explains: the operating system refuses. The exception are
        files of the environment far down in the project, which are refused here."""
        if event == "open" and type(args[0]) is not int and is_env_file(to_text(args[0])):
            self._record_need("read", to_text(args[0]))
            raise PermissionError(errno.EACCES, "this file may contain secrets", to_text(args[0]))
        if event == "open" and type(args[0]) is str and len(self._opened) < MAX_OPENED_PATHS:
            self._opened.setdefault(args[0])
        if event == "os.putenv" and sys._getframe(2).f_code.co_filename.startswith("In ["):
            self._record_need("set the variable", to_text(args[0]))
        elif effect := read_side_effect(event, args):
            self._record_need(effect.verb, effect.target)

    def _record_need(self, verb: str, target: str) -> None:
        if len(self._wants) < 20:
            self._wants.setdefault(f"{verb} {target[:200]}".strip())

    def _report(self, source: str, outcome: Outcome) -> None:
        sys.stdout.flush()
        tree = magics.parse_python(source) or ast.Module([], [])  # empty for a magic command
        needs = self._needs(outcome)
        made = {} if needs else self._new()
        if len(made) > MAX_NAMES:
            needs, made = f"makes more than {MAX_NAMES:,} names", {}
        values, lost, origins = [], self._new_dunders(), _origins(tree)
        pieces, data = _join_pieces(outcome.pieces)
        read = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        for name, value in made.items():
            encoded = self._encoded(name, value, origins.get(name, ""))
            if isinstance(encoded, bytes):
                values.append([name, "data", [len(data), len(encoded)]])
                data += encoded
            elif isinstance(encoded, list):
                values.append([name, *encoded])
            elif _is_helper(value, name in read) or outcome.status != "ok":
                lost.append(name)
            elif not needs:
                needs = f"wanted to keep {name} ({encoded}), which is not plain data"
        mutations = [each for each in outcome.changes if each["change"] in ("changed", "perhaps")]
        names = [each["name"] for each in mutations]
        changed = [name for name in names if name in self._before and name not in made]
        self._send(
            {
                "op": "done",
                "status": outcome.status,
                "pieces": pieces,
                "frames": outcome.frames,
                "needs": needs,
                "values": values,
                "modules": [name for name in _imported(tree) if self._is_loadable(name)],
                "deleted": [
                    name
                    for name in self._before
                    if name not in self._executor.namespace and not name.startswith("__")
                ],
                "apart": list(dict.fromkeys([*changed, *lost])),
                "settings": self._state.changed_labels(source),
            },
            data,
        )

    def _is_loadable(self, module: str) -> bool:
        return module in sys.modules and (module in self._loaded or _is_package(module))

    def _new(self) -> dict[str, Any]:
        nothing = object()
        return {
            name: value
            for name, value in list(self._executor.namespace.items())
            if type(name) is str
            and name.isidentifier()
            and not name.startswith("__")
            and name not in HIDDEN
            and self._before.get(name, nothing) is not value
        }

    def _new_dunders(self) -> list[str]:
        """Return the changed names that begin with two underscores, which Python itself uses."""
        nothing = object()
        return [
            name
            for name, value in list(self._executor.namespace.items())
            if type(name) is str
            and name.startswith("__")
            and name not in _SET_BY_PYTHON
            and self._before.get(name, nothing) is not value
        ]

    def _needs(self, outcome: Outcome) -> str:
        if self._wants:
            return f"wanted to {next(iter(self._wants))}"
        error = getattr(sys, "last_value", None)
        if outcome.status == "error" and error is not None and (reason := _why_refused(error)):
            return reason
        path = next(filter(_is_refused_file, self._opened), None)
        return "" if path is None else f"wanted to read {_clause(path)[:200]}"

    def _encoded(self, name: str, value: Any, origin: str) -> bytes | list[Any] | str:
        """Return plain data as bytes, or how the kernel finds the same object, or its type's
        name."""
        hides = _hides(name, self._before)
        if not isinstance(value, (int, float, str, bytes, tuple, type(None))) and not (
            hides and callable(value)
        ):
            for other, old in self._before.items():
                if old is value and other not in HIDDEN:
                    return ["same", [other]]
        if isinstance(value, types.ModuleType):
            module = str(vars(value).get("__name__"))
            known = sys.modules.get(module) is value and self._is_loadable(module)
            return ["module", [module]] if known and not hides else f"the module {module}"
        if origin and not hides and callable(value) and self._is_loadable(origin):
            own = value.__name__ if isinstance(value, type) else name
            if vars(sys.modules[origin]).get(own) is value and _is_named(value, own):
                return ["of", [origin, own]]
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
    """Return kinds with starts and sizes, and the texts as one."""
    described: list[list[Any]] = []
    data = b""
    for kind, text in pieces:
        encoded = text.encode("utf-8", "replace")
        described.append([kind, len(data), len(encoded)])
        data += encoded
    return described, data


def _encode_message(message: dict[str, Any], data_size: int = 0) -> bytes:
    text = json.dumps(message).encode()
    return _HEAD.pack(len(text), data_size) + text


def _origins(tree: ast.Module) -> dict[str, str]:
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in sys.modules and not node.level
        for alias in node.names
    }


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


_VIEWS = (
    *("pandas.core.groupby.", "pandas.api.typing", "pandas.core.window.", "_csv", "csv"),
    *("itertools", "re", "ast", "io", "functools", "operator"),
)
_PASSING = frozenset(
    "generator map filter zip enumerate reversed list_iterator dict_keys dict_values dict_items".split()
)


def _is_helper(value: Any, read: bool) -> bool:
    """Return whether a value has served its purpose in its cell."""
    kind = type(value)
    if kind.__module__.startswith(("matplotlib.", "seaborn.")):
        return True
    if isinstance(value, io.IOBase) and value.closed:
        return True
    of_cell = "__main__" in (kind.__module__, getattr(value, "__module__", ""))
    passing = kind.__name__ in _PASSING or kind.__module__.startswith(_VIEWS)
    return read and (of_cell or callable(value) or passing)


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


def _why_refused(error: BaseException) -> str:
    """Return what the lock refused, as a clause; empty for other causes."""
    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if isinstance(one, OSError) and one.errno in _REFUSED:
            if one.filename:
                return f"wanted to read {to_text(one.filename)}"
            return f"wanted more than reading ({one.strerror})"
        if isinstance(one, MemoryError):
            return "wanted more memory than a locked fork has"
        with suppress(Exception):  # its text may come from user code
            if not isinstance(one, OSError) and _SOUNDS_REFUSED.search(text := str(one)):
                return f"wanted more than reading ({_clause(text)[:200]})"
        one = one.__cause__ or one.__context__
    return ""
