"""Undoes the steps of cells, and redoes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from .file_step import FileStep
from .journal import FileJournal
from .plan import UndoPlan
from .restoring import Restorer


class _Undo(NamedTuple):
    """An undo that can be reversed."""

    records: list[FileStep]
    """What restores the state before it; first what earlier redoes could not restore."""
    steps: list[FileStep]
    """The steps that the undo removed."""


class RedoStack:
    """The undone steps, until another cell runs."""

    def __init__(self, journal: FileJournal) -> None:
        self._journal = journal
        self._undone: list[_Undo] = []
        self._refused: list[FileStep] = []
        """What redoes could not restore, and the redo of another undo can."""

    @property
    def is_empty(self) -> bool:
        return not self._undone

    def _steps_from(self, cell: int) -> list[FileStep]:
        """Return the steps of a cell and of those after it, with all that they know."""
        steps = [step for step in self._journal.steps if step.cell >= cell]
        for step in steps:
            step.unpack(self._journal.nodes)
        return steps

    def plan(self, cell: int) -> UndoPlan:
        """Return what taking back the steps from a cell on would do. It changes nothing, but folders that
        their owner may not enter are open meanwhile, because nothing else shows what is in them."""
        steps = self._steps_from(cell)
        with self._journal.nodes.opening(place for step in steps for place in step.places):
            return UndoPlan(self._journal, steps)

    def undo(self, cell: int) -> UndoPlan:
        """Take back the steps from a cell on."""
        journal = self._journal
        steps = self._steps_from(cell)
        record = FileStep(cell, journal.nodes.count)
        plan = self._restore(steps, record)
        journal.steps = [step for step in journal.steps if step.cell < cell]
        self._undone.append(_Undo([*self._refused, record], steps))
        self._refused = []
        return plan

    def redo(self) -> UndoPlan:
        """Reverse the last undo."""
        if not self._undone:
            return UndoPlan(self._journal, [])
        records, steps = self._undone.pop()
        cell = records[-1].cell
        plan = self._restore(records, FileStep(cell, self._journal.nodes.count))
        refused = [plan.refused_part(record) for record in records]
        self._refused = [step for step in refused if not step.is_empty]
        # What a process has written since the undo comes after these steps.
        earlier_steps = [step for step in self._journal.steps if step.cell < cell]
        later_steps = [step for step in self._journal.steps if step.cell >= cell]
        self._journal.steps = [*earlier_steps, *steps, *later_steps]
        return plan

    def _restore(self, steps: Sequence[FileStep], record: FileStep) -> UndoPlan:
        """Take back steps.

        Args:
            record: Gets the present states.
        """
        places = [place for step in steps for place in step.places]
        self._journal.copies.begin_undo()
        try:
            with self._journal.nodes.opening(places, needed=os.R_OK | os.W_OK | os.X_OK):
                plan = UndoPlan(self._journal, steps)
                Restorer(self._journal, plan, record).restore()
        finally:
            self._journal.copies.end_undo()
        return plan

    def forget(self) -> None:
        """Forget the undone steps, because another cell runs."""
        self._undone.clear()
        self._refused.clear()
