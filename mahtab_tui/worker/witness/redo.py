"""Undoes the steps of cells, and redoes them.

A redo is an undo of an undo: while an undo takes steps back, it writes a step of its own, which says what
was there before. `plan` decides what can be taken back, and `restoring` does it.
"""

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

    own_steps: list[FileStep]
    """What the undo itself has done, as the last of these steps. Before it, what earlier redoes could not
    restore, which taking back this undo may."""
    removed_steps: list[FileStep]
    """The steps of cells that it has taken back."""

    @property
    def cell(self) -> int:
        """The first cell that it has taken back."""
        return self.own_steps[-1].cell


class RedoStack:
    """Takes back the steps of a journal, and keeps what a redo needs until another cell runs."""

    def __init__(self, journal: FileJournal) -> None:
        """Begin with nothing undone.

        Args:
            journal: Has the steps of the cells.
        """
        self._journal = journal
        self._undone: list[_Undo] = []
        """The undos that can be reversed, the newest last."""
        self._refused_steps: list[FileStep] = []
        """What redoes could not restore, and the redo of another undo may."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to redo."""
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
        """Take back the steps from a cell on; return what was done."""
        journal = self._journal
        removed_steps = self._steps_from(cell)
        own_step = FileStep(cell, journal.nodes.count)
        plan = self._take_back(removed_steps, own_step)
        journal.steps = [step for step in journal.steps if step.cell < cell]
        self._undone.append(_Undo([*self._refused_steps, own_step], removed_steps))
        self._refused_steps = []
        return plan

    def redo(self) -> UndoPlan:
        """Reverse the last undo; return what was done."""
        journal = self._journal
        if not self._undone:
            return UndoPlan(journal, [])
        undo = self._undone.pop()
        # Nobody reverses a redo, so that its own step is not kept.
        plan = self._take_back(undo.own_steps, FileStep(undo.cell, journal.nodes.count))
        refused_parts = [plan.refused_part(step) for step in undo.own_steps]
        self._refused_steps = [part for part in refused_parts if not part.is_empty]
        # What a process has written since the undo comes after these steps.
        earlier_steps = [step for step in journal.steps if step.cell < undo.cell]
        later_steps = [step for step in journal.steps if step.cell >= undo.cell]
        journal.steps = [*earlier_steps, *undo.removed_steps, *later_steps]
        return plan

    def _take_back(self, steps: Sequence[FileStep], own_step: FileStep) -> UndoPlan:
        """Take back steps, as far as possible.

        Args:
            steps: The steps, the oldest first.
            own_step: Gets what was there before.

        Returns:
            What was done, and what could not be done.
        """
        places = [place for step in steps for place in step.places]
        self._journal.copies.begin_undo()
        try:
            with self._journal.nodes.opening(places, needed=os.R_OK | os.W_OK | os.X_OK):
                plan = UndoPlan(self._journal, steps)
                Restorer(self._journal, plan, own_step).restore()
        finally:
            self._journal.copies.end_undo()
        return plan

    def forget(self) -> None:
        """Forget the undone steps, because another cell runs."""
        self._undone.clear()
        self._refused_steps.clear()
