"""Knows which processes and threads may not change protected files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Callable

_Task = tuple[int, str]
"""A process or a thread: its number, and when it started."""


class BoundTasks:
    """All are bound while code runs that the user has not approved, until code begins that the user
    has approved; what the former leaves running stays bound."""

    def __init__(self, kernel_pid: int, list_processes: Callable[[], Iterable[int]]) -> None:
        """list_processes: returns the witness, the kernel and all processes below them."""
        self._kernel_pid = kernel_pid
        self._list_processes = list_processes
        self._binds_all = False
        self._free_tasks: frozenset[_Task] = frozenset()
        """Those that were there before the unapproved code."""
        self._suspects: set[_Task] = set()
        """Those that unapproved code has left running."""

    def bind_all(self) -> None:
        if not self._binds_all:
            self._binds_all = True
            self._free_tasks = frozenset(self._list_tasks() - self._suspects)

    def release(self) -> None:
        """Bind only what has been started since `bind_all`."""
        if self._binds_all:
            self._binds_all = False
            self._suspects |= self._list_tasks() - self._free_tasks

    def contains(self, thread: int) -> bool:
        """Return whether a thread is bound."""
        if self._binds_all:
            return True
        if thread == self._kernel_pid or not self._suspects:
            return False
        if (thread, _start_time(thread)) in self._suspects:
            return True

        pid = read_status(thread, "Tgid")
        while pid not in (0, 1, self._kernel_pid, os.getpid()):
            task = pid, _start_time(pid)
            if task in self._free_tasks or task in self._suspects:
                return task in self._suspects
            pid = read_status(pid, "PPid")
        # Whoever started an orphan is not known any more.
        return pid != self._kernel_pid

    def _list_tasks(self) -> set[_Task]:
        """Return all processes but the kernel and the witness, and the kernel's other threads."""
        pids = {*self._list_processes(), *_list_threads(self._kernel_pid)}
        return {(pid, _start_time(pid)) for pid in pids - {self._kernel_pid, os.getpid()}}


def _list_threads(pid: int) -> list[int]:
    try:
        return list(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def _start_time(pid: int) -> str:
    """Return when a process or a thread started, in clock ticks; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as fields:
            return fields.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def read_status(pid: int, field: str) -> int:
    """Return a number that the system tells of a process or a thread; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name == field:
                    return int(value)
    except OSError:
        pass
    return 0
