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
from mahtab_tui.worker.link.descriptors import is_readable
from mahtab_tui.worker.link.frames import TOKEN_BYTES, FrameError, FrameReader, encode
from mahtab_tui.worker.link.holder import (
    KEY_SUFFIX,
    LAST_OUTPUT_SUFFIX,
    HolderSettings,
    write_last_output,
)
from mahtab_tui.worker.link.spool import PIECE_BYTES, Spool, format_omission

STATUS_TIMEOUT_S = 2.0
"""Seconds for a holder's answer."""
ATTACH_TIMEOUT_S = 15.0
"""Seconds for handing the kernel over; the holder may have been swapped out for hours."""
STOP_TIMEOUT_S = 8.0
"""Seconds for a stopped kernel to end."""
MAX_REPLY_BYTES = 200_000
RECEIVE_BYTES = 65_536
SOCKET_BACKLOG = 128
MAX_CELL_DIGITS = 19
SOCKET_SUFFIX = ".sock"

_HOLDER_ERRORS = (
    *(OSError, FrameError, KernelError),
    *(KeyError, OverflowError, TypeError, ValueError),
)
"""Exceptions if a socket's process does not answer like a holder."""


class DetachedKernel(NamedTuple):
    """A kernel that has a holder, so that it can outlive its screen."""

    session: str
    pid: int
    cell: int
    """The running cell; 0 for none."""
    since: float
    """Start of the running cell, or of the idle time, in seconds since the epoch."""
    has_host: bool
    """Whether a screen is attached."""
    has_run: bool
    """Whether any cell has run."""
    ready: KernelReady | None
    """The kernel's first message; None if it is not ready yet."""
    path: Path
    """The holder's socket."""


def sockets_folder() -> Path:
    """Return the folder of the sockets. Raises `OSError` if others could use it."""
    sockets = home_folder() / "run" / "kernels"
    for folder in (sockets.parent, sockets):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(1, f"{folder} is not a folder of yours")
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
    return sockets


def listen(session: str) -> tuple[socket.socket, Path]:
    """Return the socket on which the holder of a session's new kernel will listen, and its file.
    Raises `OSError`."""
    folder = sockets_folder()
    path = folder / f"{quote(session, safe='')}.{secrets.token_hex(4)}{SOCKET_SUFFIX}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(SOCKET_BACKLOG)
        # The key that each request must have: the file's mode protects it on every system.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(f"{path}{KEY_SUFFIX}", flags, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
    except OSError:
        listener.close()
        remove_files(path)
        raise
    return listener, path


def remove_files(path: Path) -> None:
    """Remove the socket and the key of a holder."""
    for file in (path, Path(f"{path}{KEY_SUFFIX}")):
        with suppress(OSError):
            file.unlink()


def detached_kernels(session: str | None = None) -> list[DetachedKernel]:
    """Return the kernels that have a holder, and remove the files of killed ones. session: only
    those of this session."""
    try:
        folder = sockets_folder()
    except OSError:
        return []

    # A session that is resumed waits longer for its kernel than a list of all kernels.
    timeout = STATUS_TIMEOUT_S if session is None else ATTACH_TIMEOUT_S
    kernels: list[DetachedKernel] = []
    for path in sorted(folder.glob(f"*{SOCKET_SUFFIX}")):
        kernel_session = unquote(path.name.rsplit(".", 2)[0])
        if session is not None and kernel_session != session:
            continue
        try:
            reply, _, _ = ask(path, {"op": "status"}, timeout=timeout)
            kernels.append(_parse_kernel(path, kernel_session, reply))
        except (ConnectionRefusedError, FileNotFoundError):
            # A new socket may not listen yet.
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > STATUS_TIMEOUT_S:
                    remove_files(path)
        except _HOLDER_ERRORS:
            continue
    return kernels


def attach(session: str) -> LocalProcess | None:
    """Attach to a session's kernel, even if another screen has it. The caller holds the session's
    lock."""
    for kernel in detached_kernels(session):
        with suppress(*_HOLDER_ERRORS):
            return _attach(kernel)
    return None


