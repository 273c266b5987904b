"""What an undo or a redo changes in the kernel, and its report for the user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..values.objects import MISSING, address_of, is_class, run_with_timeout
from ..values.variables import HIDDEN_NAMES, describe_variable
from .actions import Action, Unrestored
from .checkpoint_memory import CheckpointMemory, UnreadableMemoryError
from .checkpoint_process import Checkpoint
from .graph import Graph
from .memory import MemorySpan, find_memory
from .parts import CLASS, Values

RECREATE_TIMEOUT_S = 10.0
"""For creating objects again, which may run the user's own code."""


class MemoryCopy(NamedTuple):
    """The memory of an array, to be copied from the checkpoint."""

    array: Any
    memory: MemorySpan
    """Where it was."""
    spans: list[MemorySpan]
    """The parts of it to copy."""


class Plan:
    """What an undo or a redo does; nothing has changed before `apply`."""

    def __init__(self, names: dict[str, object], graph: Graph) -> None:
        """Begin with a plan that binds names only.

        Args:
            names: The whole namespace as it will be.
            graph: The objects of the kernel.
        """
        self.names = names
        self.graph = graph
        self.states: list[tuple[Any, list[Values]]] = []
        """Living objects, and the earlier values of their parts that can be written."""
        self.copies: list[MemoryCopy] = []
        """The memory of arrays that differs."""
        self.actions: list[Action] = []
        """What restores settings, and other state that is not inside the objects."""
        self.inside: list[str] = []
        """Labels of the variables and settings in which something changes."""
        self.not_restored: list[Unrestored] = []
        """What stays as it is, with the reasons."""
        self.repeated_ends: list[Unrestored] = []
        """The names that lead to objects that are created again and have a `__del__`, which runs once
        more if the plan is reversed."""
        self.variables: dict[str, dict[str, Any]] = {}
        """Descriptions of the earlier values, by name, of those that must be fetched."""

    def apply(
        self,
        namespace: dict[str, object],
        checkpoint: Checkpoint | None,
        newer_checkpoint: Checkpoint | None,
    ) -> None:
        """Put everything in place; if a step fails, reverse all.

        Args:
            namespace: The user's.
            checkpoint: The checkpoint of the state to restore; None if there is none.
            newer_checkpoint: The checkpoint of the present state; None if there is none. With it, memory
                is overwritten without a copy, because it can be read from there again.

        Raises:
            BaseException: What a step raises.
        """
        actions = self.actions + run_with_timeout(
            RECREATE_TIMEOUT_S, lambda: list(self._state_actions())
        )
        rollback = _Rollback(namespace, newer_checkpoint)
        try:
            for action in actions:
                rollback.actions.append(action)  # before it runs, because it may fail halfway
                action.apply()
            if checkpoint is not None:
                spans = list(self._copied_spans())
                rollback.overwritten_spans = [target for _source, target in spans]
                memory = CheckpointMemory(checkpoint.pid)
                for source, target in spans:
                    memory.copy(source, target.start, drop=newer_checkpoint is not None)
            _bind_names(namespace, self.names)
        except BaseException:
            rollback.run()
            raise

    def _state_actions(self) -> Iterator[Action]:
        """Yield how to write the earlier states. May raise what creating an object raises."""
        for value, states in self.states:
            parts = self.graph.kinds.kind(value).parts
            if is_class(value):
                parts = (CLASS,)  # the user's, whatever the cell has set as its module
            parts = tuple(part for part in parts if part.write is not None)
            for part, values in zip(parts, states):
                yield Action(part.prepare(value, values), part.prepare(value, part.read(value)))

    def _copied_spans(self) -> Iterator[tuple[MemorySpan, MemorySpan]]:
        """Yield the memory to copy: where it is in the checkpoint, and where it belongs here."""
        for copy in self.copies:
            memory = find_memory(copy.array)
            if memory is None or memory.size != copy.memory.size:
                raise ValueError("an array has a different size now")
            offset = memory.start - copy.memory.start
            for span in copy.spans:
                yield span, MemorySpan(span.start + offset, span.end + offset)

    def report(self, namespace: dict[str, object]) -> dict[str, Any]:
        """Describe the plan for the user.

        Args:
            namespace: As it is before `apply`.
        """
        changes: list[dict[str, Any]] = []
        inside = set(self.inside)
        for name in dict.fromkeys((*namespace, *self.names)):
            if type(name) is not str or name in HIDDEN_NAMES:
                continue
            current_value = namespace.get(name, MISSING)
            old_value = self.names.get(name, MISSING)
            if current_value is old_value and name not in inside:
                continue
            changes.append(self._describe_change(name, old_value, current_value))

        # Settings, and attributes of libraries
        for label in dict.fromkeys(self.inside):
            if label in self.names:
                continue
            placeholder = {"name": label, "type": "", "summary": "", "kind": "data"}
            changes.append(
                {"name": label, "change": "changed", "variable": placeholder, "before": placeholder}
            )
        unrestored = [item._asdict() for item in self.not_restored]
        return {"changes": changes, "not_restored": unrestored, "exact": not unrestored}

    def _describe_change(
        self, name: str, old_value: object, current_value: object
    ) -> dict[str, object]:
        """Describe what becomes of a name. The host shows "before" as the value now, and "variable" as
        the value after the undo; None if there is no such value.

        Args:
            name: The name.
            old_value: What it leads to after the undo; `MISSING` if it goes.
            current_value: What it leads to now; `MISSING` if it comes back.
        """
        description_now = None
        description_after = None
        if current_value is not MISSING:
            description_now = describe_variable(name, current_value)
        if old_value is not MISSING:
            description_after = self.variables.get(name) or describe_variable(name, old_value)

        if current_value is MISSING:
            change = "added"
        elif old_value is MISSING:
            change = "deleted"
        elif current_value is old_value:
            change = "changed"
        else:
            change = "rebound"
        return {
            "name": name,
            "change": change,
            "variable": description_after,
            "before": description_now,
        }

    def find_names(self, value: object) -> list[str]:
        """Return the names that will lead to an object of the kernel."""
        reached = self.graph.ancestors([address_of(value)])
        return [name for name, other in self.names.items() if address_of(other) in reached]


class _Rollback:
    """What reverses a plan that was applied in part."""

    def __init__(self, namespace: dict[str, object], checkpoint: Checkpoint | None) -> None:
        """Note the names.

        Args:
            namespace: The user's, before the plan.
            checkpoint: The process that has the memory before the plan; None if there is none.
        """
        self.actions: list[Action] = []
        """Those that have begun, in order."""
        self.overwritten_spans: list[MemorySpan] = []
        """The memory of arrays that may be overwritten."""
        self._namespace = namespace
        self._names = dict(namespace)
        self._checkpoint = checkpoint

    def run(self) -> None:
        """Reverse everything, the last first."""
        if self._checkpoint is not None:
            memory = CheckpointMemory(self._checkpoint.pid)
            for span in self.overwritten_spans:
                with contextlib.suppress(UnreadableMemoryError):
                    memory.copy(span, span.start)
        for action in reversed(self.actions):
            action.revert()
        _bind_names(self._namespace, self._names)


def _bind_names(namespace: dict[str, object], names: dict[str, object]) -> None:
    """Make a namespace contain these names only."""
    for name in list(namespace):
        if name not in names:
            namespace.pop(name, None)
    for name, value in names.items():
        if namespace.get(name, MISSING) is not value:
            namespace[name] = value
