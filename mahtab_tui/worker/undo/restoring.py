"""Plans and restores a state."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Callable, NamedTuple

from ..objects import MISSING, address_of, run_with_timeout
from ..variables import HIDDEN, describe_variable
from .checkpoint import Checkpoint, CheckpointError, load_state
from .checkpoint_responder import (
    NAME,
    STATE,
    CheckpointMemory,
    DirtyPages,
    Span,
    StateRequest,
    States,
    UnreadableMemoryError,
    format_label,
    unpack_addresses,
    walk,
)
from .graph import Graph, Kinds, Node, ancestors
from .mutations import Step, touched_names
from .process_state import NotRestored
from .reach import Apply, LibrarySnapshot, ReleasedObject
from .tables import Block, find_block

ANSWER_TIMEOUT = 60.0
"""Seconds to wait for a checkpoint's answer; after that it counts as lost."""
RECREATE_TIMEOUT = 10.0
"""Seconds for recreating objects and preparing the steps, which may run user code."""


class Copy(NamedTuple):
    """Memory of an array to copy back."""

    array: Any
    block: Block
    """Its earlier position."""
    spans: list[Span]


class Plan(NamedTuple):
    """Everything needed to restore a state."""

    names: dict[str, Any]
    """The earlier namespace."""
    states: list[tuple[Any, list[list[Any]]]]
    """Objects to restore, with the values of their parts."""
    copies: list[Copy]
    side_state: list[tuple[Apply, Apply]]
    """Other steps, each with a function that does it and one that reverses it."""
    inside: list[str]
    """Names whose objects will change inside."""
    not_restored: list[NotRestored]
    variables: dict[str, dict[str, Any]]
    """The descriptions that those names will have."""
    graph: Graph
    """Keeps the objects alive until the end."""


WrittenSince = Callable[[Iterable[Block]], dict[Block, list[Span]]]


def compare_with_checkpoint(
    namespace: dict[str, Any],
    step: Step,
    first: Iterable[str],
    checkpoint: Checkpoint,
    since: WrittenSince,
) -> Plan:
    """Compare the kernel with the checkpoint of a step, starting with the names in `first`, and
    fetch what is different.

    since: returns the parts of blocks that may have been written since the checkpoint. Raises
    anything that recreating an object raises.
    """
    first, graph, unseen, roots = (
        list(first),
        Graph(Kinds(namespace)),
        set[str](),
        step.roots(namespace),
    )
    table, unseen_there = checkpoint.ask(
        ("describe", step.serial, first),
        ANSWER_TIMEOUT,
        lambda: unseen.update(walk(graph, roots, first)),
    )
    unseen.update(unseen_there)
    alive, changed, copies, moved = _match(unpack_addresses(table), graph, step.ended())
    spans = since(copy.block for copy in copies)
    other = CheckpointMemory(checkpoint.pid)
    different = (
        [
            part
            for span in spans[copy.block]
            for part in other.touched_spans(span)
            if other.differs(part)
        ]
        for copy in copies
    )
    copies = [copy._replace(spans=parts) for copy, parts in zip(copies, different) if parts] + moved
    memory = array("q", [address_of(copy.array) for copy in copies])
    rebound = [
        name
        for name in step.names
        if name not in roots.names or namespace.get(name, MISSING) is not roots.names[name]
    ]
    wanted = StateRequest(alive.tobytes(), changed.tobytes(), memory.tobytes(), rebound)
    carried = States(*checkpoint.ask(("carry", *wanted), ANSWER_TIMEOUT))
    nodes = graph.nodes
    rows = run_with_timeout(
        RECREATE_TIMEOUT,
        lambda: load_state(carried.payload, lambda address: nodes[address].value, namespace),
    )
    living = set(alive)
    return Plan(
        _earlier_names(
            step,
            namespace,
            nodes,
            living,
            {key: value for kind, key, value in rows if kind == NAME},
        ),
        [(nodes[key].value, values) for kind, key, values in rows if kind == STATE],
        copies,
        [],
        carried.changed,
        [NotRestored(*lost) for lost in carried.lost]
        + [
            NotRestored(name, f"not compared: undo does not know what {kind} stores")
            for name, kind in carried.unknown
        ]
        + [
            NotRestored(name, "there was not enough time to compare it: changes in it stay")
            for name in sorted(unseen)
        ],
        carried.variables,
        graph,
    )


