"""Plans how to go back to a step: from its names, its checkpoint, and what the kernel noted itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from ..statics import MISSING, address_of
from .checkpoint import Checkpoint, CheckpointError
from .graph import Graph, ancestors
from .guarded import guarded
from .kinds import REDUCED, Kinds
from .memory import UnreadableMemoryError, WrittenMemory
from .outside import NotRestored
from .part import ATOMS, Apply
from .reach import Patch
from .restoring import Plan, compared
from .step import Step, touched_names


class UndoError(Exception):
    """This cannot be undone now; the message is a sentence for the user."""


def plan_back(step: Step, steps: list[Step], namespace: dict[str, Any], kinds: Kinds, memory: WrittenMemory, ended: list[Checkpoint]) -> Plan:
    """Plan how to restore the state before a step. Raises `UndoError`, and whatever creating an object raises.

    steps: all steps, in order. memory: what was written since each step. ended: takes checkpoints that do not answer any more.
    """
    later = steps[steps.index(step) :]
    at = next((each for each in later if each.checkpoint is not None), None)
    before_at = later if at is None else later[: later.index(at)]
    stays = [NotRestored("", f"Changes inside objects stay: {each.failure}.") for each in before_at if each.changes_inside]
    stays += dict.fromkeys(deed for each in later for deed in each.deeds.noted)
    stays += _untold(step.names, touched_names(later), kinds)
    plan = Plan(step.names, [], [], [], [], [], {}, Graph(kinds))
    if at is not None and at.checkpoint is not None:
        serial = at.serial
        try:
            plan = compared(namespace, step.roots(), touched_names(later), step.serial, at.checkpoint, lambda blocks: memory.since(serial, blocks))
        except (CheckpointError, UnreadableMemoryError) as error:
            ended += at.end()
            at.failure = f"the process that kept the state before cell {at.cell} has ended"
            raise UndoError(f"{error} Nothing was changed.") from None
    noted = next((each for each in later if each.changes_inside), None)
    return _with_patches(_with_beside(plan, noted, stays), later)


def _untold(names: dict[str, Any], touched: Iterable[str], kinds: Kinds) -> list[NotRestored]:
    """Return those of the touched names whose objects cannot be compared: the cell may have changed them."""
    found = []
    for name in touched:
        value = names.get(name)
        if address_of(type(value)) in ATOMS:
            continue
        kind = guarded(type(value))
        if kind is not None:
            if not kind.tells and "io" not in kind.modules:  # for files, positions are noted
                found.append(NotRestored(name, kind.reason))
        elif kinds.parts(value) == (REDUCED,) and not REDUCED.read(value):
            found.append(NotRestored(name, "it is not known what was changed in it"))
    return found


def _with_beside(plan: Plan, noted: Step | None, stays: list[NotRestored]) -> Plan:
    """Add what the kernel itself noted before the first cell that may have changed an object in place."""
    steps: list[tuple[Apply, Apply]] = []
    inside = list(plan.inside)
    if noted is not None and noted.process is not None:
        settings = noted.process.different()
        steps += [(partial(setting.write, then), partial(setting.write, now)) for setting, then, now in settings]
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
    steps = [(partial(_set, patch, patch.then), partial(_set, patch, patch.held.get(patch.attribute, MISSING))) for patch in changed]
    return plan._replace(beside=[*plan.beside, *steps], inside=[*plan.inside, *(patch.label for patch in changed)])


def _set(patch: Patch, value: Any) -> None:
    if value is MISSING:
        patch.held.pop(patch.attribute, None)
    else:
        patch.held[patch.attribute] = value


def _names_of(value: Any, plan: Plan, holders: dict[int, list[int]]) -> list[str]:
    """Return the names through which an object can be reached."""
    reached = ancestors([address_of(value)], holders)
    return [name for name, held in plan.names.items() if address_of(held) in reached]
