"""Plans how to go back to a step: from its names, its checkpoint, and what the kernel noted
itself."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..statics import MISSING, address_of
from .checkpoint import Checkpoint, CheckpointError
from .checkpoint_responder import label_of
from .dirty_pages import DirtyPages, UnreadableMemoryError
from .ending import Ending
from .graph import Graph, ancestors
from .kinds import Kinds
from .part import Apply
from .reach import Library
from .restoring import Plan, compared
from .side_effects import NotRestored
from .step import Step, touched_names


class UndoError(Exception):
    """This cannot be undone now; the message is a sentence for the user."""


def plan_back(
    step: Step,
    steps: list[Step],
    namespace: dict[str, Any],
    kinds: Kinds,
    memory: DirtyPages,
    ended: list[Checkpoint],
) -> Plan:
    """Plan how to restore the state before a step. Raises `UndoError`, and whatever creating an
    object raises.

    steps: all steps, in order. memory: what was written since each step. ended: takes checkpoints
    that do not answer any more.
    """
    later = steps[steps.index(step) :]
    at = next((each for each in later if each.checkpoint is not None), None)
    before_at = later if at is None else later[: later.index(at)]
    stays = [
        NotRestored("", f"Changes inside objects stay: {each.failure}.")
        for each in before_at
        if each.changes_inside
    ]
    stays += dict.fromkeys(deed for each in later for deed in each.deeds.noted)
    names = step.living(namespace)
    gone = [name for name in step.names if name not in names]
    plan = Plan(
        {**{name: namespace[name] for name in gone if name in namespace}, **names},
        [],
        [],
        [],
        [],
        [NotRestored(label_of(name), "it has ended and does not come back") for name in gone],
        {},
        Graph(kinds),
    )
    if at is not None and at.checkpoint is not None:
        serial = at.serial
        try:
            plan = compared(
                namespace,
                step,
                touched_names(later),
                at.checkpoint,
                lambda blocks: memory.since(serial, blocks),
            )
        except (CheckpointError, UnreadableMemoryError) as error:
            ended += at.end()
            at.failure = f"the process that kept the state before cell {at.cell} has ended"
            raise UndoError(f"{error} Nothing was changed.") from None
    noted = next((each for each in later if each.changes_inside), None)
    return _with_libraries(_with_beside(plan, noted, stays), later)


def _with_beside(plan: Plan, noted: Step | None, stays: list[NotRestored]) -> Plan:
    """Add what the kernel itself noted before the first cell that may have changed an object in
    place."""
    steps: list[tuple[Apply, Apply]] = []
    inside = list(plan.inside)
    if noted is not None and noted.process is not None:
        settings = noted.process.different()
        steps += [
            (partial(setting.write, then), partial(setting.write, now))
            for setting, then, now in settings
        ]
        inside += [setting.label for setting, _, _ in settings]
    if noted is not None and noted.beside is not None:
        back, kept, threads = noted.beside.different()
        steps += [(each.apply, each.take_back) for each in back]
        holders = plan.graph.holders()
        for each in back:
            inside += _names_of(each.value, plan, holders)
        stays = stays + threads
        stays += [
            NotRestored(name, reason)
            for value, reason in kept
            for name in _names_of(value, plan, holders)
        ]
    return plan._replace(
        beside=steps, inside=list(dict.fromkeys(inside)), not_restored=stays + plan.not_restored
    )


def _with_libraries(plan: Plan, later: list[Step]) -> Plan:
    """Add the attributes of libraries' modules and classes as they were before the first cell that
    mentions these."""
    first: dict[int, Library] = {}
    for each in later:
        for library in each.libraries:
            first.setdefault(address_of(library.holder), library)
    steps: list[tuple[Apply, Apply]] = []
    labels, stays = [], []
    mentioned = frozenset(touched_names(later))
    for library in first.values():
        for name, then, now in library.changed(mentioned):
            label = f"{library.label}.{name}"
            value = then.value(None) if type(then) is Ending else then
            if label in plan.inside:
                continue
            if value is MISSING and then is not MISSING:
                stays.append(NotRestored(label, "it has ended and does not come back"))
                continue
            labels.append(label)
            steps.append((partial(library.put, name, value), partial(library.put, name, now)))
    return plan._replace(
        beside=[*plan.beside, *steps],
        inside=[*plan.inside, *labels],
        not_restored=plan.not_restored + stays,
    )


def _names_of(value: Any, plan: Plan, holders: dict[int, list[int]]) -> list[str]:
    """Return the names through which an object can be reached."""
    reached = ancestors([address_of(value)], holders)
    return [name for name, held in plan.names.items() if address_of(held) in reached]
