"""Checks whether the results of a session or a notebook still hold."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.values import Variable
from mahtab_tui.export.reading import NotebookError, read_notebook
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.session.checking.changed_files import describe_changed_files
from mahtab_tui.session.checking.check_folder import CheckError
from mahtab_tui.session.checking.check_kernel import CheckKernel
from mahtab_tui.session.checking.comparison import (
    Comparison,
    Verdict,
    compare_outcomes,
    differing_lines,
    rests_on_unfinished,
)
from mahtab_tui.session.checking.fresh_run import CheckStopped, FreshRun, run_cells
from mahtab_tui.session.checking.project_copy import ProjectCopy
from mahtab_tui.session.checking.recorded import (
    UNCHANGED,
    CellOutcome,
    RecordedCell,
    Recording,
    read_cells,
    read_session,
)
from mahtab_tui.session.checking.saved_variables import (
    SavedVariables,
    VariablesNotCompared,
    compare_variable,
    restore_saved,
)
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.resume import database
from mahtab_tui.store.saved_namespace import is_saved, save_target
from mahtab_tui.store.session_list import SessionRow
from mahtab_tui.store.sqlite import ALL_RECORDS, load_records
from mahtab_tui.system import start_thread
from mahtab_tui.worker.guard.confined_changes import unavailable_reason
from mahtab_tui.worker.saving.folder import INDEX, OWNER
from mahtab_tui.worker.witness.content_copying import copy_content

FIRST_RUN_COLUMNS = 80
SECOND_RUN_COLUMNS = 200
"""The widths of the screens of the two runs. They differ so that an output that depends on the width
differs between the runs, and counts as one that cannot be compared."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The verdicts in the order in which a report counts them."""

_NO_CELL_RAN = "No cell could run, so it is not known whether the results hold."
_PRIVATE_REASON = "not shown: it uses a private variable"


class CheckReport(NamedTuple):
    """How a session or a notebook compares with fresh runs of its cells."""

    comparisons: Sequence[Comparison]
    """The cells in order, and after them the variables."""
    remarks: Sequence[str]
    """Sentences about the check as a whole, such as what it has left out."""
    has_run: bool
    """Whether any cell could run; if not, it is not known whether the results hold."""

    @property
    def holds(self) -> bool:
        """Whether no result is different, and no cell has failed."""
        return not any(comparison.breaks for comparison in self.comparisons)

    def summary(self) -> str:
        """Count the verdicts: "12 same, 1 different, 2 not comparable"."""
        verdicts = [comparison.verdict for comparison in self.comparisons]
        counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS}
        return ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)


def unprotected_reason() -> str:
    """Return why the user's files cannot be kept safe from the cells of a check on this system, as a
    clause such as "needs Linux"; empty if they are safe."""
    return unavailable_reason()


def session_check(row: SessionRow, settings: Settings) -> Check:
    """Return a check of a saved session, which is only read.

    Raises:
        CheckError: The session cannot be read or checked.
    """
    try:
        page = load_records(database(), row.id, limit=ALL_RECORDS)
    except StoreError as error:
        raise CheckError(str(error)) from None
    records = [record for _, record in page.records]
    return Check(read_session(records, row.id), row.project, settings)


def notebook_check(path: Path, settings: Settings) -> Check:
    """Return a check of a file with cells, which run in the working directory, as when the file is
    opened.

    Raises:
        CheckError: The file cannot be read or checked.
    """
    try:
        notebook = read_notebook(path.absolute())
    except NotebookError as error:
        raise CheckError(str(error)) from None
    return Check(read_cells(notebook), os.getcwd(), settings)


