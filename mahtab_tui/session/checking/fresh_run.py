"""Runs the cells of a check once, in a fresh kernel in a copy of the project."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Fingerprint
from mahtab_tui.session.checking.check_kernel import CellRun, CheckKernel
from mahtab_tui.session.checking.project_copy import ProjectCopy
from mahtab_tui.session.checking.recorded import CellOutcome, RecordedCell

MIN_TIMEOUT_S = 600.0
MAX_SLOWDOWN = 10.0
"""How many times as long a cell may take as it took."""

_REFUSED_PATH = re.compile(r"\[Errno (?:13|18)\] [^:\n]{1,100}: '(/[^'\n]{0,4096})'")
"""The path in the error of a change that the system has refused."""


class CheckStopped(KernelError):
    """The user has stopped the check."""

    def __init__(self) -> None:
        super().__init__("The check was stopped. Nothing of it is left.")


@dataclass
class FreshRun:
    """What the cells have shown in a fresh kernel, and its variables."""

    outcomes: dict[int, CellOutcome] = field(default_factory=dict)
    """The outcomes by cell."""
    unknown_reasons: dict[int, str] = field(default_factory=dict)
    """Why the outcome of a cell means nothing, as a clause, by cell."""
    failures: dict[int, str] = field(default_factory=dict)
    """How cells ended that did not end by themselves, as clauses."""
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    modified_at: Mapping[str, float] = field(default_factory=dict)
    """When the files of the project were changed (see `ProjectCopy`)."""
    copy_remark: str = ""
    """What was not copied, as sentences."""

    def add(self, cell: RecordedCell, cell_run: CellRun, copy: ProjectCopy) -> None:
        """Note how a cell has ended.

        Args:
            cell: The cell.
            cell_run: Its run.
            copy: Where it has run.
        """
        outcome = cell_run.outcome(copy, cell)
        self.outcomes[cell.number] = outcome
        if cell_run.timed_out:
            self.failures[cell.number] = f"it did not end within {cell_run.timeout_s:g} s"
        elif cell_run.has_ended_kernel:
            self.failures[cell.number] = cell_run.result.detail.rstrip(".")
        elif refusal := _find_refusal(cell, cell_run, outcome, copy):
            self.unknown_reasons[cell.number] = refusal

    @property
    def has_known_outcome(self) -> bool:
        """Whether the outcome of at least one cell means something."""
        return any(number not in self.unknown_reasons for number in self.outcomes)


def run_cells(
    kernel: CheckKernel,
    copy: ProjectCopy,
    cells: Sequence[RecordedCell],
    *,
    timeout: float | None,
    stopped: threading.Event,
    on_cell: Callable[[int], object],
) -> FreshRun:
    """Run cells in order, and return what they have shown.

    Args:
        kernel: Started.
        copy: Where it works.
        cells: The cells.
        timeout: Seconds for each cell; None for a generous limit.
        stopped: Set when the user stops the check and closes the kernel.
        on_cell: Called with the index of each cell before it runs.

    Raises:
        CheckStopped: The user has stopped the check.
    """
    run = FreshRun()
    death = ""
    """Why the cells after one that has ended the kernel did not run; empty while it lives."""
    for index, cell in enumerate(cells):
        on_cell(index)
        skip_reason = cell.skip_reason or death
        if skip_reason:
            run.unknown_reasons[cell.number] = skip_reason
            continue
        limit = timeout or max(MIN_TIMEOUT_S, MAX_SLOWDOWN * cell.duration)
        cell_run = kernel.run_cell(cell, limit)
        if stopped.is_set():
            raise CheckStopped
        run.add(cell, cell_run, copy)
        if cell_run.has_ended_kernel:
            death = f"it did not run, because {cell.name} has ended the kernel"
    return run


def _find_refusal(
    cell: RecordedCell, cell_run: CellRun, outcome: CellOutcome, copy: ProjectCopy
) -> str:
    """Return what a check has kept a cell from doing, as a clause; empty if nothing."""
    if cell_run.refusals:
        return cell_run.refusals[0]
    if outcome.has_failed and outcome.text != cell.outcome.text:
        for match in _REFUSED_PATH.finditer(cell_run.result.output):
            if not copy.contains(match[1]) and _may_be_changed(match[1]):
                return f"it changes {match[1]}, which is outside the copy"
    return ""


def _may_be_changed(path: str) -> bool:
    """Return whether this process may change a file, or make it."""
    with suppress(OSError, ValueError):
        if os.path.lexists(path):
            return os.access(path, os.W_OK) and os.access(path, os.R_OK)
        return os.access(os.path.dirname(path), os.W_OK)
    return False