def _earlier_names(
    step: Step,
    namespace: dict[str, Any],
    nodes: dict[int, Node],
    alive: set[int],
    gone: dict[str, Any],
) -> dict[str, Any]:
    """Return the objects of the names; for one that cannot be restored, its current object."""
    found = {}
    for name, value in step.names.items():
        if name in gone:
            found[name] = gone[name]
        elif type(value) is not ReleasedObject:
            found[name] = value
        elif value.address in alive:
            found[name] = nodes[value.address].value
        elif name in namespace:
            found[name] = namespace[name]
    return found


def _match(
    rows: array[int], graph: Graph, ended: set[int]
) -> tuple[array[int], array[int], list[Copy], list[Copy]]:
    """Return the objects that live in both processes, those whose state differs, arrays at the same
    address, and arrays that have moved."""
    alive, changed = array("q"), array("q")
    stayed: list[Copy] = []
    moved: list[Copy] = []
    for offset in range(0, len(rows), 6):
        address, kind, fixed, loose, start, size = rows[offset : offset + 6]
        node = graph.nodes.get(address)
        if (
            node is None
            or address in ended
            or address_of(type(node.value)) != kind
            or node.fixed_state != fixed
        ):
            continue
        alive.append(address)
        if node.mutable_state != loose:
            changed.append(address)
        if size:
            there = Block(start, size)
            copy = Copy(node.value, there, [Span(start, start + size)])
            (stayed if node.block == there else moved).append(copy)
    return alive, changed, stayed, moved


def apply_plan(
    plan: Plan, namespace: dict[str, Any], checkpoint: Checkpoint | None, now: Checkpoint | None
) -> None:
    """Carry out a plan; if a step fails, reverse everything. checkpoint: the one of the state to
    restore. now: the one of the current state."""
    ready = plan.side_state + run_with_timeout(
        RECREATE_TIMEOUT,
        lambda: [
            step for value, values in plan.states for step in _steps(plan.graph, value, values)
        ],
    )
    before = dict(namespace)
    done: list[Apply] = []
    copied = False
    try:
        for apply, revert in ready:
            done.append(revert)
            apply()
        pieces = list(_pieces(plan.copies))
        if checkpoint is not None:
            other = CheckpointMemory(checkpoint.pid)
            copied = True
            for there, here in pieces:
                other.copy(there, here.start, drop=now is not None)
        _bind_names(namespace, plan.names)
    except BaseException:
        if copied and now is not None:
            other = CheckpointMemory(now.pid)
            for _, here in pieces:
                with contextlib.suppress(UnreadableMemoryError):
                    other.copy(here, here.start)
        for revert in reversed(done):
            revert()
        _bind_names(namespace, before)
        raise


def _pieces(copies: list[Copy]) -> Iterator[tuple[Span, Span]]:
    """Yield what to copy: its position in the checkpoint, and here."""
    for copy in copies:
        block = find_block(copy.array)
        if block is None or block.size != copy.block.size:
            raise ValueError("an array has a different size now")
        moved = block.address - copy.block.address
        yield from ((span, Span(span.start + moved, span.end + moved)) for span in copy.spans)


def _steps(graph: Graph, value: Any, values: list[list[Any]]) -> Iterable[tuple[Apply, Apply]]:
    parts = [part for part in graph.kinds.parts(value) if part.prepare is not None]
    for part, wanted in zip(parts, values):
        assert part.prepare is not None
        yield part.prepare(value, wanted), part.prepare(value, part.read(value))


def _bind_names(namespace: dict[str, Any], names: dict[str, Any]) -> None:
    for name in list(namespace):
        if name not in names:
            namespace.pop(name, None)
    for name, value in names.items():
        if namespace.get(name, MISSING) is not value:
            namespace[name] = value