class Check:
    """Runs the cells of a session or a notebook in fresh kernels, and compares what they show.

    Any thread may `stop` it.
    """

    def __init__(self, recording: Recording, project: str, settings: Settings) -> None:
        """Prepare a check; nothing runs yet.

        Args:
            recording: The cells with their results.
            project: The folder in which the cells ran.
            settings: The settings of the session: its keys are masked, its interpreter is used.

        Raises:
            CheckError: The recording cannot be checked.
        """
        problem = _find_problem(recording, settings)
        if problem:
            raise CheckError(problem)

        self._secrets = Secrets(settings.secrets)
        # The outputs of fresh kernels are masked. Those of a notebook that another program has
        # written are not yet.
        cells = [
            replace(cell, outcome=_mask_outcome(cell.outcome, self._secrets))
            for cell in recording.cells
        ]
        self._recording = replace(recording, cells=cells)
        self._cell_names = {cell.number: cell.name for cell in cells}
        self._project = project
        self._server_names = list(settings.mcp)
        self._python = settings.python or recording.python
        self.is_confined = not unprotected_reason()
        """Whether the system keeps cells from changing files outside the copy of the project."""

        self._stopped = threading.Event()
        self._kernel: CheckKernel | None = None
        """The kernel that runs now, which `stop` closes; None between two."""
        self._remarks: list[str] = []
        forgotten_count = recording.forgotten_count
        if forgotten_count:
            cells_have = "1 cell has" if forgotten_count == 1 else f"{forgotten_count:,} cells have"
            self.add_remark(
                f"Not checked: {cells_have} run before the kernel was reset, and left nothing in it."
            )

    def add_remark(self, sentence: str) -> None:
        """Add a sentence to the reports of later runs."""
        self._remarks.append(sentence)

    @property
    def cell_count(self) -> int:
        """The number of cells to check."""
        return len(self._recording.cells)

    def stop(self) -> None:
        """Stop the check; `run` then raises `CheckStopped`, unless it has its report.

        Returns at once.
        """
        self._stopped.set()
        kernel = self._kernel
        if kernel is not None:
            start_thread("stop-check", kernel.close)

    def run(
        self, on_progress: Callable[[str], object], *, timeout: float | None = None
    ) -> CheckReport:
        """Run the cells, a second time if something differs, and compare.

        Waits for them, and removes the copies of the project in which they ran.

        Args:
            on_progress: Called with what happens now, such as "In 3 (2 of 7)".
            timeout: Seconds for each cell; None for a generous limit.

        Raises:
            CheckError: The cells cannot run.
            CheckStopped: `stop` was called.
        """
        on_progress("copying the folder")
        first_run = self._run_once(FIRST_RUN_COLUMNS, on_progress, timeout=timeout)
        remarks = list(self._remarks)
        if first_run.copy_remark:
            remarks.append(first_run.copy_remark)
        saved: SavedVariables | None = None
        try:
            saved = self._read_saved(on_progress)
        except VariablesNotCompared as error:
            remarks.append(str(error))

        comparisons = self._compare([first_run], saved)
        # A difference counts only if a second fresh run shows it, too.
        if any(comparison.verdict == "different" for comparison in comparisons):
            note = ", again to find out what differs each time"
            second_run = self._run_once(
                SECOND_RUN_COLUMNS, on_progress, progress_note=note, timeout=timeout
            )
            comparisons = self._compare([first_run, second_run], saved)

        if any(comparison.verdict != "same" for comparison in comparisons):
            changed_files = describe_changed_files(self._recording.cells, first_run.modified_at)
            remarks = [*changed_files, *remarks]
        has_run = first_run.has_known_outcome
        if not has_run:
            remarks = [_NO_CELL_RAN, *remarks]
        if self._stopped.is_set():
            raise CheckStopped
        return CheckReport(comparisons, remarks, has_run)

    # Running

    def _run_once(
        self,
        columns: int,
        on_progress: Callable[[str], object],
        *,
        timeout: float | None,
        progress_note: str = "",
    ) -> FreshRun:
        """Run the cells in a new copy of the project and a new kernel.

        Args:
            columns: The width of the kernel's screen.
            on_progress: Called with the name and the position of each cell before it runs.
            timeout: Seconds for each cell; None for a generous limit.
            progress_note: Follows the position of the cell.

        Raises:
            CheckError: The cells cannot run.
            CheckStopped: `stop` was called.
        """
        cells = self._recording.cells

        def report_cell(index: int) -> None:
            on_progress(f"{cells[index].name} ({index + 1:,} of {len(cells):,}{progress_note})")

        copy = ProjectCopy(self._project)
        try:
            copy.fill(links=self.is_confined, is_stopped=self._stopped.is_set)
            # Before the cells can change the copy.
            copy_remark = copy.describe()
            check_kernel = self._start_kernel(copy, columns)
            run = run_cells(
                check_kernel,
                copy,
                cells,
                timeout=timeout,
                stopped=self._stopped,
                on_cell=report_cell,
            )
            kernel = check_kernel.kernel
            run.variables = {variable.name: variable for variable in kernel.variables()}
            run.fingerprints = kernel.fingerprints(list(run.variables))
            run.copy_remark = copy_remark
            run.modified_at = copy.modified_at
            return run
        except KernelError as error:
            raise self._error_to_raise(CheckError(str(error))) from None
        finally:
            self._end_kernel(copy)

    def _read_saved(self, on_progress: Callable[[str], object]) -> SavedVariables | None:
        """Read the session's saved variables in a kernel of their own.

        Returns:
            The variables; None for a notebook, which has none.

        Raises:
            VariablesNotCompared: They cannot be read.
            CheckStopped: `stop` was called.
        """
        session = self._recording.session
        if not session:
            return None
        target = save_target(session, 0)
        if target is None or not is_saved(session):
            raise VariablesNotCompared(
                "Variables were not compared, because the session has saved none."
            )

        on_progress("reading the saved variables")
        copy = ProjectCopy(self._project)
        copied_folder = os.path.join(copy.folder, "variables")
        try:
            saved_at = _copy_saved_files(target.folder, copied_folder)
            copied_target = target._replace(folder=copied_folder)
            check_kernel = self._start_kernel(copy, FIRST_RUN_COLUMNS, copied_target)
            return restore_saved(check_kernel.kernel, saved_at)
        except OSError as error:
            # An error about several files has no description of its own.
            description = error.strerror or "some of its files cannot be read"
            sentence = (
                f"Variables were not compared: {target.folder} cannot be copied: {description}."
            )
            raise self._error_to_raise(VariablesNotCompared(sentence)) from None
        except KernelError as error:
            reason = str(error).replace(copied_folder, target.folder)
            sentence = f"Variables were not compared: {reason}"
            raise self._error_to_raise(VariablesNotCompared(sentence)) from None
        finally:
            self._end_kernel(copy)

    def _start_kernel(
        self, copy: ProjectCopy, columns: int, target: SaveTarget | None = None
    ) -> CheckKernel:
        """Start the kernel of a run, which `stop` can close from now on.

        Args:
            copy: The copy of the project in which it works.
            columns: The width of its screen.
            target: Where the variables are saved that it can restore; None for none.

        Raises:
            CheckError: The kernel did not start.
            CheckStopped: `stop` was called.
        """
        kernel = CheckKernel(
            copy,
            self._secrets,
            self._python,
            is_confined=self.is_confined,
            columns=columns,
            servers=self._server_names,
            save_target=target,
        )
        self._kernel = kernel
        # A stop that came just before has not seen the kernel.
        if self._stopped.is_set():
            raise CheckStopped
        kernel.start()
        return kernel

    def _end_kernel(self, copy: ProjectCopy) -> None:
        """Close the kernel of a run, if it was started, and remove its copy of the project."""
        kernel = self._kernel
        self._kernel = None
        if kernel is not None:
            kernel.close()
        copy.remove()

    def _error_to_raise(self, error: Exception) -> Exception:
        """Return the error to raise after a failure: once `stop` was called, a kernel fails only
        because it was closed."""
        return CheckStopped() if self._stopped.is_set() else error

    # Comparing

    def _compare(self, runs: Sequence[FreshRun], saved: SavedVariables | None) -> list[Comparison]:
        """Compare all cells, and the saved variables unless they are None, with one or two runs."""
        origin_names = self._unfinished_origins(runs[0])
        comparisons = [
            _compare_cell(cell, runs, origin_names.get(cell.number))
            for cell in self._recording.cells
        ]
        if saved is not None:
            comparisons.extend(self._compare_variables(saved, runs, origin_names))
        return comparisons

    def _unfinished_origins(self, run: FreshRun) -> dict[int, str]:
        """Find the cells whose results mean nothing because they use what a cell has made that did
        not run in full.

        Returns:
            The name of that cell, by the numbers of the cells that use what it has made. It is itself
            among them.
        """
        staleness = self._recording.staleness
        if staleness is None:
            return {}
        origins = staleness.cells_resting_on(sorted(run.unknown_reasons))
        return {number: self._cell_names[origin] for number, origin in origins.items()}

    def _compare_variables(
        self, saved: SavedVariables, runs: Sequence[FreshRun], origin_names: Mapping[int, str]
    ) -> Iterator[Comparison]:
        """Compare the variables that hold data and are not named like internal ones."""
        for name, reason in saved.missing_reasons.items():
            yield Comparison(name, "not comparable", f"it was not saved: {reason}")
        for variable in saved.variables.values():
            if variable.kind == "data" and not variable.underscored:
                yield self._compare_variable(variable, saved, runs, origin_names)

    def _compare_variable(
        self,
        variable: Variable,
        saved: SavedVariables,
        runs: Sequence[FreshRun],
        origin_names: Mapping[int, str],
    ) -> Comparison:
        """Compare a saved variable, as far as the cell that has changed it last allows.

        Args:
            variable: The variable as the session has saved it.
            saved: All saved variables.
            runs: One or two fresh runs.
            origin_names: What `_unfinished_origins` returns.
        """
        name = variable.name
        last_change = self._recording.last_changes.get(name, UNCHANGED)
        if last_change.time > saved.saved_at:
            return Comparison(name, "not comparable", "it has changed since it was saved")

        maker_name = self._cell_names.get(last_change.cell, "")
        comparison = compare_variable(variable, saved.fingerprints.get(name), runs, maker_name)
        origin_name = origin_names.get(last_change.cell)
        if comparison.verdict == "different" and origin_name is not None:
            return rests_on_unfinished(name, origin_name)
        if name in self._recording.private_names:
            return comparison._replace(before="", now="")
        return comparison


