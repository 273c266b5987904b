"""Kernels on this machine that outlive their screen."""

from __future__ import annotations

import os
import secrets
import socket
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import RELEASE_SIZE, LocalProcess, spawn
from mahtab_tui.kernel.requests import KernelReady, checked
from mahtab_tui.settings.model import home_folder
from mahtab_tui.worker.descriptors import is_readable
from mahtab_tui.worker.frames import TOKEN_SIZE, FrameError, FrameReader, encode
from mahtab_tui.worker.holder import (
    KEY_SUFFIX,
    LAST_OUTPUT_SUFFIX,
    HolderSettings,
    write_last_output,
)
from mahtab_tui.worker.spool import PIECE, Spool, format_omission

STATUS_TIMEOUT = 2.0

ATTACH_TIMEOUT = 15.0
"""Seconds; the holder may have been swapped out for hours."""

STOP_TIMEOUT = 8.0

_LARGEST = 200_000
_SUFFIX = ".sock"
_NO_HOLDER = (OSError, FrameError, KernelError, KeyError, TypeError, ValueError)


class WaitingKernel(NamedTuple):
    session: str
    pid: int
    cell: int
    since: float
    """Start of the running cell, or of the idle time, in seconds since the epoch."""
    has_host: bool
    has_run: bool
    ready: KernelReady | None
    path: Path


def sockets_folder() -> Path:
    """Return the folder of the sockets. Raises `OSError` if others could use it."""
    folder = home_folder() / "run" / "kernels"
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(1, f"{each} is not a folder of yours")
        if stat.S_IMODE(found.st_mode) & 0o077:
            each.chmod(0o700)
    return folder


def listen(session: str) -> tuple[socket.socket, Path]:
    """Return the socket on which the holder of a session's new kernel will listen, and its file.
    Raises `OSError`."""
    folder = sockets_folder()
    path = folder / f"{quote(session, safe='')}.{secrets.token_hex(4)}{_SUFFIX}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(128)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(f"{path}{KEY_SUFFIX}", flags, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
    except OSError:
        listener.close()
        remove_files(path)
        raise
    return listener, path


def remove_files(path: Path) -> None:
    for each in (path, Path(f"{path}{KEY_SUFFIX}")):
        with suppress(OSError):
            each.unlink()


def waiting_kernels(session: str | None = None) -> list[WaitingKernel]:
    """Return the kernels that have a holder, and remove the files of killed ones."""
    try:
        folder = sockets_folder()
    except OSError:
        return []
    kernels: list[WaitingKernel] = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        name = unquote(path.name.rsplit(".", 2)[0])
        if session not in (None, name):
            continue
        try:
            patience = STATUS_TIMEOUT if session is None else ATTACH_TIMEOUT
            reply, _, _ = ask(path, {"op": "status"}, patience=patience)
            kernels.append(_kernel(path, name, reply))
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > STATUS_TIMEOUT:
                    remove_files(path)
        except _NO_HOLDER:
            continue
    return kernels


def attach(session: str) -> LocalProcess | None:
    """Attach to a session's kernel, even if another screen has it. The caller holds the session's
    lock."""
    for kernel in waiting_kernels(session):
        with suppress(*_NO_HOLDER):
            return _attach(kernel)
    return None


def stop(kernel: WaitingKernel) -> bool:
    """Stop a waiting kernel, and return whether it has ended. Raises `OSError`."""
    with suppress(ProcessLookupError):
        watched = os.pidfd_open(kernel.pid)
        try:
            ask(kernel.path, {"op": "stop"})
            return is_readable(watched, STOP_TIMEOUT)
        finally:
            os.close(watched)
    return True


def recovered_output(session: str) -> Iterator[tuple[int, bytes, Path]]:
    """Yield the output of cells whose kernel ended without a screen: the number, the output, and
    the file, which the caller must remove."""
    with suppress(OSError):
        for path in sorted(sockets_folder().glob(f"*{_SUFFIX}{LAST_OUTPUT_SUFFIX}")):
            if unquote(path.name.split(".")[0]) == session:
                cell, _, output = path.read_bytes().partition(b"\n")
                if cell.isdigit() and len(cell) < 20:
                    yield int(cell), output, path


def save_last_output(session: str, name: str, cell: int, output: Iterable[bytes]) -> None:
    """Save the output of a cell in which a remote kernel ended. Raises `OSError`."""
    path = sockets_folder() / f"{quote(session, safe='')}.{name}{_SUFFIX}"
    write_last_output(str(path), cell, output)


def _kernel(path: Path, session: str, reply: dict[str, Any]) -> WaitingKernel:
    ready = checked(KernelReady, reply["hello"]) if reply["hello"] else None
    time.localtime(since := float(reply["since"]))
    pid, cell = int(reply["pid"]), int(reply["cell"])
    has_host, has_run = bool(reply["host"]), bool(reply["has_run"])
    return WaitingKernel(session, pid, cell, since, has_host, has_run, ready, path)


