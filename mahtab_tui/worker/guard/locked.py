"""Runs a cell in a fork of the kernel that the operating system has locked: it can read and
compute, and its results return as plain data. Nothing that the fork sends is trusted or
executed."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from ..cells.executor import Executor, ForkReport
from ..link.held_signals import HeldSignals
from . import read_only
from .fork_messages import stopped
from .fork_observer import ForkObserver
from .locked_fork import LockedFork
from .lost_state import write_waiting_text
from .private_places import readable_paths

if TYPE_CHECKING:
    from ..cells.environment import CellEnvironment
    from ..link.host_calls import HostCalls
    from ..witness.forking import ForkThread

_MAX_QUOTED_NAMES = 20


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
    """Run a cell in a locked fork, on the main thread. Nothing of it remains after
    `KeyboardInterrupt`. keep: report its new values, too. fork_thread: forks in place of this
    thread, whose files are watched."""
    if obstacle := read_only.missing():
        return stopped(f"cannot be locked: {obstacle}")

    try:
        project = os.getcwd()
    except OSError as error:
        return stopped(f"cannot be locked: the working folder is missing ({error.strerror})")
    readable = readable_paths(project, [*filter(None, sys.path), *environment.loaded])
    parent_pid = os.getpid()
    with HeldSignals() as held, ExitStack() as own_ends, ExitStack() as fork_ends:
        try:
            channel, fork_channel = socket.socketpair()
            own_ends.enter_context(channel)
            fork_ends.enter_context(fork_channel)
            # A cell may have called `socket.setdefaulttimeout`.
            channel.setblocking(True)
            fork_channel.setblocking(True)
            output_reader, output_writer = os.pipe()
            own_ends.callback(os.close, output_reader)
            fork_ends.callback(os.close, output_writer)
        except OSError as error:
            return stopped(f"could not be forked ({error.strerror})")

        def run_fork() -> None:
            child = LockedFork(executor, environment, calls, fork_channel.fileno(), keep=keep)
            child.run(parent_pid, output_writer, readable, cell, source)

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
                    pid, channel, output_reader, executor.namespace, source, keep=keep
                )
                return observer.follow()
        finally:
            # A thread of the user's may have waited for all children.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def describe_locked_run(report: ForkReport, namespace: dict[str, object]) -> str:
    """Name what stays in the fork or is a copy, in a line; empty if nothing does."""
    lost_names = report.fork_only
    existing_names = [name for name in lost_names if name in namespace]
    new_names = [name for name in lost_names if name not in namespace]

    clauses = []
    if changed := [*existing_names, *report.lost_settings]:
        quoted_names = _quote_names(changed, has_more=report.has_more_lost)
        clauses.append(f"changes to {quoted_names} were not kept")
    if new_names:
        verb = "was" if len(new_names) == 1 and not report.has_more_lost else "were"
        quoted_names = _quote_names(new_names, has_more=report.has_more_lost)
        clauses.append(f"{quoted_names} {verb} not kept")
    if report.copied:
        copies = "were kept as copies that share"
        if len(report.copied) == 1:
            copies = "was kept as a copy that shares"
        clauses.append(f"{_quote_names(list(report.copied))} {copies} nothing with other variables")
    if clauses:
        return f"ran apart: {'; '.join(clauses)}\n"
    return ""


def _quote_names(names: list[str], *, has_more: bool = False) -> str:
    """Return the first names in backticks, and how many others there are. has_more: whether there
    may be more names than these."""
    text = ", ".join(f"`{name}`" for name in names[:_MAX_QUOTED_NAMES])
    unquoted_count = len(names) - _MAX_QUOTED_NAMES
    if has_more:
        return f"{text} and many more"
    if unquoted_count > 0:
        return f"{text} and {unquoted_count:,} more"
    return text
