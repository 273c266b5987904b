"""Runs a cell in a fork of the kernel that the operating system has locked: it can read and
compute, and its results return as plain data. Nothing that the fork sends is trusted or
executed.

`locked_fork` is the fork's side, and `fork_observer` the kernel's.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from ..cells.executor import Executor
from ..cells.outcomes import ForkReport
from ..link.held_signals import HeldSignals
from . import read_only
from .fork_messages import stopped
from .fork_observer import ForkObserver
from .locked_fork import LockedFork
from .lost_state import write_waiting_text
from .readable_paths import readable_paths

if TYPE_CHECKING:
    from ..cells.environment import CellEnvironment
    from ..link.host_calls import HostCalls
    from ..witness.forking import ForkThread


class _Connection(NamedTuple):
    """The ends of what connects the kernel with a fork. Each process closes those of the other."""

    channel: socket.socket
    """The kernel's end of the socket for messages."""
    fork_channel: socket.socket
    output_reader: int
    """The descriptor from which the kernel reads what the code prints."""
    output_writer: int


def run_locked(
    executor: Executor,
    environment: CellEnvironment,
    calls: HostCalls,
    cell: int,
    source: str,
    *,
    keep: bool,
    fork_thread: ForkThread | None = None,
) -> ForkReport:
    """Run a cell in a locked fork. Call this on the main thread only. Nothing of the cell remains
    after `KeyboardInterrupt`.

    Args:
        executor: The kernel's executor, whose namespace the cell reads.
        environment: The kernel's environment.
        calls: The kernel's calls to the host.
        cell: The number of the cell.
        source: The code of the cell.
        keep: Whether the report contains the cell's new values.
        fork_thread: A thread that forks in place of this one, which cannot do it if its files are
            watched; None if they are not.

    Returns:
        What the cell has done; if it cannot run in a fork, why it needs more.
    """
    obstacle = read_only.missing()
    if obstacle:
        return stopped(f"cannot be locked: {obstacle}")
    try:
        project = os.getcwd()
    except OSError as error:
        return stopped(f"cannot be locked: the working folder is missing ({error.strerror})")

    module_folders = filter(None, sys.path)
    readable = readable_paths(project, [*module_folders, *environment.loaded])
    parent_pid = os.getpid()
    with HeldSignals() as held, ExitStack() as own_ends, ExitStack() as fork_ends:
        try:
            connection = _connect(own_ends, fork_ends)
        except OSError as error:
            return stopped(f"could not be forked ({error.strerror})")

        def run_fork() -> None:
            channel_descriptor = connection.fork_channel.fileno()
            child = LockedFork(executor, environment, calls, channel_descriptor, keep=keep)
            child.run(parent_pid, connection.output_writer, readable, cell, source)

        with held.passed_on():
            write_waiting_text(list(executor.namespace.values()))
        try:
            if fork_thread is None:
                pid = held.fork(run_fork)
            else:
                pid = fork_thread.fork(held, run_fork)
        except OSError as error:
            return stopped(f"could not be forked ({error.strerror})")
        try:
            fork_ends.close()
            with held.passed_on():
                channel = connection.channel
                output = connection.output_reader
                observer = ForkObserver(pid, channel, output, executor.namespace, source, keep=keep)
                return observer.follow()
        finally:
            _end_process(pid)


def _connect(own_ends: ExitStack, fork_ends: ExitStack) -> _Connection:
    """Make a socket and a pipe between the kernel and a fork.

    Args:
        own_ends: Closes the kernel's ends.
        fork_ends: Closes the fork's ends.

    Raises:
        OSError: They cannot be made. The stacks close those that were.
    """
    channel, fork_channel = socket.socketpair()
    own_ends.enter_context(channel)
    fork_ends.enter_context(fork_channel)
    # A cell may have called `socket.setdefaulttimeout`.
    channel.setblocking(True)
    fork_channel.setblocking(True)
    output_reader, output_writer = os.pipe()
    own_ends.callback(os.close, output_reader)
    fork_ends.callback(os.close, output_writer)
    return _Connection(channel, fork_channel, output_reader, output_writer)


def _end_process(pid: int) -> None:
    """Kill a child process, and wait for it."""
    # A thread of the user's may have waited for all children.
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