def _attach(kernel: WaitingKernel) -> LocalProcess:
    ours, theirs = socket.socketpair()
    token = os.urandom(TOKEN_SIZE)
    ours.sendall(token)
    try:
        request = {"op": "attach", "by_force": True}
        reply, descriptors, lifeline = ask(kernel.path, request, theirs, ATTACH_TIMEOUT)
        if reply["op"] != "attached" or len(descriptors) != 2 or lifeline is None:
            raise FrameError("the holder did not hand its kernel over")
        kernel = _kernel(kernel.path, kernel.session, reply)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    spool = Spool(descriptors[0], descriptors[1])
    handle = SpoolHandle(spool, lifeline, kernel.path, kernel)
    child, output = ForeignProcess(kernel.pid), SpooledOutput(spool)
    return LocalProcess(child, ours, descriptors[0], token, output, handle, kernel.cell)


def ask(
    path: Path,
    frame: dict[str, Any],
    channel: socket.socket | None = None,
    patience: float = STATUS_TIMEOUT,
) -> tuple[dict[str, Any], list[int], socket.socket | None]:
    """Send a request to a holder; returns its reply, the descriptors that came with it and, when
    attaching, the connection. Raises `OSError` and `FrameError`."""
    key = Path(f"{path}{KEY_SUFFIX}").read_text("ascii")
    connection = socket.socket(socket.AF_UNIX)
    attached = False
    try:
        connection.settimeout(patience)
        with _short_path(path) as address:
            connection.connect(address)
        data = encode({**frame, "key": key})
        socket.send_fds(connection, [data], [] if channel is None else [channel.fileno()])
        reader, descriptors = FrameReader(_LARGEST), []
        while True:
            data, came, _, _ = socket.recv_fds(connection, 65536, 2)
            descriptors += came
            if not data:
                raise FrameError("the holder did not answer")
            for reply in reader.feed(data):
                for descriptor in descriptors:
                    os.set_inheritable(descriptor, False)
                attached = channel is not None and reply["op"] == "attached"
                return reply, descriptors, connection if attached else None
    finally:
        if not attached:
            connection.close()


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class SpooledOutput:
    """The `SeekableOutput` of a kernel on this machine: bytes are moved from the pipe to the
    spool."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.position = 0

    def go_to(self, offset: int) -> None:
        self.position = max(self.position, offset)

    def read(self, most: int = PIECE) -> bytes | None:
        try:
            if self.position >= self._spool.size and self._spool.move() == 0:
                return b""
        except BlockingIOError:
            return None
        if data := self._spool.read(self.position, most):
            self.position += len(data)
            return data
        start = self.position
        self.position = max(start, self._spool.next_byte(start))
        return format_omission(self.position - start)

    def available(self) -> Iterator[bytes]:
        return self.until(self._spool.printed_size())

    def until(self, end: int) -> Iterator[bytes]:
        while self.position < end and (data := self.read(min(end - self.position, PIECE))):
            yield data

    def release(self, offset: int) -> None:
        if offset - self._spool.start >= RELEASE_SIZE:
            self._spool.release(offset)


class SpoolHandle:
    def __init__(
        self, spool: Spool, lifeline: socket.socket, path: Path, kernel: WaitingKernel | None = None
    ) -> None:
        self.lifeline = lifeline
        self.was_reattached = kernel is not None
        self.ready = None if kernel is None else kernel.ready
        self._spool = spool
        self._path = path

    def leave(self) -> None:
        self.lifeline.close()
        os.close(self._spool.file)

    def ended(self) -> None:
        self.leave()
        remove_files(self._path)


class ForeignProcess:
    """A process that another program started, which alone learns its exit code."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._watched = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return 0 if is_readable(self._watched) else None

    def wait(self, timeout: float | None = None) -> int:
        if not is_readable(self._watched, timeout):
            raise subprocess.TimeoutExpired("kernel", timeout or 0.0)
        return 0


def start_detachable(
    executable: str, cwd: str, env: Mapping[str, str], session: str, hours: float
) -> tuple[LocalProcess, str]:
    """Start a session's kernel; returns it, and a sentence if it has no holder. Raises
    `OSError`."""
    try:
        listener, path = listen(session)
    except OSError as error:
        why = f"{error.filename or 'the folder run'} cannot be used ({error.strerror})"
        return spawn(executable, cwd, env), f"This kernel ends with its screen: {why}."
    spool = os.memfd_create("mahtab-output")
    lifeline, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    settings = HolderSettings(listener.fileno(), read_end, spool, theirs.fileno(), str(path), hours)
    try:
        process = spawn(executable, cwd, env, pipe=(read_end, write_end), holder=settings)
    except BaseException:
        lifeline.close()
        os.close(spool)
        remove_files(path)
        raise
    finally:
        listener.close()
        theirs.close()
    spooled = Spool(read_end, spool)
    handle = SpoolHandle(spooled, lifeline, path)
    return replace(process, reader=SpooledOutput(spooled), detach_handle=handle), ""
