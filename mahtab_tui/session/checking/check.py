"""Checks whether the results of a session or a notebook still hold."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.values import Variable
from mahtab_tui.export.reading import NotebookError, read_notebook
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Fingerprint, SaveTarget
from mahtab_tui.session.checking.comparison import (
    RANDOM,
    Comparison,
    compare_outcomes,
    differing_lines,
)
from mahtab_tui.session.checking.fresh_run import CheckKernel, CheckStopped, FreshRun, run_cells
from mahtab_tui.session.checking.project_copy import MAX_NAMED_PATHS, CheckError, ProjectCopy
from mahtab_tui.session.checking.recorded import (
    UNCHANGED,
    CellOutcome,
    RecordedCell,
    Recording,
    read_cells,
    read_session,
)
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.resume import database
from mahtab_tui.store.saved_namespace import is_saved, save_target
from mahtab_tui.store.session_list import SessionRow
from mahtab_tui.store.sqlite import ALL_RECORDS, load_records
from mahtab_tui.system import start_thread
from mahtab_tui.worker.guard.confined_changes import unavailable_reason
from mahtab_tui.worker.saving.folder import INDEX, OWNER
from mahtab_tui.worker.witness.copies import copy_content

RUN_WIDTHS = (80, 200)
"""The width of the screen in each run, in columns: what depends on it cannot be compared."""
_NOTHING_RAN = "No cell could run, so it is not known whether the results hold."
_QUOTED = re.compile(r"""(?<=['"])[^'"\n]{1,4096}(?=['"])""")
_WORD = re.compile(r"""[^\s'"`/\\()\[\]{},;=<>|&:]+""")
"""A part of code in which a file of a command may stand without quotation marks."""
_SAVED_EARLIER = "it has changed since it was saved"
_NOT_SHOWN = "not shown: it uses a private variable"


class SavedVariables(NamedTuple):
    """The variables that a session has saved."""

    fingerprints: Mapping[str, Fingerprint]
    variables: Mapping[str, Variable]
    missing: Mapping[str, str]
    """The reasons of the variables that were not saved, by name."""
    saved_at: float
    """In seconds since the epoch."""


class CheckReport(NamedTuple):
    """How a session or a notebook compares."""

    comparisons: Sequence[Comparison]
    remarks: Sequence[str]
    """Sentences."""
    has_run: bool
    """Whether any cell could run; else nothing is known."""

    @property
    def holds(self) -> bool:
        """Whether nothing is different, and nothing has failed."""
        return not any(comparison.breaks for comparison in self.comparisons)

    def summary(self) -> str:
        """Count the verdicts: "12 same, 1 different, 2 not comparable"."""
        counts: dict[str, int] = {}
        for comparison in self.comparisons:
            counts[comparison.verdict] = counts.get(comparison.verdict, 0) + 1
        order = ("same", "different", "failed", "not comparable")
        return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in order if verdict in counts)


def unprotected_reason() -> str:
    """Return what keeping the user's files safe from cells lacks here, as a clause such as "needs
    Linux"; empty if they are safe."""
    return unavailable_reason()


def session_check(row: SessionRow, settings: Settings) -> Check:
    """Return a check of a saved session, which is only read. Raises `CheckError`."""
    try:
        page = load_records(database(), row.id, limit=ALL_RECORDS)
    except StoreError as error:
        raise CheckError(str(error)) from None
    return Check(
        read_session([record for _, record in page.records], row.id), row.project, settings
    )


def notebook_check(path: Path, settings: Settings) -> Check:
    """Return a check of a file with cells, which run in the working directory, as when the file is
    opened. Raises `CheckError`."""
    try:
        notebook = read_notebook(path.absolute())
    except NotebookError as error:
        raise CheckError(str(error)) from None
    return Check(read_cells(notebook), os.getcwd(), settings)


