"""Knows which processes and threads may not change protected files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Callable, NamedTuple


class _Task(NamedTuple):
    """A process or a thread, also after its number was used again."""

    number: int
    start_time: str
    """In clock ticks; empty if it has ended."""


class BoundTasks:
    """The processes and threads that may not change protected files.

    All are bound while code runs that the user has not approved, until code begins that the user has
    approved; what the former leaves running stays bound.
    """

    def __init__(self, kernel_pid: int, list_processes: Callable[[], Iterable[int]]) -> None:
        """Bind nothing.

        Args:
            kernel_pid: The kernel.
            list_processes: Returns the witness, the kernel and all processes below them.
        """
        self._kernel_pid = kernel_pid
        self._list_processes = list_processes
        self._binds_all = False
        self._free_tasks: frozenset[_Task] = frozenset()
        """Tasks that were there before the unapproved code."""
        self._suspects: set[_Task] = set()
        """Tasks that unapproved code has left running."""

    def bind_all(self) -> None:
        """Bind everything, because code begins that the user has not approved."""
        if not self._binds_all:
            self._binds_all = True
            self._free_tasks = frozenset(self._list_tasks() - self._suspects)

    def release(self) -> None:
        """Bind only what has been started since `bind_all`, because the user has approved what begins."""
        if self._binds_all:
            self._binds_all = False
            self._suspects |= self._list_tasks() - self._free_tasks

    def contains(self, thread: int) -> bool:
        """Return whether a thread is bound. If it is not known who has started it, it is."""
        if self._binds_all:
            return True
        if thread == self._kernel_pid or not self._suspects:
            return False
        if _read_task(thread) in self._suspects:
            return True

        pid = read_status(thread, "Tgid")
        while pid not in (0, 1, self._kernel_pid, os.getpid()):
            task = _read_task(pid)
            if task in self._free_tasks or task in self._suspects:
                return task in self._suspects
            pid = read_status(pid, "PPid")
        # Whoever started an orphan is not known any more.
        return pid != self._kernel_pid

    def _list_tasks(self) -> set[_Task]:
        """Return all processes but the kernel and the witness, and the kernel's other threads."""
        pids = {*self._list_processes(), *_list_threads(self._kernel_pid)}
        return {_read_task(pid) for pid in pids - {self._kernel_pid, os.getpid()}}


def _list_threads(pid: int) -> list[int]:
    try:
        return list(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def _read_task(number: int) -> _Task:
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            # The name, in parentheses, may contain anything.
            fields = file.read().rpartition(b")")[2].split()
        return _Task(number, fields[19].decode())
    except (OSError, IndexError):
        return _Task(number, "")


def read_status(pid: int, field: str) -> int:
    """Return a number that the system tells of a process or a thread; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _colon, value = line.partition(":")
                if name == field:
                    return int(value)
    except OSError:
        pass
    return 0
