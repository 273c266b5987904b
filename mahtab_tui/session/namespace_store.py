"""Restores the namespace of a session in a new kernel, and lets it be saved while the session runs.

The kernel itself writes its variables to files, and reads them. Variables that share objects are in one
file. This module decides when they are read, and says which variables are back; `namespace_writer.py`
decides when they are written.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mahtab_tui.bus.records import Namespace, Restore, emit, warn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import NotSaved, SavedFile, SavedNamespace
from mahtab_tui.session.namespace_writer import NamespaceWriter, UnrestoredVariables
from mahtab_tui.system import Lazy, start_thread

MAX_NAMED_VARIABLES = 5
"""A sentence names at most this many variables that were not restored."""

# The namespace pane shows these words in place of an author.
RESTORING = "restoring"
RESTORED = "restored"
NOT_SAVED = "not kept"

_WORD = re.compile(r"\w+")

RestoreListener = Callable[[int | None, str | None, Sequence[Change]], object]
"""Gets the cell that has set some variables, its author, and the changes by which these variables came
back. Cell and author are None if they are not known."""


class _SettingCell(NamedTuple):
    """The cell that has set variables, and whose it was."""

    cell: int
    party: str | None
    guest: int | None
    """The number of a joined agent's colour; None if no such agent has run the cell."""


