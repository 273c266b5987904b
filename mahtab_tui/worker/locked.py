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
from .objects import name_of
from .sandbox import read_only
from .sandbox.server import MODULES
from .side_effects import read_side_effect, to_text
from .stdlib import late_import
from .tracebacks import OUR_FOLDER
from .undo.checkpoint import fork_uninterrupted
from .variables import HIDDEN

if TYPE_CHECKING:
    from .control import HostCalls
    from .environment import CellEnvironment

LIMIT = 60.0
IDLE = 4.0
"""Seconds without computing: most library threads do not survive a fork."""
_TICK = 0.25
_MOST_TEXT, _MOST_DATA = 64 * 2**20, 2**30
_HEAD = struct.Struct("!QQ")
_LOWEST = 500
_KINDS = ("stdout", "value", "traceback")
_ENTRIES = 500
"""Maximum readable entries of the home folder, if it is the project's."""

_PACKAGES = (
    "numpy pandas matplotlib seaborn scipy sklearn statsmodels polars pyarrow PIL sympy networkx xarray plotly altair bokeh tabulate rich yaml toml"
    " tqdm dateutil pytz lxml bs4 openpyxl nltk spacy regex numexpr duckdb sqlite3 tomllib"
).split()
_LOADABLE = frozenset(name.partition(".")[0] for name in (*MODULES, *_PACKAGES))
"""Importing these packages changes nothing."""
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
    limit: int | None,
) -> Report:
    """Run a cell in a locked fork, on the main thread. Nothing of it remains after
    `KeyboardInterrupt`."""
    if why := read_only.missing():
        return _stopped(f"cannot be locked: {why}")
    project = _project_parts(os.getcwd())
    readable = [OUR_FOLDER, *project, *filter(None, sys.path), *environment.loaded]
    ours, theirs = socket.socketpair()
    output, into = os.pipe()
    parent = os.getpid()
    try:
        pid = fork_uninterrupted()
    except OSError as error:
        return _stopped(f"could not be forked ({error.strerror})")
    if pid == 0:
        child = _Child(executor, environment, calls, theirs.fileno())
        child.run(parent, into, readable, (cell, source, limit))
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


def _project_parts(folder: str) -> list[str]:
    home = os.path.realpath(os.path.expanduser("~"))
    if os.path.commonpath((home, os.path.realpath(folder))) != os.path.realpath(folder):
        return [folder]
    with suppress(OSError):
        names = sorted(os.listdir(folder))[:_ENTRIES]
        return [os.path.join(folder, name) for name in names if not name.startswith(".")]
    return []


def describe_locked_run(report: Report, namespace: dict[str, Any], *, keep: bool) -> str:
    """Name what stays in the fork, in a line; empty if nothing does."""
    names = [*report.fork_only, *(() if keep else (*report.values, *report.deleted))]
    changed = ", ".join(f"`{name}`" for name in names if name in namespace)
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

    def follow(self) -> Report:
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        until, active, computed = time.monotonic() + LIMIT, time.monotonic(), 0.0
        while True:
            ready = dict(poll.poll(_TICK * 1000))
            if self._output in ready and not self._pass_output():
                poll.unregister(self._output)
            if self._channel.fileno() in ready:
                piece = b""
                with suppress(ConnectionError):
                    piece = self._channel.recv(1 << 20)
                if not piece:
                    return _stopped(self._exit_cause())
                self._data += piece
                try:
                    if (report := self._read()) is not None:
                        return report
                except Exception as error:  # the fork may send anything
                    about = f"{type(error).__name__}: {str(error)[:200]}"
                    return _stopped(f"sent results that cannot be read ({about})")
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
                shown = {name: str(message[name]) for name in ("mime", "data", "text")}
                Host.call("display", shown)
                self._channel.send(b".")
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
        shown = [(kind, str(text)) for kind, text in message["pieces"][:20] if kind in _KINDS]
        pieces = [(kind, shorten(text, MAX_SHOWN)) for kind, text in shown]
        frames: Any = [
            [str(file), int(line), str(function), int(row)]
            for file, line, function, row in message["frames"][:1000]
        ]
        for name in message["modules"]:
            if name not in sys.modules and _is_package(name) and not name.endswith("__main__"):
                late_import(name)
        values = {
            _name(name): self._value(name, how, parts, data)
            for name, how, parts in message["values"]
        }
        deleted = [name for name in map(_name, message["deleted"]) if name in self._namespace]
        apart = [_name(name) for name in message["apart"][:100]]
        return Report(Outcome(status, pieces, [], frames), values, deleted, apart, "")

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
    if not isinstance(name, str) or not name.isidentifier() or name in HIDDEN:
        raise ValueError("not a name")
    return name


def _clause(text: Any) -> str:
    return " ".join(str(text).split())[:500]


def _is_package(name: str) -> bool:
    return name.partition(".")[0] in _LOADABLE


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
        self._loaded = frozenset(sys.modules)

    def run(
        self, parent: int, output: int, readable: list[str], job: tuple[int, str, int | None]
    ) -> NoReturn:
        try:
            read_only.leave_parent(parent)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for old, new in ((nothing, 0), (output, 1), (output, 2)):
                os.dup2(old, new)
            sys.dont_write_bytecode = True
            try:
                read_only.lock(readable, (0, 1, 2, self._channel))
            except Exception as error:
                self._send({"op": "refused", "why": str(error) or type(error).__name__})
            else:
                self._prepare()
                self._report(job[1], self._executor.run(*job))
        finally:
            os._exit(0)

    def _prepare(self) -> None:
        executor = self._executor
        executor.undo = magics.Reloading.reloader = None
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
            self._send({"op": "display", **args})
            os.read(self._channel, 1)
            return None
        self._wants.setdefault(f"call {name}()")
        raise RuntimeError(f"{name}() cannot be called here")

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what code wants. This only explains: the operating system refuses."""
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
        values, data, lost, origins = [], b"", [], _origins(tree)
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
                "pieces": outcome.pieces,
                "frames": outcome.frames,
                "needs": needs,
                "values": values,
                "modules": [name for name in _imported(tree) if self._is_loadable(name)],
                "deleted": [name for name in self._before if name not in self._executor.namespace],
                "apart": list(dict.fromkeys([*changed, *lost])),
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
            and name not in HIDDEN
            and self._before.get(name, nothing) is not value
        }

    def _needs(self, outcome: Outcome) -> str:
        if self._wants:
            return f"wanted to {next(iter(self._wants))}"
        error = getattr(sys, "last_value", None)
        return "" if outcome.status != "error" or error is None else _why_refused(error)

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
        text = json.dumps(message).encode()
        for part in (_HEAD.pack(len(text), len(data)), text, data):
            view = memoryview(part)
            while view:
                view = view[os.write(self._channel, view) :]


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
