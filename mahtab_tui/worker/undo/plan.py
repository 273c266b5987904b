"""What an undo or a redo changes in the kernel, and its report for the user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..values.objects import MISSING, address_of, is_class, run_with_timeout
from ..values.variables import HIDDEN_NAMES, describe_variable
from .actions import Action, Unrestored
from .checkpoint_process import Checkpoint
from .graph import Graph
from .memory import CheckpointMemory, MemorySpan, UnreadableMemoryError, find_memory
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
        """
        Args:
            names: The whole namespace as it will be.
            graph: Of the objects of the kernel.
        """
        self.names = names
        self.graph = graph
        self.states: list[tuple[Any, list[Values]]] = []
        """Living objects, and the earlier values of their parts that can be written."""
        self.copies: list[MemoryCopy] = []
        self.actions: list[Action] = []
        self.inside: list[str] = []
        """Labels of the variables and settings in which something changes."""
        self.not_restored: list[Unrestored] = []
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
            checkpoint: That of the state to restore.
            newer_checkpoint: That of the present state. With it, memory is overwritten without a
                copy, because it can be read from there again.
        """
        actions = self.actions + run_with_timeout(
            RECREATE_TIMEOUT_S, lambda: list(self._state_actions())
        )
        namespace_before = dict(namespace)
        begun_actions: list[Action] = []
        copied_spans: list[tuple[MemorySpan, MemorySpan]] = []
        try:
            for action in actions:
                begun_actions.append(action)  # before it runs, because it may fail halfway
                action.apply()
            if checkpoint is not None:
                copied_spans = list(self._copied_spans())
                memory = CheckpointMemory(checkpoint.pid)
                for source, target in copied_spans:
                    memory.copy(source, target.start, drop=newer_checkpoint is not None)
            _bind_names(namespace, self.names)
        except BaseException:
            if newer_checkpoint is not None:
                memory = CheckpointMemory(newer_checkpoint.pid)
                for _, target in copied_spans:
                    with contextlib.suppress(UnreadableMemoryError):
                        memory.copy(target, target.start)
            for action in reversed(begun_actions):
                action.revert()
            _bind_names(namespace, namespace_before)
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
        """Describe a change from the current value, which is "before", to the old one, which is the
        "variable" after it."""
        description_now = None
        description_after = None
        change = "rebound"
        if current_value is old_value:
            change = "changed"
        if old_value is MISSING:
            change = "deleted"
        else:
            description_after = self.variables.get(name) or describe_variable(name, old_value)
        if current_value is MISSING:
            change = "added"
        else:
            description_now = describe_variable(name, current_value)
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


def _bind_names(namespace: dict[str, object], names: dict[str, object]) -> None:
    """Make a namespace contain these names only."""
    for name in list(namespace):
        if name not in names:
            namespace.pop(name, None)
    for name, value in names.items():
        if namespace.get(name, MISSING) is not value:
            namespace[name] = value
