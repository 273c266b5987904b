"""Saves the namespace while the session runs, and restores it in a new kernel."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mahtab_tui.bus.records import Namespace, Restore, emit, warn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import KeepResult, NotSaved, SavedFile, SavedNamespace
from mahtab_tui.system import Lazy, start_thread

QUIET_S = 1.0
"""Seconds without another cell before the namespace is saved."""
BACKGROUND_WRITE_S = 900.0
"""Seconds for saving while nobody waits for it."""
MAX_NAMED_VARIABLES = 5
"""Variables that were not restored which a sentence names."""

# Shown in the namespace pane in place of an author.
RESTORING = "restoring"
RESTORED = "restored"
NOT_SAVED = "not kept"

_WORD = re.compile(r"\w+")


class NamespaceStore:
    """Saves the variables of a kernel in files, and restores them in the next kernel."""

    def __init__(
        self, log: logging.Logger, kernel: Kernel, last_records: Lazy[dict[str, Namespace]]
    ) -> None:
        """last_records: the last cell's record for each name that an earlier screen saved. They are
        made when a thread needs them, because a session may have set very many names."""
        self._last_records = last_records
        self._log = log
        self._kernel = kernel
        self._lock = threading.Condition()
        """Guards the fields below; notified when they change."""
        self._reading = threading.Lock()
        """Held while a file is restored."""
        self._writing = threading.Lock()
        """Held while the namespace is saved."""
        self._active = False
        """Whether the kernel has what the files have, so that its variables may replace them."""
        self._closing = threading.Event()
        self._write_seconds = BACKGROUND_WRITE_S
        # Counters of changes: now, at the last attempt to save, and at the last success.
        self._changes = 0
        self._changed_at = 0.0
        """Monotonic time of the newest change, in seconds."""
        self._attempted_changes = 0
        self._written_changes = 0
        self._cells = 0
        """Cells that run or wait; meanwhile only variables that they mention are restored."""
        self._pending_files: dict[str, SavedFile] = {}
        """Files that are not restored yet, by name."""
        self._retained_files: list[str] = []
        """Partly unreadable files, kept for a later kernel."""
        self._attempted_files: set[str] = set()
        """Files that were read, or during whose reading the kernel died."""
        self._missing: dict[str, NotSaved] = {}
        """Variables that were not restored, by name."""
        self._restored: list[Variable] = []
        self._code_names: frozenset[str] = frozenset()
        """Functions and classes, which may use any other variable."""
        self._last_result = KeepResult()
        self.restore_listeners: list[
            Callable[[int | None, str | None, Sequence[Change]], object]
        ] = []
        """Called with a cell, None if it is not known, its party, and the changes by which its
        names came back."""
        self._reported_error = ""
        """The error of the last attempt to save; empty if it succeeded."""
        self._writer = threading.Thread(target=self._write_changes, name="keep", daemon=True)

    # Restoring

    def start_restore(self, *, waits: bool = False) -> None:
        """Restore the saved variables in a new kernel, on a thread. waits: whether to wait until all
        are restored."""
        if self._closing.is_set():
            return
        try:
            saved = self._kernel.saved_namespace()
        except KernelError as error:
            warn(self._log, str(error))
            return
        if saved is None:
            return

        with self._lock:
            self._reset_files(saved)
            is_first_kernel = self._writer.ident is None
            if is_first_kernel:
                self._writer.start()
        self.log_pending()
        if self._pending_files or self._missing:
            thread = start_thread("restore", self._restore, self._pending_files)
            if waits:
                thread.join()
        elif not is_first_kernel:
            emit(self._log, Restore("The namespace is empty: no variables were saved."))

    def resume(self, carried_files: Sequence[str] | None, lost_names: Sequence[str]) -> None:
        """Resume with a reattached kernel.

        Args:
            carried_files: Files that the last request to save told the kernel to keep; None if
                there was no such request.
            lost_names: Variables that this request named as not restored.
        """
        if self._closing.is_set():
            return
        saved = self._kernel.saved_namespace()
        if saved is None:
            return

        if carried_files is None:
            carried_files = [file.name for file in saved.files]
        with self._lock:
            self._active = True
            self._retained_files = list(carried_files)
            self._missing = {
                value.variable.name: value
                for value in saved.missing
                if value.variable.name in lost_names
            }
            # The kernel may not have saved everything by itself.
            self._schedule_write()
            if self._writer.ident is None:
                self._writer.start()
        self.log_pending()

    def _reset_files(self, saved: SavedNamespace) -> None:
        """Start to restore what is saved, except files during whose reading a kernel has died."""
        fatal_names = self._attempted_files.difference(self._retained_files)
        fatal_files = [file for file in saved.files if file.name in fatal_names]
        reason = "the kernel ended while reading it"
        lost_values = [
            NotSaved(variable, reason) for file in fatal_files for variable in file.variables
        ]

        self._active = True
        self._restored = []
        self._missing = {value.variable.name: value for value in (*saved.missing, *lost_values)}
        self._retained_files = [file.name for file in fatal_files]
        self._pending_files = {file.name: file for file in saved.files if file not in fatal_files}
        self._code_names = frozenset(
            variable.name
            for file in saved.files
            for variable in file.variables
            if variable.kind in ("function", "class")
        )

    def log_pending(self) -> None:
        """Log the variables that are being restored, and those that were not kept."""
        pending = [
            Change(variable.name, "restoring", variable)
            for file in list(self._pending_files.values())
            for variable in file.variables
        ]
        self._log_changes(RESTORING, pending)
        self._log_missing(self._missing)

    def before_cell(self, code: str) -> None:
        """Restore the variables that code mentions, before it runs."""
        with self._lock:
            self._cells += 1
        if not self._pending_files:
            return

        words = set(_WORD.findall(code))
        # A function may use any variable.
        needs_all = not words.isdisjoint(self._code_names)
        for file in list(self._pending_files.values()):
            file_names = {variable.name for variable in file.variables}
            if needs_all or not words.isdisjoint(file_names):
                self._restore_file(file)

    def after_cell(self) -> None:
        with self._lock:
            self._cells -= 1
            self._schedule_write()

    def _restore(self, pending_files: dict[str, SavedFile]) -> None:
        """Restore files while no cell runs, and log how many variables are back."""
        for file in list(pending_files.values()):
            with self._lock:
                self._lock.wait_for(lambda: not self._cells)
            self._restore_file(file)
        # The dictionary is another one if the kernel was replaced in the meantime.
        if self._pending_files is pending_files:
            names = [variable.name for variable in self._restored]
            emit(self._log, Restore(describe_restored(names, list(self._missing.values()))))

    def _restore_file(self, file: SavedFile) -> None:
        """Restore the variables of a file, unless another thread has done so."""
        with self._reading:
            if self._pending_files.get(file.name) is not file:
                return

            self._attempted_files.add(file.name)
            changes: tuple[Change, ...] = ()
            try:
                result = self._kernel.restore(file)
            except KernelError as error:
                reason = f"it could not be read: {error}"
                missing_reasons = {variable.name: reason for variable in file.variables}
            else:
                changes = result.changes
                missing_reasons = dict(result.missing)
                self._attempted_files.discard(file.name)

            restored = [change.variable for change in changes if change.variable is not None]
            missing = {
                variable.name: NotSaved(variable, missing_reasons[variable.name])
                for variable in file.variables
                if variable.name in missing_reasons
            }
            with self._lock:
                # The kernel may have been replaced while it restored the file.
                if self._pending_files.pop(file.name, None) is not file:
                    return
                if missing_reasons:
                    self._retained_files.append(file.name)
                self._restored += restored
                self._missing.update(missing)
            self._log_restored([replace(change, before=None) for change in changes])
            self._log_missing(missing)

    def _log_restored(self, changes: Sequence[Change]) -> None:
        """Log restored names with the cells that set them, as far as they are known."""
        last_records = self._last_records.get()
        unknown_changes: list[Change] = []
        changes_by_cell: dict[tuple[int, str | None, int | None], list[Change]] = {}
        for change in changes:
            record = last_records.get(change.name)
            if record is None or not record.cell:
                unknown_changes.append(change)
            else:
                group = (record.cell, record.party, record.guest)
                changes_by_cell.setdefault(group, []).append(change)

        self._tell_restored(None, None, unknown_changes)
        self._log_changes(RESTORED, unknown_changes)
        for (cell, party, guest), cell_changes in changes_by_cell.items():
            self._tell_restored(cell, party, cell_changes)
            restored = Namespace(
                changes=tuple(cell_changes), cell=cell, party=party, guest=guest, restored=True
            )
            emit(self._log, restored)

    def _tell_restored(
        self, cell: int | None, party: str | None, changes: Sequence[Change]
    ) -> None:
        for listener in self.restore_listeners:
            listener(cell, party, changes)

    def _log_missing(self, missing: Mapping[str, NotSaved]) -> None:
        absent = [
            Change(name, "absent", replace(value.variable, summary=value.reason))
            for name, value in missing.items()
        ]
        self._log_changes(NOT_SAVED, absent)

    def _log_changes(self, party: str, changes: list[Change]) -> None:
        if changes:
            emit(self._log, Namespace(changes=tuple(changes), cell=0, party=party))

    # Saving

    def kernel_died(self) -> None:
        """Stop saving: until `start_restore`, the variables exist only on disk."""
        with self._lock:
            if not self._closing.is_set():
                self._active = False
                self._pending_files = {}

    def forget(self) -> None:
        """Drop what is saved, because the user has reset the kernel."""
        with self._lock:
            self._pending_files = {}
            self._retained_files = []
            self._missing = {}
        self.schedule_write()

    def follow_changes(self, record: Namespace) -> None:
        """Remember which record set a name. record: the changes by a cell."""
        last_records = self._last_records.get()
        with self._lock:
            for change in record.changes:
                self._missing.pop(change.name, None)
                if change.change != "perhaps":
                    last_records[change.name] = record

    def schedule_write(self) -> None:
        """Save the namespace once no cell has run for a moment."""
        with self._lock:
            self._schedule_write()

    def _schedule_write(self) -> None:
        self._changes += 1
        self._changed_at = time.monotonic()
        self._lock.notify_all()

    def close(self, seconds: float) -> None:
        """Save unsaved changes within a time limit, unless a cell runs."""
        with self._lock:
            self._write_seconds = 0.0 if self._cells else seconds
            self._closing.set()
            self._lock.notify_all()
        if self._writer.ident is not None:
            self._writer.join(self._write_seconds)

    @property
    def can_restore(self) -> bool:
        """Whether the variables return if the kernel ends."""
        return self._writer.ident is not None and not self._closing.is_set()

    @property
    def has_unwritten_changes(self) -> bool:
        return self._active and self._changes != self._written_changes

    def count_unsaved(self, created_count: int) -> int:
        """Return how many variables would be lost with the kernel.

        Args:
            created_count: Number of variables that cells have created.
        """
        if not self._active:
            return created_count
        return min(created_count, self._last_result.missing)

    def _write_changes(self) -> None:
        """Save changes until the store is closed. Runs on a thread."""
        while True:
            with self._lock:
                self._lock.wait_for(
                    lambda: self._closing.is_set() or self._changes != self._attempted_changes
                )
            # Further changes do not wake this thread, because there may be hundreds a second.
            while (quiet_s := time.monotonic() - self._changed_at) < QUIET_S:
                if self._closing.wait(QUIET_S - quiet_s):
                    break
            is_last = self._closing.is_set()
            self.save(self._write_seconds)
            if is_last:
                return

    def save(self, seconds: float) -> None:
        """Save the namespace now if it has changed; waits at most some seconds."""
        with self._writing:
            with self._lock:
                self._attempted_changes = self._changes
                if not self.has_unwritten_changes:
                    return
                changes = self._changes
                lost_names = list(self._missing)
                carried_files = [*self._pending_files, *self._retained_files]

            try:
                result = self._kernel.keep(carried_files, lost_names, seconds)
            except KernelError:
                # The kernel runs one cell after the other, or has ended.
                return
            if not result.error:
                self._written_changes = changes
                self._last_result = result
            elif result.error != self._reported_error:
                warn(
                    self._log,
                    f"The variables were not saved: {result.error}."
                    " What was saved earlier is still there.",
                )
            self._reported_error = result.error


def describe_restored(names: list[str], missing: list[NotSaved]) -> str:
    """Return a sentence about a restored namespace.

    Args:
        names: The restored variables.
        missing: The variables that were not restored; the first few are named.
    """
    count = f"{len(names):,}" if names else "No"
    noun = "variable" if len(names) == 1 else "variables"
    restored = f"{count} {noun} restored"
    if not missing:
        return f"{restored}."

    reasons = [
        f"{one_line(value.variable.name)} ({one_line(value.reason)})"
        for value in missing[:MAX_NAMED_VARIABLES]
    ]
    unnamed_count = len(missing) - len(reasons)
    more = f", and {unnamed_count:,} more" if unnamed_count > 0 else ""
    return f"{restored}, {len(missing):,} not: {', '.join(reasons)}{more}."