class Check:
    """Runs cells in fresh kernels, and compares. Any thread may `stop` it."""

    def __init__(self, recording: Recording, project: str, settings: Settings) -> None:
        """
        Args:
            recording: The cells with their results.
            project: The folder in which they ran.
            settings: The settings of the session: its keys are masked, its interpreter is used.

        Raises:
            CheckError: It cannot be checked.
        """
        if recording.unavailable_reason:
            raise CheckError(recording.unavailable_reason)
        if settings.kernel is not None:
            raise CheckError(
                "A check needs a kernel on this machine, but the setting kernel names another one."
            )
        if not recording.cells and not recording.session:
            raise CheckError("The file has no cell with code.")
        if not recording.cells:
            since = " since the kernel was reset" if recording.forgotten_count else ""
            raise CheckError(
                f"There is no cell to check: none has run{since} that was not undone or hidden."
            )
        self._secrets = Secrets(settings.secrets)
        # Those of a session are masked; a notebook that another program has written is not.
        cells = [
            replace(cell, outcome=_mask_outcome(cell.outcome, self._secrets))
            for cell in recording.cells
        ]
        self._recording = replace(recording, cells=cells)
        self._project = project
        self._servers = list(settings.mcp)
        self._python = settings.python or recording.python
        self.is_confined = not unprotected_reason()
        self._stopped = threading.Event()
        self._kernel: CheckKernel | None = None
        self._remarks: list[str] = []
        if count := recording.forgotten_count:
            cells_have = "1 cell has" if count == 1 else f"{count:,} cells have"
            self._remarks.append(
                f"Not checked: {cells_have} run before the kernel was reset, and left nothing in it."
            )

    def add_remark(self, sentence: str) -> None:
        """Add a sentence to the reports of later runs."""
        self._remarks.append(sentence)

    @property
    def cell_count(self) -> int:
        """How many cells there are to check."""
        return len(self._recording.cells)

    def stop(self) -> None:
        """Stop the check; `run` then raises `CheckStopped`, unless it has its report. Returns at
        once."""
        self._stopped.set()
        kernel = self._kernel
        if kernel is not None:
            start_thread("stop-check", kernel.close)

    def run(
        self, on_progress: Callable[[str], object], *, timeout: float | None = None
    ) -> CheckReport:
        """Run the cells, twice if something differs, and compare. Waits. Removes what it has made.

        Args:
            on_progress: Called with what happens now, such as "In 3 (2 of 7)".
            timeout: Seconds for each cell; None for a generous limit.

        Raises:
            CheckError: The cells cannot run.
            CheckStopped: `stop` was called.
        """
        remarks = list(self._remarks)
        on_progress("copying the folder")
        runs = [self._run_once(RUN_WIDTHS[0], on_progress, "", timeout)]
        if runs[0].copy_remark:
            remarks.append(runs[0].copy_remark)
        saved = self._read_saved(on_progress, remarks)
        comparisons = list(self._compare(runs, saved))
        # Only a difference that a second fresh run shows, too, is one.
        if any(comparison.verdict == "different" for comparison in comparisons):
            note = ", again to find out what differs each time"
            runs.append(self._run_once(RUN_WIDTHS[1], on_progress, note, timeout))
            comparisons = list(self._compare(runs, saved))
        if not all(comparison.verdict == "same" for comparison in comparisons):
            remarks = [*_changed_files(self._recording.cells, runs[0].modified_at), *remarks]
        has_run = bool(runs[0].failures or runs[0].outcomes.keys() - runs[0].unknown_reasons.keys())
        if not has_run:
            remarks = [_NOTHING_RAN, *remarks]
        if self._stopped.is_set():
            raise CheckStopped
        return CheckReport(comparisons, remarks, has_run)

    def _run_once(
        self, columns: int, on_progress: Callable[[str], object], note: str, timeout: float | None
    ) -> FreshRun:
        """Run the cells in a new copy and a new kernel. note: added to the progress."""
        cells = self._recording.cells

        def report(index: int) -> None:
            on_progress(f"{cells[index].name} ({index + 1:,} of {len(cells):,}{note})")

        copy = ProjectCopy(self._project)
        try:
            copy.fill(links=self.is_confined, is_stopped=self._stopped.is_set)
            copy_remark = copy.describe()
            kernel = self._start(copy, columns)
            run = run_cells(
                kernel, copy, cells, timeout=timeout, stopped=self._stopped, on_cell=report
            )
            variables = kernel.kernel.variables()
            run.variables = {variable.name: variable for variable in variables}
            run.copy_remark = copy_remark
            run.modified_at = copy.modified_at
            run.fingerprints = kernel.kernel.fingerprints(list(run.variables))
            return run
        except KernelError as error:
            raise self._as_check_error(str(error)) from None
        finally:
            self._end(copy)

    def _as_check_error(self, sentence: str) -> CheckError | CheckStopped:
        return CheckStopped() if self._stopped.is_set() else CheckError(sentence)

    def _start(
        self, copy: ProjectCopy, columns: int, target: SaveTarget | None = None
    ) -> CheckKernel:
        kernel = CheckKernel(
            copy,
            self._secrets,
            self._python,
            is_confined=self.is_confined,
            columns=columns,
            servers=self._servers,
            save_target=target,
        )
        self._kernel = kernel
        if self._stopped.is_set():
            raise CheckStopped
        kernel.start()
        return kernel

    def _end(self, copy: ProjectCopy) -> None:
        kernel = self._kernel
        self._kernel = None
        if kernel is not None:
            kernel.close()
        copy.remove()

    # Variables

    def _read_saved(
        self, on_progress: Callable[[str], object], remarks: list[str]
    ) -> SavedVariables | None:
        """Read the session's saved variables in a kernel of their own; None if there are none.
        remarks: a sentence that says why is added to them."""
        session = self._recording.session
        if not session:
            return None
        target = save_target(session, 0)
        if target is None or not is_saved(session):
            remarks.append("Variables were not compared, because the session has saved none.")
            return None
        on_progress("reading the saved variables")
        copy = ProjectCopy(self._project)
        folder = os.path.join(copy.folder, "variables")
        try:
            saved_at = os.stat(os.path.join(target.folder, INDEX)).st_mtime
            # A kernel notes in the folder that it may write there, which is not so here.
            shutil.copytree(
                target.folder,
                folder,
                ignore=shutil.ignore_patterns(OWNER),
                copy_function=copy_content,
            )
            os.chmod(folder, 0o700)
            kernel = self._start(copy, RUN_WIDTHS[0], target._replace(folder=folder))
            return _restore_saved(kernel, saved_at)
        except (OSError, KernelError) as error:
            if self._stopped.is_set():
                raise CheckStopped from None
            reason = str(error).replace(folder, target.folder)
            if isinstance(error, OSError):
                # An error about several files has no description of its own.
                description = error.strerror or "some of its files cannot be read"
                reason = f"{target.folder} cannot be copied: {description}."
            remarks.append(f"Variables were not compared: {reason}")
            return None
        finally:
            self._end(copy)

    # Comparing

    def _compare(
        self, runs: Sequence[FreshRun], saved: SavedVariables | None
    ) -> Iterator[Comparison]:
        dependents: dict[int, str] = {}
        staleness = self._recording.staleness
        if staleness is not None:
            names = {cell.number: cell.name for cell in self._recording.cells}
            origins = staleness.cells_resting_on(sorted(runs[0].unknown_reasons))
            dependents = {cell: names[origin] for cell, origin in origins.items()}
        for cell in self._recording.cells:
            yield _compare_cell(cell, runs, dependents.get(cell.number))
        if saved is not None:
            yield from self._compare_variables(saved, runs, dependents)

    def _compare_variables(
        self, saved: SavedVariables, runs: Sequence[FreshRun], dependents: Mapping[int, str]
    ) -> Iterator[Comparison]:
        names = {cell.number: cell.name for cell in self._recording.cells}
        for name, reason in saved.missing.items():
            yield Comparison(name, "not comparable", f"it was not saved: {reason}")
        for name, variable in saved.variables.items():
            if variable.kind == "data" and not variable.underscored:
                last_change = self._recording.last_changes.get(name, UNCHANGED)
                maker = names.get(last_change.cell, "")
                comparison = _compare_variable(
                    name, variable, saved.fingerprints.get(name), runs, maker
                )
                if last_change.time > saved.saved_at:
                    comparison = Comparison(name, "not comparable", _SAVED_EARLIER)
                origin = dependents.get(last_change.cell)
                if comparison.verdict == "different" and origin is not None:
                    comparison = _rests_on(name, origin)
                elif name in self._recording.private_names:
                    comparison = comparison._replace(before="", now="")
                yield comparison


