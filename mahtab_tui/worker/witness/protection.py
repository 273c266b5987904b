"""Refuses the calls by which code without approval would change protected files."""

from __future__ import annotations

import os

from .binding import BoundTasks
from .call_paths import read_flags, read_seen_paths
from .calls import FileCall, may_change_files
from .listener import Notification
from .process_files import descendants
from .protected_paths import changed_protected_path


class FileProtection:
    """Knows which processes may not change protected files, and which they have tried to change."""

    def __init__(self, kernel_pid: int, machine: str) -> None:
        """Protect files from nobody.

        Args:
            kernel_pid: The kernel.
            machine: The processor.
        """
        self._machine = machine
        self.bound = BoundTasks(kernel_pid, lambda: descendants(os.getpid()))
        self.own_folder = ""
        """Where the kernel keeps variables, which is not protected, with a slash at its end; empty if it
        keeps none."""
        self._refused_paths: dict[str, None] = {}
        """Protected files that were not changed, until the kernel is told."""

    def pop_refused_paths(self) -> list[str]:
        """Return the protected files that were not changed since this was called last."""
        paths = list(self._refused_paths)
        self._refused_paths.clear()
        return paths

    def refuses(self, notification: Notification) -> bool:
        """Return whether a call must fail, because it would change a protected file for code that the
        user has not approved."""
        if not self.bound.contains(notification.thread):
            return False
        try:
            path = self._changed_path(notification)
        except (FileNotFoundError, ProcessLookupError):  # the call fails by itself
            return False
        except Exception:  # what is not known may be a protected file
            path = "a file whose name cannot be read"
        if path:
            self._refused_paths[path] = None
        return bool(path)

    def _changed_path(self, notification: Notification) -> str:
        """Return the protected path that a call would change; empty if there is none. Raises
        `OSError` and `UnseenError`."""
        call = notification.call
        if call is None:
            number = notification.call_number
            is_refused = may_change_files(self._machine, number, notification.arguments)
            return "a file (by a 32-bit program)" if is_refused else ""
        if call.action == "hide":
            return f"files (by the system call {call.name})"
        flags = read_flags(notification)
        paths = read_seen_paths(notification, flags)
        file_call = FileCall(call.name, call.action, flags, paths)
        return changed_protected_path(file_call, notification.thread, self.own_folder)