def _find_problem(recording: Recording, settings: Settings) -> str:
    """Return why a recording cannot be checked, as a sentence; empty if it can."""
    if recording.unavailable_reason:
        return recording.unavailable_reason
    if settings.kernel is not None:
        return "A check needs a kernel on this machine, but the setting kernel names another one."
    if recording.cells:
        return ""
    if not recording.session:
        return "The file has no cell with code."
    since = " since the kernel was reset" if recording.forgotten_count else ""
    return f"There is no cell to check: none has run{since} that was not undone or hidden."


def _mask_outcome(outcome: CellOutcome, secrets: Secrets) -> CellOutcome:
    """Return an outcome without secrets; pictures have no text to mask."""
    displays = tuple(
        (mime, data if mime.startswith("image/") else secrets.mask(data))
        for mime, data in outcome.displays
    )
    return outcome._replace(text=secrets.mask(outcome.text), displays=displays)


def _copy_saved_files(folder: str, copied_folder: str) -> float:
    """Copy a folder with saved variables, for a kernel that only reads them.

    Returns:
        When the variables were saved, in seconds since the epoch.

    Raises:
        OSError: The folder cannot be copied.
    """
    saved_at = os.stat(os.path.join(folder, INDEX)).st_mtime
    # Without the name of the kernel that may save there: no kernel may save in the copy.
    without_owner = shutil.ignore_patterns(OWNER)
    shutil.copytree(folder, copied_folder, ignore=without_owner, copy_function=copy_content)
    os.chmod(copied_folder, 0o700)
    return saved_at


