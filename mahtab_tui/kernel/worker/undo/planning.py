"""Plans how to go back to a step: from its names, its checkpoint, and what the kernel noted itself."""

from __future__ import annotations

from typing import Any

from ..statics import MISSING, address_of
from .checkpoint import Checkpoint, CheckpointError
from .graph import Graph, ancestors
from .kinds import Kinds
from .memory import UnreadableMemoryError, WrittenMemory
from .outside import NotRestored
from .part import Apply
from .process_state import steps_back
from .reach import Patch
from .restoring import Comparison, Plan, differing_names
from .step import Step, touched_names
from .untold import untold


class UndoError(Exception):
    """This cannot be undone now; the message is a sentence for the user."""


class Planner:
    """Makes plans from the namespace as it is now."""

    def __init__(self, namespace: dict[str, Any], kinds: Kinds, memory: WrittenMemory, ended: list[Checkpoint]) -> None:
        """memory: what was written since each step. ended: takes checkpoints that do not answer any more."""
        self._namespace = namespace
        self._kinds = kinds
        self._memory = memory
        self._ended = ended

    def plan(self, step: Step, steps: list[Step]) -> Plan:
        """Plan how to restore the state before a step. steps: all steps, in order. Raises `UndoError`, and whatever creating an object raises."""
        later = steps[steps.index(step) :]
        at = next((each for each in later if each.checkpoint is not None), None)
        before_at = later if at is None else later[: later.index(at)]
        stays = [NotRestored("", _sentence(each.failure)) for each in before_at if each.changes_inside]
        stays += dict.fromkeys(deed for each in later for deed in each.deeds.noted)
        stays += untold(step.names, touched_names(later), self._kinds)
        plan = self._compared(step, at, later)
        noted = next((each for each in later if each.changes_inside), None)
        return _with_patches(self._with_beside(plan, noted, stays), later)

    def _compared(self, step: Step, at: Step | None, later: list[Step]) -> Plan:
        """Plan what the checkpoint of `at` can tell."""
        if at is None or at.checkpoint is None:
            return Plan(step.names, [], [], [], [], [], {}, Graph(self._kinds))
        comparison = Comparison(self._namespace, step.roots(), touched_names(later))
        try:
            return comparison.plan(
                step.serial, at.checkpoint, lambda blocks: self._memory.since(at.serial, blocks), differing_names(self._namespace, step.names)
            )
        except (CheckpointError, UnreadableMemoryError) as error:
            self._ended += at.end()
            at.failure = f"the process that kept the state before cell {at.cell} has ended"
            raise UndoError(f"{error} Nothing was changed.") from None

    def _with_beside(self, plan: Plan, noted: Step | None, stays: list[NotRestored]) -> Plan:
        """Add what the kernel itself noted before the first cell that may have changed an object in place."""
        steps: list[tuple[Apply, Apply]] = []
        inside = list(plan.inside)
        if noted is not None and noted.process is not None:
            settings = noted.process.different()
            steps += steps_back(settings)
            inside += [setting.label for setting, _, _ in settings]
        if noted is not None and noted.beside is not None:
            back, kept, threads = noted.beside.different()
            steps += [(each.apply, each.take_back) for each in back]
            holders = plan.graph.holders()
            for each in back:
                inside += _names_of(each.value, plan, holders)
            stays = stays + threads
            stays += [NotRestored(name, reason) for value, reason in kept for name in _names_of(value, plan, holders)]
        return plan._replace(beside=steps, inside=list(dict.fromkeys(inside)), not_restored=stays + plan.not_restored)


def _with_patches(plan: Plan, later: list[Step]) -> Plan:
    """Add the attributes of libraries' modules as they were before the first cell that set them."""
    first: dict[tuple[int, str], Patch] = {}
    for each in later:
        for patch in each.patches:
            first.setdefault((address_of(patch.held), patch.attribute), patch)
    changed = [patch for patch in first.values() if patch.held.get(patch.attribute, MISSING) is not patch.then and patch.label not in plan.inside]
    steps = [(_set(patch, patch.then), _set(patch, patch.held.get(patch.attribute, MISSING))) for patch in changed]
    return plan._replace(beside=[*plan.beside, *steps], inside=[*plan.inside, *(patch.label for patch in changed)])


def _set(patch: Patch, value: Any) -> Apply:
    def apply() -> None:
        if value is MISSING:
            patch.held.pop(patch.attribute, None)
        else:
            patch.held[patch.attribute] = value

    return apply


def _names_of(value: Any, plan: Plan, holders: dict[int, list[int]]) -> list[str]:
    """Return the names through which an object can be reached."""
    reached = ancestors([address_of(value)], holders)
    return [name for name, held in plan.names.items() if address_of(held) in reached]


def _sentence(failure: str) -> str:
    return f"Changes inside objects stay: {failure}."