def _mask_outcome(outcome: CellOutcome, secrets: Secrets) -> CellOutcome:
    displays = tuple(
        (mime, data if mime.startswith("image/") else secrets.mask(data))
        for mime, data in outcome.displays
    )
    return outcome._replace(text=secrets.mask(outcome.text), displays=displays)


def _changed_files(
    cells: Sequence[RecordedCell], modified_at: Mapping[str, float]
) -> Iterator[str]:
    """Yield a sentence for each file that a cell names and that was changed after the cell had run."""
    names_by_cell = [_mentioned_names(cell.code) for cell in cells]
    newest_first = sorted(modified_at, key=modified_at.__getitem__, reverse=True)
    sentence_count = 0
    for path in newest_first:
        file_name = os.path.basename(path)
        for cell, mentioned_names in zip(cells, names_by_cell, strict=True):
            ran_at = cell.outcome.time
            if ran_at is None or modified_at[path] <= ran_at or file_name not in mentioned_names:
                continue
            yield f"{path} has changed since {cell.name}, which names it, ran."
            sentence_count += 1
            break
        if sentence_count == MAX_NAMED_PATHS:
            return


def _mentioned_names(code: str) -> set[str]:
    """Return the names that code may mean files by: ends of quoted texts, and words with a dot."""
    quoted_names = {os.path.basename(text) for text in _QUOTED.findall(code)}
    words = {word for word in _WORD.findall(code) if "." in word}
    return quoted_names | words


