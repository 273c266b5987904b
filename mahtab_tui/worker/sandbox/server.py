"""The fork server, and the life of a sandbox.

It exchanges JSON messages with its host:

    {"op": "hello", "missing"}        from the server at its start: why there can be no sandbox, or ""
    {"id"} + a socket                 from the host: make a sandbox, which gets its text over the socket
    {"id", "load": true} + one        from the host: make a server for sandboxes that share a text
    {"op": "forked", "id", "pid"}     from the server, with a descriptor of the process
    {"op": "failed", "id", "reason"}  from the server instead
    {"op": "ended", "id", "code"}     from the server when the process has been reaped

The hello of a server for a text comes when it has read the text, or could not.

A sandbox and the engine exchange frames over the sandbox's socket:

    {"op": "text", "kind", "parts", "contexts", "max_answer_chars", "tools"}
                                      from the engine, first: how code gets the text (`make_names`)
    {"op": "ready"}                   from the sandbox when it is locked down and can run code
    {"op": "refused", "reason"}       from the sandbox instead, with a clause
    {"op": "run", "turn", "code"}     from the engine: run the code of a turn
    {"op": "done", "turn", ...}       from the sandbox: how the turn has ended (`Turns.run`)

During a turn, its code calls the engine (`EngineConnection`).

The server ends with the connection, and its children end with it. A model's code never runs in
it."""

from __future__ import annotations

import _sitebuiltins
import _thread
import builtins
import encodings
import errno
import fcntl
import gc
import importlib
import io
import json
import mmap
import os
import pkgutil
import platform
import queue
import select
import signal
import socket
import sys
import threading
import zoneinfo
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter
from types import ModuleType
from typing import Any, BinaryIO, NoReturn
from zoneinfo import _common

from ..link.frames import Frame, FrameReader, encode
from ..link.interrupts import Interrupts
from . import confinement, system_calls
from .harmless_modules import HARMLESS_MODULES
from .names import SandboxText, make_names
from .pieces import Source
from .turns import EngineConnection, Turns

_CHANNEL_FD = 3
_RULES_FD = 4


def preload() -> None:
    """Load the modules that this version of Python has, and the text encodings."""
    # ssl is large, and useless without a network.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    module_names = (
        module.name for module in pkgutil.iter_modules(encodings.__path__, "encodings.")
    )
    for name in (*HARMLESS_MODULES, *module_names):
        with suppress(ImportError):
            importlib.import_module(name)
    del sys.modules["ssl"]


def close_imports() -> None:
    """Allow only loaded, built-in and frozen modules to be imported."""
    sys.path[:] = []
    sys.path_hooks[:] = []
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, _RefusingFinder()]


class _RefusingFinder:
    """The last finder, which explains why a module is missing."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> NoReturn:
        raise ModuleNotFoundError(
            f"No module named {name!r} in this sandbox: it has the harmless modules of the standard library only",
            name=name,
        )


def load_zones() -> None:
    """Read the system's time zones, so that `zoneinfo` finds them in memory."""
    zones: dict[str, bytes] = {}
    for root in reversed(zoneinfo.TZPATH):
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in ("posix", "right")]
            for name in names:
                path = os.path.join(folder, name)
                with suppress(OSError), open(path, "rb") as file:
                    data = file.read()
                    if data.startswith(b"TZif"):
                        zones[os.path.relpath(path, root)] = data

    def load_tzdata(key: str) -> BinaryIO:
        if key not in zones:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(zones[key])

    finder: Any = _common
    finder.load_tzdata = load_tzdata
    zoneinfo.available_timezones = lambda: set(zones)


def run(parent: int, channel: int, text: Source | None, locks: confinement.Locks) -> None:
    """Become a sandbox; returns only if that fails.

    Args:
        channel: A socket.
        text: None if its file comes over the socket, perhaps much later.
    """
    try:
        confinement.leave_parent(parent)
        locks = _keep_only(channel, locks)
        channel = _CHANNEL_FD
        threading.stack_size(confinement.THREAD_STACK_BYTES)
        confinement.share_heap()
        confinement.deny_files(locks.rules)
        context = _receive_text() if text is None else text
        confinement.limit_resources(sys.getsizeof(context))
        confinement.restrict_system_calls(locks.filter, confinement.ATTEMPTS)
    except (confinement.LockdownError, OSError, MemoryError) as error:
        reason = f"Sandboxing is not supported on this system: {error}"
        if confinement.is_shortage(error):
            reason = f"A sandbox cannot be started: {_error_clause(error)}"
        os.write(channel, encode({"op": "refused", "reason": reason}))
        return
    _serve(context)


