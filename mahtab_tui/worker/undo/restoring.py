"""Plans how to restore the state before a step.

`checkpoint_comparison` finds what differs of names and objects; without a checkpoint, only names are restored.
What a checkpoint does not keep was noted in the kernel before the cell, and is compared here: settings, open
files, connections, descriptors, and what code can replace in libraries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ..values.objects import MISSING, Classes, address_of, is_module, own_dict
from .actions import Action, Unrestored
from .checkpoint_comparison import compare_with_checkpoint
from .connections import is_connection
from .earlier_state import format_label
from .graph import Graph
from .kinds import Kinds
from .lasting_calls import find_lasting_calls
from .libraries import AttributeChange, LibrarySnapshot, ReleasedObject
from .open_files import file_label
from .plan import Plan
from .side_state import SideState
from .step import Step

_MAX_NUMBERS = 1_000
"""Items of a list or dict in which descriptors are looked for."""
_PLAIN_CONTAINERS = Classes(list, tuple, set, frozenset)

# Reasons why something is not restored, as the user reads them.
_OPEN_FILE = "an open file cannot be restored"
_UNKNOWN_FILE = "not compared: what was read from this file or written to it stays so"
_CONNECTION = "the settings and tables of a connection stay as they are"
_UNKNOWN_CONNECTION = "the settings and tables of this connection were not compared"
_LOADED_SINCE = "not compared: it was only loaded when it was used, so what was set in it stays"
_ENDED = "it has ended and does not come back"


def plan_undo(
    steps: list[Step],
    checkpointed: Step | None,
    namespace: dict[str, object],
    kinds: Kinds,
    scheduled: Sequence[object],
    *,
    is_preview: bool,
) -> Plan:
    """Plan how to restore the state before the first step.

    Args:
        steps: Those to undo, the oldest first.
        checkpointed: The first of them with a checkpoint; None if there is none.
        namespace: The user's.
        kinds: Of the kernel's objects.
        scheduled: Tasks and callbacks that wait.
        is_preview: Whether the plan is only reported: no object is created again, because its end
            would run code.

    Raises:
        CheckpointError: The checkpoint does not answer.
        UnreadableMemoryError: Its memory cannot be read.
        Exception: Anything that creating an object again raises.
    """
    first_step = steps[0]
    mentioned = tuple(dict.fromkeys(name for step in steps for name in step.mentioned))
    if checkpointed is None:
        plan = _plan_names(first_step, namespace, kinds)
        uncompared_steps = steps
    else:
        plan = compare_with_checkpoint(
            first_step, checkpointed, mentioned, namespace, is_preview=is_preview
        )
        uncompared_steps = steps[: steps.index(checkpointed)]

    inside_changes = [
        Unrestored("", f"Changes inside objects stay: {step.failure}.")
        for step in uncompared_steps
        if step.changes_inside
    ]
    side_effects = dict.fromkeys(effect for step in steps for effect in step.side_effects)
    plan.not_restored[:0] = [*inside_changes, *side_effects]
    _add_side_state(plan, steps, kinds, frozenset(mentioned))
    _add_libraries(plan, steps, frozenset(mentioned))
    plan.not_restored += first_step.find_new_work(scheduled)
    return plan


def _plan_names(step: Step, namespace: dict[str, object], kinds: Kinds) -> Plan:
    """Plan how to restore the names before a step without a checkpoint.

    Args:
        step: The step.
        namespace: The user's.
        kinds: Says how objects are read.
    """
    names = step.live_names(namespace)
    ended_names = [name for name in step.names if name not in names]
    # A name whose object has ended stays as it is now.
    present_values = {name: namespace[name] for name in ended_names if name in namespace}
    plan = Plan({**present_values, **names}, Graph(kinds))
    plan.not_restored += [Unrestored(format_label(name), _ENDED) for name in ended_names]
    return plan


def _add_side_state(plan: Plan, steps: list[Step], kinds: Kinds, mentioned: frozenset[str]) -> None:
    """Add what the kernel noted before the first cell that may have changed an object in place.

    Args:
        plan: Gets it.
        steps: The steps to undo, the oldest first.
        kinds: Knows which modules are the user's.
        mentioned: Names in the cells' code.
    """
    first_step = next((step for step in steps if step.changes_inside), None)
    if first_step is None:
        return

    mentioned_values = [plan.names.get(name) for name in mentioned]
    process = first_step.process
    side_state = first_step.side_state
    if process is not None:
        _add_settings(plan, process.find_changes(mentioned, mentioned_values))
    compared_files: set[int] = set()
    if side_state is not None:
        _add_files_and_connections(plan, side_state, mentioned)
        compared_files = side_state.file_descriptors()
    if process is not None:
        mentioned_values += _values_in_user_modules(mentioned_values, kinds)
        descriptors = _find_numbers(mentioned_values)
        plan.not_restored += process.find_descriptor_changes(compared_files, descriptors)
        plan.not_restored += find_lasting_calls(mentioned, mentioned_values)


def _values_in_user_modules(values: Iterable[object], kinds: Kinds) -> list[object]:
    """Return what the user's modules among some values contain, in which descriptors may be. The modules
    of libraries are full of other numbers."""
    return [
        value
        for module in values
        if is_module(module) and kinds.is_user_defined(module)
        for name, value in own_dict(module).items()
        if name != "__builtins__"
    ]


def _add_settings(plan: Plan, actions: dict[str, Action | None]) -> None:
    """Add the settings that have changed.

    Args:
        plan: Gets them.
        actions: What restores each, by its label; None if it cannot be restored.
    """
    for label, action in actions.items():
        if action is None:
            plan.not_restored.append(Unrestored(label, "this setting cannot be restored"))
        else:
            plan.actions.append(action)
            plan.inside.append(label)


def _add_files_and_connections(
    plan: Plan, side_state: SideState, mentioned: frozenset[str]
) -> None:
    """Add what has changed of open files and of connections, and threads that have started.

    Args:
        plan: Gets it.
        side_state: What was noted before the cells.
        mentioned: Names in the cells' code.
    """
    for value, action in side_state.find_differences():
        names = plan.find_names(value)
        if action is not None:
            plan.actions.append(action)
            plan.inside += names
            continue
        is_file = not is_connection(type(value))
        reason = _OPEN_FILE if is_file else _CONNECTION
        if is_file and not names:
            names = [file_label(value)]
        plan.not_restored += [Unrestored(name, reason) for name in names]
    plan.not_restored += side_state.find_started_threads()
    _add_unknown_files(plan, side_state, mentioned)
    _add_unknown_connections(plan, side_state, mentioned)


def _find_numbers(values: Iterable[Any], depth: int = 2) -> set[int]:
    """Return the numbers among values, and in lists, dicts and attributes of other objects than
    modules.

    Args:
        values: Where to look.
        depth: Levels of containers and attributes in each other that are looked at.
    """
    numbers: set[int] = set()
    for value in values:
        if type(value) is int:
            numbers.add(value)
        elif depth and type(value) in _PLAIN_CONTAINERS:
            numbers |= _find_numbers(islice(value, _MAX_NUMBERS), depth - 1)
        elif depth and not is_module(value):
            items = value if type(value) is dict else own_dict(value)
            numbers |= _find_numbers(islice(dict.values(items), _MAX_NUMBERS), depth - 1)
    return numbers


def _add_unknown_files(plan: Plan, side_state: SideState, mentioned: frozenset[str]) -> None:
    """Add the files that the code mentions and that cannot be compared."""
    reported_names = {entry.name for entry in plan.not_restored}
    for file in side_state.find_unknown_files():
        names = mentioned.intersection(plan.find_names(file)) - reported_names
        plan.not_restored += [Unrestored(name, _UNKNOWN_FILE) for name in sorted(names)]
        reported_names |= names


def _add_unknown_connections(plan: Plan, side_state: SideState, mentioned: frozenset[str]) -> None:
    """Add the connections that the code mentions and whose settings cannot be compared."""
    reported_names = {entry.name for entry in plan.not_restored}
    for connection, reason in side_state.find_unknown_connections():
        names = mentioned.intersection(plan.find_names(connection)) - reported_names
        sentence = f"{_UNKNOWN_CONNECTION} ({reason})"
        plan.not_restored += [Unrestored(name, sentence) for name in sorted(names)]
        reported_names |= names


def _add_libraries(plan: Plan, steps: list[Step], mentioned: frozenset[str]) -> None:
    """Add what the cells replaced in libraries. Of several snapshots of one, the oldest counts."""
    first_snapshots: dict[int, LibrarySnapshot] = {}
    for step in steps:
        for library in step.libraries:
            first_snapshots.setdefault(address_of(library.holder), library)
    settings = frozenset(plan.inside)
    for library in first_snapshots.values():
        if library.was_loaded_since:
            plan.not_restored.append(Unrestored(f"module {library.label}", _LOADED_SINCE))
            continue
        registry_action = library.registry_action()
        if registry_action is not None:
            plan.inside.append(f"{library.label}.register")
            plan.actions.append(registry_action)
        _add_contents(plan, library)
        for change in library.iter_changes(mentioned):
            # Some settings of libraries are attributes, too.
            if f"{library.label}.{change.name}" not in settings:
                _add_attribute(plan, library, change)


def _add_attribute(plan: Plan, library: LibrarySnapshot, change: AttributeChange) -> None:
    """Add how to put back an attribute of a library, or that this is impossible."""
    label = f"{library.label}.{change.name}"
    old_value = change.old_value
    if type(old_value) is ReleasedObject:
        old_value = old_value.value(None)
        if old_value is MISSING:
            plan.not_restored.append(Unrestored(label, _ENDED))
            return
    plan.inside.append(label)
    put = partial(library.set_attribute, change.name)
    plan.actions.append(Action(partial(put, old_value), partial(put, change.new_value)))


def _add_contents(plan: Plan, library: LibrarySnapshot) -> None:
    """Add what the cells changed in a library's lists, dicts and sets."""
    reported = frozenset(plan.inside)
    for container in library.contents:
        change = container.find_change()
        if change is None or change.label in reported:
            continue
        if change.apply is None:
            plan.not_restored.append(Unrestored(change.label, _ENDED))
            continue
        plan.actions.append(Action(change.apply, change.revert))
        if change.label not in plan.inside:
            plan.inside.append(change.label)
