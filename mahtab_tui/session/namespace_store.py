"""Saves the namespace while the session runs, and restores it in a new kernel."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping, Sequence

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Namespace, Restore, emit, warn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.base import (
    Change,
    KeepResult,
    Kernel,
    KernelError,
    NotSaved,
    SavedFile,
    SavedNamespace,
    Variable,
)
from mahtab_tui.session.info import change_row, variable_row
from mahtab_tui.system import start_thread

QUIET_SECONDS = 1.0
"""Seconds without another cell before the namespace is saved."""
WRITE_SECONDS = 900.0
"""Seconds for saving while nobody waits for it."""

_WORD = re.compile(r"\w+")
_MOST_NAMED = 5

RESTORING, RESTORED, NOT_SAVED = "restoring", "restored", "not kept"
"""Shown in the namespace pane in place of an author."""


class NamespaceStore:
    def __init__(
        self, log: logging.Logger, kernel: Kernel, makers: Mapping[str, Namespace]
    ) -> None:
        """makers: the last cell's record for each name that an earlier screen saved."""
        self._makers = dict(makers)
        self._log = log
        self._kernel = kernel
        self._lock = threading.Condition()
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._active = False
        self._closing = False
        self._write_seconds = WRITE_SECONDS
        self._changes = self._attempted = self._written = 0
        """Counters: now, last attempt to save, last success."""
        self._cells = 0
        """Cells that run or wait; meanwhile only variables that they mention are restored."""
        self._pending: dict[str, SavedFile] = {}
        self._retained_files: list[str] = []
        """Partly unreadable files, kept for a later kernel."""
        self._attempted_files: set[str] = set()
        """Files that were read, or during whose reading the kernel died."""
        self._missing: dict[str, NotSaved] = {}
        self._restored: list[Variable] = []
        self._code_names: frozenset[str] = frozenset()
        """Functions and classes, which may use any other variable."""
        self._result = KeepResult()
        self._reported = ""
        self._writer = threading.Thread(target=self._write_changes, name="keep", daemon=True)

    # Restoring

    def start_restore(self) -> None:
        """Restore the saved variables in a new kernel, on a thread."""
        if self._closing:
            return
        try:
            saved = self._kernel.saved_namespace()
        except KernelError as error:
            warn(self._log, str(error))
            return
        if saved is None:
            return
        with self._lock:
            self._start(saved)
            if first := self._writer.ident is None:
                self._writer.start()
        self.show()
        if self._pending or self._missing:
            start_thread("restore", self._restore, self._pending)
        elif not first:
            emit(self._log, Restore("The namespace is empty: no variables were saved."))

    def resume(self, carried: Sequence[str] | None, lost: Sequence[str]) -> None:
        """Resume with a reattached kernel. carried, lost: the last values sent to it, if any."""
        saved = None if self._closing else self._kernel.saved_namespace()
        if saved is None:
            return
        with self._lock:
            self._active = True
            files = [file.name for file in saved.files] if carried is None else carried
            self._retained_files = list(files)
            self._missing = {
                each.variable.name: each for each in saved.missing if each.variable.name in lost
            }
            self._schedule_write()  # in case it did not save everything by itself
            if self._writer.ident is None:
                self._writer.start()
        self.show()

    def _start(self, saved: SavedNamespace) -> None:
        ended = self._attempted_files.difference(self._retained_files)
        died = [file for file in saved.files if file.name in ended]
        why = "the kernel ended while reading it"
        lost = [NotSaved(each, why) for file in died for each in file.variables]
        self._active = True
        self._restored = []
        self._missing = {each.variable.name: each for each in (*saved.missing, *lost)}
        self._retained_files = [file.name for file in died]
        self._pending = {file.name: file for file in saved.files if file not in died}
        variables = (variable for file in saved.files for variable in file.variables)
        code = (each.name for each in variables if each.kind in ("function", "class"))
        self._code_names = frozenset(code)

    def show(self) -> None:
        """Log the variables that are being restored, and those that were not kept."""
        files = list(self._pending.values())
        waiting = [variable_row(each, "restoring") for file in files for each in file.variables]
        self._log_rows(RESTORING, waiting)
        self._log_missing(self._missing)

    def before_cell(self, code: str) -> None:
        """Restore the variables that code mentions."""
        with self._lock:
            self._cells += 1
        if not self._pending:
            return
        words = set(_WORD.findall(code))
        everything = not words.isdisjoint(self._code_names)
        for file in list(self._pending.values()):
            if everything or not words.isdisjoint(variable.name for variable in file.variables):
                self._restore_file(file)

    def after_cell(self) -> None:
        with self._lock:
            self._cells -= 1
            self._schedule_write()

    def _restore(self, pending: dict[str, SavedFile]) -> None:
        for file in list(pending.values()):
            with self._lock:
                self._lock.wait_for(lambda: not self._cells)
            self._restore_file(file)
        if self._pending is pending:  # not if the kernel was replaced
            names = [each.name for each in self._restored]
            emit(self._log, Restore(describe_restored(names, list(self._missing.values()))))

    def _restore_file(self, file: SavedFile) -> None:
        with self._reading:
            if self._pending.get(file.name) is not file:  # already read, or for another kernel
                return
            self._attempted_files.add(file.name)
            changes: tuple[Change, ...] = ()
            try:
                done = self._kernel.restore(file)
            except KernelError as error:
                why = f"it could not be read: {error}"
                missing = {variable.name: why for variable in file.variables}
            else:
                changes, missing = done.changes, dict(done.missing)
                self._attempted_files.discard(file.name)
            made = [change.variable for change in changes if change.variable is not None]
            absent = (each for each in file.variables if each.name in missing)
            lost = {each.name: NotSaved(each, missing[each.name]) for each in absent}
            with self._lock:
                if self._pending.pop(file.name, None) is not file:
                    return
                if missing:
                    self._retained_files.append(file.name)
                self._restored += made
                self._missing.update(lost)
            self._log_restored([change_row(change, None) for change in changes])
            self._log_missing(lost)

    def _log_restored(self, rows: list[records.Change]) -> None:
        """Log restored names with the cells that made them, as far as they are known."""
        unknown: list[records.Change] = []
        made: dict[tuple[int, str | None, int | None], list[records.Change]] = {}
        for row in rows:
            maker = self._makers.get(row.name)
            if maker is None or not maker.cell:
                unknown.append(row)
            else:
                made.setdefault((maker.cell, maker.party, maker.guest), []).append(row)
        self._log_rows(RESTORED, unknown)
        for (cell, party, guest), own in made.items():
            restored = Namespace(
                changes=tuple(own), cell=cell, party=party, guest=guest, restored=True
            )
            emit(self._log, restored)

    def _log_missing(self, missing: Mapping[str, NotSaved]) -> None:
        rows = [
            variable_row(each.variable, "absent")._replace(summary=each.reason)
            for each in missing.values()
        ]
        self._log_rows(NOT_SAVED, rows)

    def _log_rows(self, party: str, rows: list[records.Change]) -> None:
        if rows:
            emit(self._log, Namespace(changes=tuple(rows), cell=0, party=party))

    # Saving

    def kernel_died(self) -> None:
        """The variables exist only on disk until `start_restore`."""
        with self._lock:
            if not self._closing:
                self._active, self._pending = False, {}

    def forget(self) -> None:
        with self._lock:
            self._pending, self._retained_files, self._missing = {}, [], {}
        self.schedule_write()

    def names_made(self, record: Namespace) -> None:
        """record: the changes by a cell."""
        with self._lock:
            for change in record.changes:
                self._missing.pop(change.name, None)
                if change.change != "perhaps":
                    self._makers[change.name] = record

    def schedule_write(self) -> None:
        with self._lock:
            self._schedule_write()

    def _schedule_write(self) -> None:
        self._changes += 1
        self._lock.notify_all()

    def close(self, seconds: float) -> None:
        """Save unsaved changes within a time limit, unless a cell runs."""
        with self._lock:
            self._closing, self._write_seconds = True, 0.0 if self._cells else seconds
            self._lock.notify_all()
        if self._writer.ident is not None:
            self._writer.join(self._write_seconds)

    @property
    def can_restore(self) -> bool:
        return self._writer.ident is not None and not self._closing

    @property
    def has_unwritten_changes(self) -> bool:
        return self._active and self._changes != self._written

    def count_unsaved(self, made: int) -> int:
        """Return how many of `made` variables would be lost with the kernel."""
        return min(made, self._result.missing) if self._active else made

    def _write_changes(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closing or self._changes != self._attempted)
                seen = -1
                while not self._closing and self._changes != seen:
                    seen = self._changes
                    self._lock.wait(QUIET_SECONDS)
                ends = self._closing
            self.save(self._write_seconds)
            if ends:
                return

    def save(self, seconds: float) -> None:
        with self._writing:
            with self._lock:
                self._attempted = self._changes
                if not self.has_unwritten_changes:
                    return
                changes, lost = self._changes, list(self._missing)
                carried = [*self._pending, *self._retained_files]
            try:
                result = self._kernel.keep(carried, lost, seconds)
            except KernelError:  # it is always running a cell, or has ended
                return
            if not result.error:
                self._written, self._result = changes, result
            elif result.error != self._reported:
                problem = f"The variables were not saved: {result.error}. What was saved earlier is still there."
                warn(self._log, problem)
            self._reported = result.error


def describe_restored(back: list[str], missing: list[NotSaved]) -> str:
    count = f"{len(back):,}" if back else "No"
    restored = f"{count} variable{'s' * (len(back) != 1)} restored"
    if not missing:
        return f"{restored}."
    named = ", ".join(
        f"{one_line(each.variable.name)} ({one_line(each.reason)})"
        for each in missing[:_MOST_NAMED]
    )
    more = f", and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
    return f"{restored}, {len(missing):,} not: {named}{more}."