def stop(kernel: DetachedKernel) -> bool:
    """Stop a waiting kernel, and return whether it has ended. Raises `OSError`."""
    with suppress(ProcessLookupError):
        # Opened before the kernel ends, so that its number cannot mean another process.
        process_descriptor = os.pidfd_open(kernel.pid)
        try:
            ask(kernel.path, {"op": "stop"})
            return is_readable(process_descriptor, STOP_TIMEOUT_S)
        finally:
            os.close(process_descriptor)
    return True


def recovered_output(session: str) -> Iterator[tuple[int, bytes, Path]]:
    """Yield the output of cells whose kernel ended without a screen: the number, the output, and
    the file, which the caller must remove."""
    with suppress(OSError):
        for path in sorted(sockets_folder().glob(f"*{SOCKET_SUFFIX}{LAST_OUTPUT_SUFFIX}")):
            if unquote(path.name.split(".")[0]) != session:
                continue
            cell, _, output = path.read_bytes().partition(b"\n")
            if cell.isdigit() and len(cell) <= MAX_CELL_DIGITS:
                yield int(cell), output, path


def save_last_output(session: str, name: str, cell: int, output: Iterable[bytes]) -> None:
    """Save the output of a cell in which a remote kernel ended. Raises `OSError`."""
    path = sockets_folder() / f"{quote(session, safe='')}.{name}{SOCKET_SUFFIX}"
    write_last_output(str(path), cell, output)


def _parse_kernel(path: Path, session: str, reply: dict[str, Any]) -> DetachedKernel:
    """Parse a holder's reply, which is not trusted. Raises one of `_HOLDER_ERRORS`."""
    since = float(reply["since"])
    # Raises an error if it is not a moment that can be described.
    time.localtime(since)
    return DetachedKernel(
        session,
        pid=int(reply["pid"]),
        cell=int(reply["cell"]),
        since=since,
        has_host=bool(reply["host"]),
        has_run=bool(reply["has_run"]),
        ready=checked(KernelReady, reply["hello"]) if reply["hello"] else None,
        path=path,
    )


def _attach(kernel: DetachedKernel) -> LocalProcess:
    """Attach to a kernel. Raises one of `_HOLDER_ERRORS`."""
    our_socket, kernel_socket = socket.socketpair()
    token = os.urandom(TOKEN_BYTES)
    our_socket.sendall(token)
    descriptors: list[int] = []
    lifeline: socket.socket | None = None
    try:
        request = {"op": "attach", "by_force": True}
        reply, descriptors, lifeline = ask(kernel.path, request, kernel_socket, ATTACH_TIMEOUT_S)
        if reply["op"] != "attached" or len(descriptors) != 2 or lifeline is None:
            raise FrameError("the holder did not hand its kernel over")
        # The kernel may have run other cells since it was listed.
        kernel = _parse_kernel(kernel.path, kernel.session, reply)
    except BaseException:
        our_socket.close()
        for descriptor in descriptors:
            os.close(descriptor)
        if lifeline is not None:
            lifeline.close()
        raise
    finally:
        kernel_socket.close()

    pipe, spool_file = descriptors
    spool = Spool(pipe, spool_file)
    return LocalProcess(
        ForeignProcess(kernel.pid),
        our_socket,
        pipe,
        token,
        SpooledOutput(spool),
        SpoolHandle(spool, lifeline, kernel.path, kernel),
        kernel.cell,
    )