def _compare_cell(
    cell: RecordedCell, runs: Sequence[FreshRun], origin_name: str | None
) -> Comparison:
    """Compare a cell.

    Args:
        cell: The cell with its recorded result.
        runs: One or two fresh runs.
        origin_name: The name of the cell that did not run in full and whose results this one uses;
            None if there is none.
    """
    first_run = runs[0]
    failure = first_run.failures.get(cell.number)
    if failure:
        return Comparison(cell.name, "failed", failure)
    unknown_reason = first_run.unknown_reasons.get(cell.number)
    if unknown_reason:
        return Comparison(cell.name, "not comparable", unknown_reason)

    fresh_outcomes = [run.outcomes[cell.number] for run in runs if cell.number in run.outcomes]
    judgement = compare_outcomes(cell.outcome, fresh_outcomes, is_foreign=cell.is_foreign)
    verdict = judgement.verdict
    if cell.unknown_reason and verdict != "failed":
        return Comparison(cell.name, "not comparable", cell.unknown_reason)
    if verdict not in ("different", "failed"):
        return Comparison(cell.name, verdict, judgement.reason)
    if origin_name is not None:
        return rests_on_unfinished(cell.name, origin_name)
    if cell.is_private:
        return Comparison(cell.name, verdict, _PRIVATE_REASON)
    recorded_lines, fresh_lines = differing_lines(cell.outcome.text, fresh_outcomes[0].text)
    return Comparison(cell.name, verdict, judgement.reason, recorded_lines, fresh_lines)
