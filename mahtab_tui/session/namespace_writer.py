"""Saves the namespace while a session runs: when no cell has run for a moment, and at the end.

The kernel itself writes its variables to files. `namespace_store.py` restores them in the next kernel.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.bus.records import warn
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import KeepResult

QUIET_S = 1.0
"""The namespace is saved when no cell has run for this many seconds."""
BACKGROUND_WRITE_S = 900.0
"""Saving may take this many seconds while nobody waits for it."""


class UnrestoredVariables(NamedTuple):
    """What an earlier kernel has saved, and this one does not have."""

    carried_files: Sequence[str]
    """The names of files that stay as they are, because their variables may still be restored."""
    lost_names: Sequence[str]
    """The variables that could not be restored."""


class NamespaceWriter:
    """Has the kernel save its variables after each change. Any thread may call it."""

    def __init__(
        self,
        log: logging.Logger,
        kernel: Kernel,
        condition: threading.Condition,
        unrestored: Callable[[], UnrestoredVariables],
    ) -> None:
        """Create a writer that does not write before `start` and `allow`.

        Args:
            log: Gets a warning if the variables cannot be saved.
            kernel: The session's kernel.
            condition: Guards the state of this writer, and whatever `unrestored` reads.
            unrestored: Returns what must not get lost when the variables are saved. It is called
                with the condition held.
        """
        self._log = log
        self._kernel = kernel
        self._unrestored = unrestored
        self._condition = condition
        """Notified when there is a change to save, and at the end."""
        self._write_lock = threading.Lock()
        """Held while the namespace is saved."""
        self._may_write = False
        """Whether the kernel has all that the files have, so that its variables may replace them."""
        self._change_count = 0
        """Grows with each change of the namespace."""
        self._changed_at = 0.0
        """When the newest change was made, in seconds of the monotonic clock."""
        self._attempted_change_count = 0
        """The count of changes when saving was tried for the last time."""
        self._written_change_count = 0
        """The count of changes that are saved."""
        self._last_written = KeepResult()
        """What was saved last."""
        self._reported_error = ""
        """The error of the last attempt to save; empty if it succeeded."""
        self._timeout_s = BACKGROUND_WRITE_S
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_until_closed, name="keep", daemon=True)

    @property
    def is_started(self) -> bool:
        return self._thread.ident is not None

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def has_unwritten_changes(self) -> bool:
        """Whether the kernel has variables that are not saved yet."""
        return self._may_write and self._change_count != self._written_change_count

    def count_unsaved(self, created_count: int) -> int:
        """Return how many variables would be lost with the kernel.

        Args:
            created_count: How many variables cells have made.
        """
        if not self._may_write:
            return created_count
        return min(created_count, self._last_written.missing)

    def start(self) -> None:
        """Begin to save changes, unless that has begun."""
        with self._condition:
            if not self.is_started:
                self._thread.start()

    def allow(self) -> None:
        """Let the variables of the kernel replace those in the files."""
        with self._condition:
            self._may_write = True

    def forbid(self) -> None:
        """Save nothing before `allow`, because the variables exist only in the files."""
        with self._condition:
            self._may_write = False

    def schedule(self) -> None:
        """Save the namespace once no cell has run for a moment."""
        with self._condition:
            self._change_count += 1
            self._changed_at = time.monotonic()
            self._condition.notify_all()

    def begin_close(self, timeout_s: float) -> None:
        """Let the thread save what is not saved, and then end.

        Args:
            timeout_s: How long saving may take.
        """
        with self._condition:
            self._timeout_s = timeout_s
            self._closing.set()
            self._condition.notify_all()

    def wait_for_end(self) -> None:
        """Wait for the thread after `begin_close`, at most as long as saving may take."""
        if self.is_started:
            self._thread.join(self._timeout_s)

    def save(self, timeout_s: float) -> None:
        """Save the namespace now if it has changed, and wait for that.

        Args:
            timeout_s: How long to wait at most.
        """
        with self._write_lock:
            with self._condition:
                self._attempted_change_count = self._change_count
                if not self.has_unwritten_changes:
                    return
                change_count = self._change_count
                unrestored = self._unrestored()

            try:
                result = self._kernel.keep(
                    unrestored.carried_files, unrestored.lost_names, timeout_s
                )
            except KernelError:
                # The kernel is busy with a cell, or has ended.
                return
            if not result.error:
                self._written_change_count = change_count
                self._last_written = result
            elif result.error != self._reported_error:
                warn(
                    self._log,
                    f"The variables were not saved: {result.error}."
                    " What was saved earlier is still there.",
                )
            self._reported_error = result.error

    def _write_until_closed(self) -> None:
        """Save changes until the writer is closed. Runs on a thread."""
        while True:
            with self._condition:
                self._condition.wait_for(self._has_work)
            self._wait_for_quiet()
            # Asked before saving, so that a change that comes meanwhile is saved, too.
            is_last = self.is_closing
            self.save(self._timeout_s)
            if is_last:
                return

    def _has_work(self) -> bool:
        return self.is_closing or self._change_count != self._attempted_change_count

    def _wait_for_quiet(self) -> None:
        """Wait until no cell has run for a moment, or until the writer is closed.

        Further changes do not wake this thread, because there may be hundreds a second.
        """
        while not self.is_closing:
            remaining_s = QUIET_S - (time.monotonic() - self._changed_at)
            if remaining_s <= 0:
                return
            self._closing.wait(remaining_s)