def ask(
    path: Path,
    frame: dict[str, Any],
    channel: socket.socket | None = None,
    timeout: float = STATUS_TIMEOUT_S,
) -> tuple[dict[str, Any], list[int], socket.socket | None]:
    """Send a request to a holder, and wait for its reply.

    Args:
        path: The holder's socket.
        frame: The request, without the key.
        channel: The socket for the kernel's frames, to attach to it.
        timeout: Seconds for each step.

    Returns:
        The reply, the descriptors that came with it and, when attaching, the connection, which must
        stay open.

    Raises:
        OSError: The holder cannot be reached.
        FrameError: It does not answer as it should.
    """
    key = Path(f"{path}{KEY_SUFFIX}").read_text("ascii")
    connection = socket.socket(socket.AF_UNIX)
    is_attached = False
    try:
        connection.settimeout(timeout)
        with _short_path(path) as address:
            connection.connect(address)
        request = encode({**frame, "key": key})
        socket.send_fds(connection, [request], [] if channel is None else [channel.fileno()])

        reader = FrameReader(MAX_REPLY_BYTES)
        descriptors: list[int] = []
        while True:
            data, new_descriptors, _, _ = socket.recv_fds(connection, RECEIVE_BYTES, 2)
            descriptors += new_descriptors
            if not data:
                raise FrameError("the holder did not answer")
            for reply in reader.feed(data):
                for descriptor in descriptors:
                    os.set_inheritable(descriptor, False)
                is_attached = channel is not None and reply["op"] == "attached"
                return reply, descriptors, connection if is_attached else None
    finally:
        if not is_attached:
            connection.close()


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Give a socket's path in a form that is short enough for the system."""
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
        """The offset of the next byte to return."""

    def go_to(self, offset: int) -> None:
        self.position = max(self.position, offset)

    def read(self, max_bytes: int = PIECE_BYTES) -> bytes | None:
        # Move what is in the pipe only if everything in the spool was read.
        try:
            if self.position >= self._spool.size and self._spool.move() == 0:
                return b""
        except BlockingIOError:
            return None
        if data := self._spool.read(self.position, max_bytes):
            self.position += len(data)
            return data

        # Output from here on was dropped.
        start = self.position
        self.position = max(start, self._spool.next_byte(start))
        return format_omission(self.position - start)

    def available(self) -> Iterator[bytes]:
        return self.until(self._spool.printed_size())

    def until(self, end: int) -> Iterator[bytes]:
        while self.position < end:
            data = self.read(min(end - self.position, PIECE_BYTES))
            if not data:
                return
            yield data

    def release(self, offset: int) -> None:
        if offset - self._spool.start >= RELEASE_SIZE:
            self._spool.release(offset)


class SpoolHandle:
    """The `DetachHandle` of a kernel on this machine."""

    def __init__(
        self,
        spool: Spool,
        lifeline: socket.socket,
        path: Path,
        kernel: DetachedKernel | None = None,
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
        self._descriptor = os.pidfd_open(pid)
        """Readable once the process has ended."""

    def poll(self) -> int | None:
        return 0 if is_readable(self._descriptor) else None

    def wait(self, timeout: float | None = None) -> int:
        if not is_readable(self._descriptor, timeout):
            raise subprocess.TimeoutExpired("kernel", timeout or 0.0)
        return 0


def start_detachable(
    executable: str, cwd: str, env: Mapping[str, str], session: str, hours: float
) -> tuple[LocalProcess, str]:
    """Start a session's kernel with a holder.

    Args:
        executable: The interpreter.
        cwd: The working directory.
        env: All environment variables.
        session: The id of the session.
        hours: How long an idle kernel waits for a screen.

    Returns:
        The kernel's process; and if it has no holder, why, as a sentence.

    Raises:
        OSError: The interpreter cannot be started.
    """
    try:
        listener, path = listen(session)
    except OSError as error:
        reason = f"{error.filename or 'the folder run'} cannot be used ({error.strerror})"
        return spawn(executable, cwd, env), f"This kernel ends with its screen: {reason}."

    spool_file = os.memfd_create("mahtab-output")
    lifeline, holder_lifeline = socket.socketpair()
    read_end, write_end = os.pipe()
    settings = HolderSettings(
        listener.fileno(), read_end, spool_file, holder_lifeline.fileno(), str(path), hours
    )
    try:
        process = spawn(executable, cwd, env, pipe=(read_end, write_end), holder=settings)
    except BaseException:
        lifeline.close()
        os.close(spool_file)
        remove_files(path)
        raise
    finally:
        listener.close()
        holder_lifeline.close()
    spool = Spool(read_end, spool_file)
    handle = SpoolHandle(spool, lifeline, path)
    return replace(process, reader=SpooledOutput(spool), detach_handle=handle), ""
