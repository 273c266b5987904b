"""Runs a cell in a fork of the kernel that the operating system has locked: it can read and
compute, and its results return as plain data. Nothing that the fork sends is trusted or
executed."""

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

_MAX_QUOTED_NAMES = 20
"""Maximum names of a list that are shown to the user."""


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
                observer = ForkObserver(
                    pid,
                    connection.channel,
                    connection.output_reader,
                    executor.namespace,
                    source,
                    keep=keep,
                )
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


def describe_locked_run(report: ForkReport, namespace: dict[str, object]) -> str:
    """Tell the user, in a line, what of a locked run is lost, and which of its values are copies;
    return an empty string if nothing is.

    Args:
        report: What the cell has done.
        namespace: The user's namespace before the cell.
    """
    existing_names = [name for name in report.fork_only if name in namespace]
    new_names = [name for name in report.fork_only if name not in namespace]
    changed_names = [*existing_names, *report.lost_settings]

    clauses: list[str] = []
    if changed_names:
        names = _quote_names(changed_names, has_more=report.has_more_lost)
        clauses.append(f"changes to {names} were not kept")
    if new_names:
        names = _quote_names(new_names, has_more=report.has_more_lost)
        is_single = len(new_names) == 1 and not report.has_more_lost
        verb = "was" if is_single else "were"
        clauses.append(f"{names} {verb} not kept")
    if report.copied:
        names = _quote_names(list(report.copied))
        copies = "were kept as copies that share"
        if len(report.copied) == 1:
            copies = "was kept as a copy that shares"
        clauses.append(f"{names} {copies} nothing with other variables")
    if not clauses:
        return ""
    return f"ran apart: {'; '.join(clauses)}\n"


def _quote_names(names: list[str], *, has_more: bool = False) -> str:
    """Return the first names in backticks, and how many others there are.

    Args:
        names: The names.
        has_more: Whether there may be more names than these.
    """
    quoted_names = ", ".join(f"`{name}`" for name in names[:_MAX_QUOTED_NAMES])
    unquoted_count = len(names) - _MAX_QUOTED_NAMES
    if has_more:
        return f"{quoted_names} and many more"
    if unquoted_count > 0:
        return f"{quoted_names} and {unquoted_count:,} more"
    return quoted_names