def describe_changes(plan: Plan, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the effect of the plan on each name."""
    found: list[dict[str, Any]] = []
    inside_names = set(plan.inside)
    for name in dict.fromkeys((*namespace, *plan.names)):
        if type(name) is not str or name in HIDDEN:
            continue
        now, then = namespace.get(name, MISSING), plan.names.get(name, MISSING)
        if now is then and name not in inside_names:
            continue
        kind = (
            "deleted"
            if then is MISSING
            else "added"
            if now is MISSING
            else "changed"
            if now is then
            else "rebound"
        )
        after = (
            None if then is MISSING else plan.variables.get(name) or describe_variable(name, then)
        )
        found.append(
            {
                "name": name,
                "change": kind,
                "variable": after,
                "before": None if now is MISSING else describe_variable(name, now),
            }
        )
    for label in plan.inside:
        if label not in plan.names:
            thing = {"name": label, "type": "", "summary": "", "kind": "data"}
            found.append({"name": label, "change": "changed", "variable": thing, "before": thing})
    return found


class UndoError(Exception):
    """This cannot be undone now; the message is a sentence for the user."""


def plan_undo(
    step: Step,
    steps: list[Step],
    namespace: dict[str, Any],
    kinds: Kinds,
    memory: DirtyPages,
    ended: list[Checkpoint],
) -> Plan:
    """Plan how to restore the state before a step. Raises `UndoError`, and anything that recreating
    an object raises.

    steps: all steps, in order. memory: what was written since each step. ended: collects
    checkpoints that no longer answer.
    """
    later = steps[steps.index(step) :]
    at = next((each for each in later if each.checkpoint is not None), None)
    before_at = later if at is None else later[: later.index(at)]
    stays = [
        NotRestored("", f"Changes inside objects stay: {each.failure}.")
        for each in before_at
        if each.changes_inside
    ]
    stays += dict.fromkeys(deed for each in later for deed in each.side_effects.effects)
    names = step.live_names(namespace)
    gone = [name for name in step.names if name not in names]
    plan = Plan(
        {**{name: namespace[name] for name in gone if name in namespace}, **names},
        [],
        [],
        [],
        [],
        [NotRestored(format_label(name), "it has ended and does not come back") for name in gone],
        {},
        Graph(kinds),
    )
    if at is not None and at.checkpoint is not None:
        serial = at.serial
        try:
            plan = compare_with_checkpoint(
                namespace,
                step,
                touched_names(later),
                at.checkpoint,
                lambda blocks: memory.written_since(serial, blocks),
            )
        except (CheckpointError, UnreadableMemoryError) as error:
            ended += at.end()
            at.failure = f"the process that kept the state before cell {at.cell} has ended"
            raise UndoError(f"{error} Nothing was changed.") from None
    noted = next((each for each in later if each.changes_inside), None)
    return _add_libraries(_add_side_state(plan, noted, stays), later)


def _add_side_state(plan: Plan, noted: Step | None, stays: list[NotRestored]) -> Plan:
    """Add the state that a fork does not preserve, as recorded before the first cell that may have
    changed an object in place."""
    steps: list[tuple[Apply, Apply]] = []
    inside = list(plan.inside)
    if noted is not None and noted.process is not None:
        settings = noted.process.changed_settings()
        steps += [
            (partial(setting.write, then), partial(setting.write, now))
            for setting, then, now in settings
        ]
        inside += [setting.label for setting, _, _ in settings]
    if noted is not None and noted.side_state is not None:
        back, unrestored, threads = noted.side_state.compare()
        steps += [(each.apply, each.revert) for each in back]
        holders = plan.graph.holders()
        for each in back:
            inside += _find_names(each.value, plan, holders)
        stays = stays + threads
        stays += [
            NotRestored(name, reason)
            for value, reason in unrestored
            for name in _find_names(value, plan, holders)
        ]
    return plan._replace(
        side_state=steps, inside=list(dict.fromkeys(inside)), not_restored=stays + plan.not_restored
    )


def _add_libraries(plan: Plan, later: list[Step]) -> Plan:
    """Add the attributes of library modules and classes as they were before the first cell that
    mentions these."""
    first: dict[int, LibrarySnapshot] = {}
    for each in later:
        for library in each.libraries:
            first.setdefault(address_of(library.holder), library)
    steps: list[tuple[Apply, Apply]] = []
    labels, stays = [], []
    mentioned = frozenset(touched_names(later))
    for library in first.values():
        for name, then, now in library.iter_changes(mentioned):
            label = f"{library.label}.{name}"
            value = then.value(None) if type(then) is ReleasedObject else then
            if label in plan.inside:
                continue
            if value is MISSING and then is not MISSING:
                stays.append(NotRestored(label, "it has ended and does not come back"))
                continue
            labels.append(label)
            steps.append(
                (
                    partial(library.set_attribute, name, value),
                    partial(library.set_attribute, name, now),
                )
            )
    return plan._replace(
        side_state=[*plan.side_state, *steps],
        inside=[*plan.inside, *labels],
        not_restored=plan.not_restored + stays,
    )


def _find_names(value: Any, plan: Plan, holders: dict[int, list[int]]) -> list[str]:
    """Return the names through which an object can be reached."""
    reached = ancestors([address_of(value)], holders)
    return [name for name, each in plan.names.items() if address_of(each) in reached]