class NamespaceStore:
    """The saved variables of a session: restored in a new kernel, and saved again as they change.

    Any thread may call the methods.
    """

    def __init__(
        self, log: logging.Logger, kernel: Kernel, last_records: Lazy[dict[str, Namespace]]
    ) -> None:
        """
        Args:
            log: Gets records of what was restored, and warnings.
            kernel: The session's kernel.
            last_records: The record of the last change of each variable that an earlier screen saved,
                by the variable's name. They are made when a thread needs them, because a session may
                have set very many variables.
        """
        self._last_records = last_records
        self._log = log
        self._kernel = kernel
        self._condition = threading.Condition()
        """Guards the fields below, and those of the writer; notified when they change."""
        self._read_lock = threading.Lock()
        """Held while a file is restored."""
        self._pending_files: dict[str, SavedFile] = {}
        """The files that are not restored yet, by name."""
        self._attempted_file_names: set[str] = set()
        """Files whose restoring has begun and not succeeded, so that a kernel may have died of it."""
        self._retained_file_names: list[str] = []
        """Files that could not be restored completely, kept for a later kernel."""
        self._restored_variables: list[Variable] = []
        self._missing_by_name: dict[str, NotSaved] = {}
        """Variables that were not restored."""
        self._code_names: frozenset[str] = frozenset()
        """Names of functions and classes, which may use any other variable."""
        self.restore_listeners: list[RestoreListener] = []
        """Called when variables are back."""
        self._cell_count = 0
        """How many cells run or wait. Meanwhile only variables that they mention are restored."""
        self._writer = NamespaceWriter(log, kernel, self._condition, self._unrestored)

    # Restoring

    def start_restore(self, *, waits: bool = False) -> None:
        """Restore the saved variables in a new kernel, on a thread.

        Args:
            waits: Whether to wait until all are restored.
        """
        if self._writer.is_closing:
            return
        try:
            saved = self._kernel.saved_namespace()
        except KernelError as error:
            warn(self._log, str(error))
            return
        if saved is None:
            return

        with self._condition:
            self._reset_files(saved)
            is_first_kernel = not self._writer.is_started
            self._writer.allow()
            self._writer.start()
        self.log_pending()
        if self._pending_files or self._missing_by_name:
            thread = start_thread("restore", self._restore, self._pending_files)
            if waits:
                thread.join()
        elif not is_first_kernel:
            emit(self._log, Restore("The namespace is empty: no variables were saved."))

    def resume(self, carried_files: Sequence[str] | None, lost_names: Sequence[str]) -> None:
        """Go on with a kernel that an earlier screen has left running, with its variables.

        Args:
            carried_files: The names of the files that the last request to save told the kernel to keep;
                None if there was no such request.
            lost_names: The variables that this request named as not restored.
        """
        if self._writer.is_closing:
            return
        saved = self._kernel.saved_namespace()
        if saved is None:
            return

        if carried_files is None:
            carried_files = [file.name for file in saved.files]
        with self._condition:
            self._retained_file_names = list(carried_files)
            self._missing_by_name = {
                value.variable.name: value
                for value in saved.missing
                if value.variable.name in lost_names
            }
            self._writer.allow()
            # The kernel may not have saved everything by itself.
            self._writer.schedule()
            self._writer.start()
        self.log_pending()

    def _reset_files(self, saved: SavedNamespace) -> None:
        """Forget the last kernel, and note what is to be restored in the new one.

        Files that the last kernel was reading when it died are not read again.
        """
        fatal_names = self._attempted_file_names.difference(self._retained_file_names)
        fatal_files = [file for file in saved.files if file.name in fatal_names]
        reason = "the kernel ended while reading it"
        lost_values = [
            NotSaved(variable, reason) for file in fatal_files for variable in file.variables
        ]

        self._restored_variables = []
        self._missing_by_name = {
            value.variable.name: value for value in (*saved.missing, *lost_values)
        }
        self._retained_file_names = [file.name for file in fatal_files]
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
        self._log_missing(self._missing_by_name)

    def before_cell(self, code: str) -> None:
        """Restore the variables that code mentions, before it runs. `after_cell` must follow."""
        with self._condition:
            self._cell_count += 1
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
        """Note that a cell has ended, and schedule saving."""
        with self._condition:
            self._cell_count -= 1
            self._writer.schedule()

    def _restore(self, pending_files: dict[str, SavedFile]) -> None:
        """Restore files one by one while no cell runs, and log how many variables are back."""
        for file in list(pending_files.values()):
            with self._condition:
                self._condition.wait_for(lambda: not self._cell_count)
            self._restore_file(file)
        # If the kernel was replaced meanwhile, there is another dictionary.
        if self._pending_files is pending_files:
            names = [variable.name for variable in self._restored_variables]
            emit(self._log, Restore(describe_restored(names, list(self._missing_by_name.values()))))

    def _restore_file(self, file: SavedFile) -> None:
        """Restore the variables of a file, unless another thread has done so."""
        with self._read_lock:
            if self._pending_files.get(file.name) is not file:
                return

            self._attempted_file_names.add(file.name)
            changes: tuple[Change, ...] = ()
            try:
                result = self._kernel.restore(file)
            except KernelError as error:
                reason = f"it could not be read: {error}"
                missing_reasons = {variable.name: reason for variable in file.variables}
            else:
                changes = result.changes
                missing_reasons = dict(result.missing)
                self._attempted_file_names.discard(file.name)

            restored_variables = [
                change.variable for change in changes if change.variable is not None
            ]
            missing = {
                variable.name: NotSaved(variable, missing_reasons[variable.name])
                for variable in file.variables
                if variable.name in missing_reasons
            }
            with self._condition:
                # The kernel may have been replaced while it restored the file.
                if self._pending_files.pop(file.name, None) is not file:
                    return
                if missing_reasons:
                    self._retained_file_names.append(file.name)
                self._restored_variables += restored_variables
                self._missing_by_name.update(missing)
            self._log_restored([replace(change, before=None) for change in changes])
            self._log_missing(missing)

    def _log_restored(self, changes: Sequence[Change]) -> None:
        """Log restored variables with the cells that set them, as far as these are known."""
        last_records = self._last_records.get()
        unknown_changes: list[Change] = []
        changes_by_setter: dict[_SettingCell, list[Change]] = {}
        for change in changes:
            record = last_records.get(change.name)
            if record is None or not record.cell:
                unknown_changes.append(change)
            else:
                setter = _SettingCell(record.cell, record.party, record.guest)
                changes_by_setter.setdefault(setter, []).append(change)

        self._call_restore_listeners(None, None, unknown_changes)
        self._log_changes(RESTORED, unknown_changes)
        for setter, changes_of_setter in changes_by_setter.items():
            self._call_restore_listeners(setter.cell, setter.party, changes_of_setter)
            restored = Namespace(
                changes=tuple(changes_of_setter), **setter._asdict(), restored=True
            )
            emit(self._log, restored)

    def _call_restore_listeners(
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
        """Stop saving, because until `start_restore` the variables exist only in the files."""
        with self._condition:
            if not self._writer.is_closing:
                self._writer.forbid()
                self._pending_files = {}

    def forget(self) -> None:
        """Drop what is saved, because the user has reset the kernel."""
        with self._condition:
            self._pending_files = {}
            self._retained_file_names = []
            self._missing_by_name = {}
        self.schedule_write()

    def follow_changes(self, record: Namespace) -> None:
        """Remember that a cell has set variables.

        Args:
            record: The changes that the cell has made.
        """
        last_records = self._last_records.get()
        with self._condition:
            for change in record.changes:
                self._missing_by_name.pop(change.name, None)
                if change.change != "perhaps":
                    last_records[change.name] = record

    def schedule_write(self) -> None:
        """Save the namespace once no cell has run for a moment."""
        self._writer.schedule()

    def save(self, seconds: float) -> None:
        """Save the namespace now if it has changed, and wait for that.

        Args:
            seconds: How long to wait at most.
        """
        self._writer.save(seconds)

    def close(self, seconds: float) -> None:
        """Save what is not saved, unless a cell runs, and save nothing after that.

        Args:
            seconds: How long to wait for this.
        """
        # A cell that is just ending counts itself out and schedules its changes in one step.
        with self._condition:
            self._writer.begin_close(0.0 if self._cell_count else seconds)
        self._writer.wait_for_end()

    @property
    def can_restore(self) -> bool:
        """Whether the variables return if the kernel ends."""
        return self._writer.is_started and not self._writer.is_closing

    @property
    def has_unwritten_changes(self) -> bool:
        """Whether the kernel has variables that are not saved yet."""
        return self._writer.has_unwritten_changes

    def count_unsaved(self, created_count: int) -> int:
        """Return how many variables would be lost with the kernel.

        Args:
            created_count: How many variables cells have made.
        """
        return self._writer.count_unsaved(created_count)

    def _unrestored(self) -> UnrestoredVariables:
        """Return what the kernel does not have. Whoever calls this holds the condition."""
        carried_files = [*self._pending_files, *self._retained_file_names]
        return UnrestoredVariables(carried_files, list(self._missing_by_name))


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
