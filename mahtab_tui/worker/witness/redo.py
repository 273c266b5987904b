"""Undoes the steps of cells, and redoes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .journal import FileJournal, FileStep, Touch
from .restoring import Restorer
from .states import FileFingerprint, take_fingerprint


class _Undo(NamedTuple):
    """An undo that can be reversed."""

    record: FileStep
    """What restores the state before it."""
    steps: list[FileStep]
    """Those that it removed."""
    earlier: list[tuple[Touch, FileFingerprint | None]]
    """The changes before these, whose paths it made again, with what was noted of them before."""


class RedoStack:
    """The undone steps, until another cell runs."""

    def __init__(self, journal: FileJournal) -> None:
        self._journal = journal
        self._undone: list[_Undo] = []

    def undo(self, cell: int) -> Restorer:
        """Take back the steps from a cell on."""
        journal = self._journal
        steps = [step for step in journal.steps if step.cell >= cell]
        record = FileStep(cell)
        restorer = _restore(journal, steps, record)
        journal.steps = [step for step in journal.steps if step.cell < cell]
        earlier = _note_restored(journal.steps, steps, restorer)
        self._undone.append(_Undo(record, steps, earlier))
        return restorer

    def redo(self) -> Restorer:
        """Reverse the last undo."""
        restorer = Restorer(self._journal)
        if self._undone:
            record, steps, earlier = self._undone.pop()
            scratch = FileStep(0)
            restorer = _restore(self._journal, [record], scratch)
            records = [undo.record for undo in self._undone]
            _note_restored(records, [record], restorer)
            self._journal.forget(record)
            self._journal.forget(scratch)
            for touch, fingerprint in earlier:
                touch.after = fingerprint
            # What a process has written since the undo comes after these steps.
            earlier_steps = [step for step in self._journal.steps if step.cell < record.cell]
            later_steps = [step for step in self._journal.steps if step.cell >= record.cell]
            self._journal.steps = [*earlier_steps, *steps, *later_steps]
            _refresh(steps, restorer)
        return restorer

    def forget(self) -> None:
        """Forget the undone steps, because another cell runs."""
        for undo in self._undone:
            for step in (undo.record, *undo.steps):
                self._journal.forget(step)
        self._undone = []


def _restore(journal: FileJournal, steps: Sequence[FileStep], record: FileStep) -> Restorer:
    """Take back steps. record: gets the present states."""
    # The copies of the state before are not limited by what the cells have copied.
    journal.copies.begin_undo()
    try:
        restorer = Restorer(journal, record)
        restorer.restore(steps)
    finally:
        journal.copies.end_undo()
    return restorer


def _note_restored(
    earlier_steps: Sequence[FileStep],
    steps: Sequence[FileStep],
    restorer: Restorer,
) -> list[tuple[Touch, FileFingerprint | None]]:
    """Note for earlier steps, which can still be taken back, how the paths of later ones have been made
    again. Returns what was noted before."""
    earlier: list[tuple[Touch, FileFingerprint | None]] = []
    undone_touches: dict[str, Touch] = {}
    for step in steps:
        for epoch in step.epochs:
            undone_touches = {**epoch.touches, **undone_touches}
    paths = restorer.files.keys() & undone_touches.keys()
    for step in reversed(earlier_steps):
        for epoch in reversed(step.epochs):
            for path in paths & epoch.touches.keys():
                touch = epoch.touches[path]
                if touch.leads_to(undone_touches[path]):
                    earlier.append((touch, touch.after))
                    touch.after = take_fingerprint(path)
            paths -= epoch.touches.keys()
    return earlier


def _refresh(steps: Sequence[FileStep], restorer: Restorer) -> None:
    """Note how the paths of steps are now, after a redo has made them again. Others keep what was
    noted, by which a change of somebody else is seen."""
    paths = set(restorer.files)
    epochs = [epoch for step in steps for epoch in step.epochs]
    for epoch in reversed(epochs):
        for path in paths & epoch.touches.keys():
            touch = epoch.touches[path]
            if touch.after is not None:
                touch.after = take_fingerprint(path)
            paths.remove(path)