def _keep_only(channel: int, locks: confinement.Locks) -> confinement.Locks:
    """Close all other descriptors of the parent; the standard streams lead to /dev/null."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, _RULES_FD + 1) for fd in (channel, locks.rules)]
    for old, new in zip(moved, (_CHANNEL_FD, _RULES_FD)):
        os.dup2(old, new)
    os.dup2(0, 1)
    os.dup2(0, 2)
    system_calls.syscall(system_calls.CLOSE_RANGE, _RULES_FD + 1, 0xFFFFFFFF, 0)
    return locks._replace(rules=_RULES_FD)


def _receive_text() -> Source:
    """Read a text, which may have surrogates, from a file received over the channel. The file is
    released before the text is copied. The process ends with the channel."""
    with socket.socket(fileno=os.dup(_CHANNEL_FD)) as channel:
        received, fds, *_ = socket.recv_fds(channel, 1, 1)
    if not received:
        os._exit(0)
    if not fds:  # the limit of descriptors
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    (fd,) = fds
    size = os.fstat(fd).st_size
    text = ""
    if size:
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
            text = str(data, "utf-8", "surrogatepass")
    os.close(fd)
    return Source(text)


def _error_clause(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "no memory"


def _serve(context: Source) -> NoReturn:
    """Run the code of turns, until the engine closes the channel."""
    gc.enable()
    interrupts = Interrupts()
    connection = EngineConnection(_CHANNEL_FD, interrupts)
    jobs: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Starting a `Thread` would wait until it runs.
    _thread.start_new_thread(_listen, (connection, jobs))
    text_frame = jobs.get()
    parts = [tuple(part) for part in text_frame["parts"]]
    text = SandboxText(context, text_frame["kind"], parts, text_frame["contexts"])
    names = make_names(text, connection, text_frame["max_answer_chars"], text_frame["tools"])
    turns = Turns(names, connection, interrupts)
    connection.ready()
    while True:
        job = jobs.get()
        connection.done(turns.run(job["turn"], job["code"]))


def _listen(connection: EngineConnection, jobs: queue.SimpleQueue[Frame]) -> None:
    """Pass frames on; the process ends with the connection."""
    try:
        frames = FrameReader()
        # Allocated now, because later there may be no memory left.
        buffer = memoryview(bytearray(65_536))
        while size := os.readv(_CHANNEL_FD, [buffer]):
            for frame in frames.feed(buffer[:size]):
                if frame["op"] == "answer":
                    connection.deliver(frame)
                else:
                    jobs.put(frame)
    finally:
        os._exit(1)


def main(fd: int) -> None:
    """Serve on a socket of whole messages (SOCK_SEQPACKET) until the host closes it."""
    host = socket.socket(fileno=fd)
    missing = confinement.missing_support()
    if missing:
        _send(host, {"op": "hello", "missing": missing})
        return
    # When memory runs out, sandboxes are to be killed, not the host.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")
    preload()
    load_zones()
    close_imports()
    _hide_machine()
    _Server(host, confinement.prepare()).run()


def _serve_text(parent: int, channel: int, locks: confinement.Locks) -> None:
    """Become a server for a text, until the host closes its socket."""
    try:
        system_calls.die_with_parent(parent)
        locks = _keep_only(channel, locks)
        channel = _CHANNEL_FD
        text = _receive_text()
    except (OSError, MemoryError) as error:
        _send(socket.socket(fileno=channel), {"op": "hello", "missing": _error_clause(error)})
        return
    _Server(socket.socket(fileno=channel), locks, text).run()


def _hide_machine() -> None:
    """Hide folder, environment, interpreter and machine, and add `help` and `exit`, as site.py would."""
    os.chdir("/")
    os.environ.clear()
    sys.executable = ""
    sys.argv = [""]
    machine: Any = platform
    machine._uname_cache = platform.uname_result("Linux", "", "", "", "")
    builtins.help = _sitebuiltins._Helper()
    builtins.exit = builtins.quit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")


class _Server:
    def __init__(
        self, host: socket.socket, locks: confinement.Locks, text: Source | None = None
    ) -> None:
        self._host = host
        self._locks = locks
        self._text = text
        self._poll = select.poll()
        self._poll.register(host, select.POLLIN)
        self._sandboxes: dict[int, tuple[int, int]] = {}
        """Numbers of the request and the process, by the process's descriptor."""

    def run(self) -> None:
        gc.freeze()  # a child's garbage collector would write to all shared memory
        _send(self._host, {"op": "hello", "missing": ""})
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._sandboxes:
                    self._reap(fd)
                elif not self._handle_request():
                    return

    def _handle_request(self) -> bool:
        """Fork a sandbox, or a server for a text; False if the host has gone."""
        data, fds, *_ = socket.recv_fds(self._host, 1024, 1)
        if not data:
            return False
        request = json.loads(data)
        number = request["id"]
        parent = os.getpid()
        try:
            if not fds:  # this process has no descriptors left
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pid = os.fork()
            if pid == 0:
                try:
                    if request.get("load"):
                        _serve_text(parent, fds[0], self._locks)
                    else:
                        run(parent, fds[0], self._text, self._locks)
                finally:
                    os._exit(1)
            self._report_fork(number, pid)
        except OSError as error:
            reason = error.strerror or "no process can be made"
            _send(self._host, {"op": "failed", "id": number, "reason": reason})
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _report_fork(self, number: int, pid: int) -> None:
        """Report a new process. Kills it and raises `OSError` if it cannot get a descriptor, or the
        descriptor cannot be sent."""
        process = -1
        try:
            process = system_calls.process_handle(pid)
            _send(self._host, {"op": "forked", "id": number, "pid": pid}, process)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if process >= 0:
                os.close(process)
            raise
        self._sandboxes[process] = (number, pid)
        self._poll.register(process, select.POLLIN)

    def _reap(self, process: int) -> None:
        number, pid = self._sandboxes.pop(process)
        self._poll.unregister(process)
        os.close(process)
        status = os.waitpid(pid, 0)[1]
        _send(self._host, {"op": "ended", "id": number, "code": os.waitstatus_to_exitcode(status)})


def _send(host: socket.socket, message: dict[str, object], *fds: int) -> None:
    """Send a message with descriptors; the process ends if the host is gone. Raises `OSError` if the
    system refuses to send it."""
    try:
        socket.send_fds(host, [json.dumps(message).encode()], fds)
    except ConnectionError:
        os._exit(0)