def _restore_saved(check_kernel: CheckKernel, saved_at: float) -> SavedVariables:
    """Restore the variables of a session in a kernel. saved_at: when they were saved. Raises
    `KernelError`."""
    kernel = check_kernel.kernel
    saved = kernel.saved_namespace()
    assert saved is not None
    missing = {value.variable.name: value.reason for value in saved.missing}
    for file in saved.files:
        missing.update(kernel.restore(file).missing)
    names = {variable.name for file in saved.files for variable in file.variables}
    variables = {
        variable.name: variable for variable in kernel.variables() if variable.name in names
    }
    return SavedVariables(kernel.fingerprints(list(variables)), variables, missing, saved_at)


def _compare_cell(cell: RecordedCell, runs: Sequence[FreshRun], origin: str | None) -> Comparison:
    """Compare a cell. origin: the name of one that means nothing, on which it rests; None for none."""
    number = cell.number
    if failure := runs[0].failures.get(number):
        return Comparison(cell.name, "failed", failure)
    if reason := runs[0].unknown_reasons.get(number):
        return Comparison(cell.name, "not comparable", reason)

    outcomes = [run.outcomes[number] for run in runs if number in run.outcomes]
    judgement = compare_outcomes(cell.outcome, outcomes, is_foreign=cell.is_foreign)
    verdict = judgement.verdict
    if cell.unknown_reason and verdict != "failed":
        return Comparison(cell.name, "not comparable", cell.unknown_reason)
    if verdict in ("different", "failed") and origin is not None:
        return _rests_on(cell.name, origin)
    if verdict not in ("different", "failed"):
        return Comparison(cell.name, verdict, judgement.reason)
    if cell.is_private:
        return Comparison(cell.name, verdict, _NOT_SHOWN)
    lines = differing_lines(cell.outcome.text, outcomes[0].text)
    return Comparison(cell.name, verdict, judgement.reason, *lines)


def _rests_on(name: str, origin: str) -> Comparison:
    return Comparison(name, "not comparable", f"it rests on {origin}, which did not run in full")


def _compare_variable(
    name: str,
    variable: Variable,
    fingerprint: Fingerprint | None,
    runs: Sequence[FreshRun],
    maker: str,
) -> Comparison:
    """Compare a variable.

    Args:
        name: Its name.
        variable: As the session has saved it.
        fingerprint: The fingerprint of the saved value; None if there is none.
        runs: One or two fresh runs.
        maker: The name of the cell that has changed it last; empty if that does not count.
    """
    first = runs[0]
    now = first.variables.get(name)
    if now is None:
        reason = f"{maker} does not make it any more" if maker else "no cell that counts makes it"
        return Comparison(name, "different", reason, _describe(variable))
    fresh = first.fingerprints.get(name)
    if fingerprint is None or fresh is None:
        return Comparison(name, "not comparable", "it could not be read")
    if not fingerprint.digest or not fresh.digest:
        return Comparison(name, "not comparable", fingerprint.reason or fresh.reason)
    if fingerprint.digest == fresh.digest:
        return Comparison(name, "same")
    if any(run.fingerprints.get(name) != fresh for run in runs[1:]):
        return Comparison(name, "not comparable", RANDOM)
    before_text = _describe(variable)
    now_text = _describe(now)
    reason = "another value, described in the same way" if before_text == now_text else ""
    return Comparison(name, "different", reason, before_text, now_text)


def _describe(variable: Variable) -> str:
    return f"{variable.type} {variable.summary}".rstrip()
