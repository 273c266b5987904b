"""Kernels on this machine that outlive their screen."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.foreign_process import ForeignProcess
from mahtab_tui.kernel.holder_connection import (
    MAX_DESCRIPTORS,
    SOCKET_SUFFIX,
    STATUS_TIMEOUT_S,
    HolderListener,
    HolderReply,
    ask,
    listen,
    remove_files,
    sockets_folder,
)
from mahtab_tui.kernel.local_process import LocalProcess, spawn
from mahtab_tui.kernel.messages import KernelReady, checked
from mahtab_tui.kernel.spooled_output import SpooledOutput, SpoolHandle
from mahtab_tui.worker.link.descriptors import is_readable
from mahtab_tui.worker.link.frames import TOKEN_BYTES, FrameError
from mahtab_tui.worker.link.holder_protocol import (
    LAST_OUTPUT_SUFFIX,
    HolderSettings,
    write_last_output,
)
from mahtab_tui.worker.link.spool import Spool

ATTACH_TIMEOUT_S = 15.0
"""Seconds for handing the kernel over; the holder may have been swapped out for hours."""
STOP_TIMEOUT_S = 8.0
"""Seconds for a stopped kernel to end."""
MAX_CELL_DIGITS = 19
"""Digits of a cell's number in a file, which could be damaged."""

_HOLDER_ERRORS = (
    OSError,
    FrameError,
    KernelError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
)
"""Raised when the process behind a socket does not answer like a holder."""


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


def detached_kernels(session: str | None = None) -> list[DetachedKernel]:
    """Return the kernels that have a holder, and remove the files of killed ones.

    Args:
        session: Only those of this session.
    """
    try:
        folder = sockets_folder()
    except OSError:
        return []

    # A session that is resumed waits longer for its kernel than a list of all kernels.
    timeout_s = STATUS_TIMEOUT_S if session is None else ATTACH_TIMEOUT_S
    kernels: list[DetachedKernel] = []
    for path in sorted(folder.glob(f"*{SOCKET_SUFFIX}")):
        kernel_session = unquote(path.name.rsplit(".", 2)[0])
        if session is not None and kernel_session != session:
            continue
        try:
            reply = ask(path, {"op": "status"}, timeout_s=timeout_s)
            kernels.append(_parse_kernel(path, kernel_session, reply.fields))
        except (ConnectionRefusedError, FileNotFoundError):
            _remove_old_files(path)
        except _HOLDER_ERRORS:
            continue
    return kernels


def _remove_old_files(path: Path) -> None:
    """Remove the files of a holder that does not listen, unless its socket is so new that it may
    not listen yet."""
    with suppress(OSError):
        if time.time() - path.lstat().st_mtime > STATUS_TIMEOUT_S:
            remove_files(path)


def attach(session: str) -> LocalProcess | None:
    """Attach to a session's kernel, even if another screen has it.

    The caller holds the session's lock.
    """
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


class RecoveredOutput(NamedTuple):
    """The output of a cell whose kernel ended without a screen."""

    cell: int
    output: bytes
    path: Path
    """The file with the output, which whoever has taken it over must remove."""


def recovered_output(session: str) -> Iterator[RecoveredOutput]:
    """Yield the output of a session's cells whose kernel ended without a screen."""
    with suppress(OSError):
        for path in sorted(sockets_folder().glob(f"*{SOCKET_SUFFIX}{LAST_OUTPUT_SUFFIX}")):
            if unquote(path.name.split(".")[0]) != session:
                continue
            cell, _, output = path.read_bytes().partition(b"\n")
            if cell.isdigit() and len(cell) <= MAX_CELL_DIGITS:
                yield RecoveredOutput(int(cell), output, path)


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
    reply: HolderReply | None = None
    try:
        request = {"op": "attach", "by_force": True}
        reply = ask(kernel.path, request, kernel_socket, ATTACH_TIMEOUT_S)
        _check_handover(reply)
        # The kernel may have run other cells since it was listed.
        kernel = _parse_kernel(kernel.path, kernel.session, reply.fields)
    except BaseException:
        our_socket.close()
        if reply is not None:
            reply.close()
        raise
    finally:
        kernel_socket.close()

    assert reply.connection is not None
    pipe, spool_file = reply.descriptors
    spool = Spool(pipe, spool_file)
    handle = SpoolHandle(
        spool, reply.connection, kernel.path, ready=kernel.ready, was_reattached=True
    )
    return LocalProcess(
        ForeignProcess(kernel.pid),
        our_socket,
        pipe,
        token,
        SpooledOutput(spool),
        handle,
        kernel.cell,
    )


def _check_handover(reply: HolderReply) -> None:
    """Raise `FrameError` if a holder has not handed over its kernel with both files."""
    is_complete = len(reply.descriptors) == MAX_DESCRIPTORS and reply.connection is not None
    if reply.fields["op"] != "attached" or not is_complete:
        raise FrameError("the holder did not hand its kernel over")


class StartedKernel(NamedTuple):
    """A kernel that was started to outlive its screen."""

    process: LocalProcess
    problem: str = ""
    """Why it has no holder, and ends with its screen, as a sentence; empty if it has one."""


def start_detachable(
    executable: str,
    cwd: str,
    env: Mapping[str, str],
    session: str,
    hours: float,
    *,
    witness: bool = False,
) -> StartedKernel:
    """Start a session's kernel, with a holder if there can be one.

    Args:
        executable: The interpreter.
        cwd: The working directory.
        env: All environment variables.
        session: The id of the session.
        hours: How long an idle kernel waits for a screen.
        witness: Whether a process above the kernel watches its files.

    Raises:
        OSError: The interpreter cannot be started.
    """
    spawn_kernel = partial(spawn, executable, cwd, env, witness=witness)
    try:
        listener = listen(session)
    except OSError as error:
        reason = f"{error.filename or 'the folder run'} cannot be used ({error.strerror})"
        return StartedKernel(spawn_kernel(), f"This kernel ends with its screen: {reason}.")
    return StartedKernel(_spawn_with_holder(spawn_kernel, listener, hours))


def _spawn_with_holder(
    spawn_kernel: Callable[..., LocalProcess], listener: HolderListener, hours: float
) -> LocalProcess:
    """Start a kernel with a holder.

    The holder inherits one end of a connection, the lifeline. We keep the other end, so that the
    holder knows when the screen has gone.

    Args:
        spawn_kernel: Starts the process, given `pipe` and `holder`.
        listener: The holder's socket, which this closes.
        hours: How long an idle kernel waits for a screen.

    Raises:
        OSError: The interpreter cannot be started.
    """
    spool_file = os.memfd_create("mahtab-output")
    lifeline, holder_lifeline = socket.socketpair()
    read_end, write_end = os.pipe()
    settings = HolderSettings(
        listener.socket.fileno(),
        read_end,
        spool_file,
        holder_lifeline.fileno(),
        str(listener.path),
        hours,
    )
    try:
        process = spawn_kernel(pipe=(read_end, write_end), holder=settings)
    except BaseException:
        lifeline.close()
        os.close(spool_file)
        remove_files(listener.path)
        raise
    finally:
        listener.socket.close()
        holder_lifeline.close()
    spool = Spool(read_end, spool_file)
    handle = SpoolHandle(spool, lifeline, listener.path)
    return replace(process, reader=SpooledOutput(spool), detach_handle=handle)
