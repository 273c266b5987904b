"""Tracks which names of the namespace a cell binds, deletes and changes. No user code runs."""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..stdlib import own_module
from ..values.objects import Classes, address_of
from ..values.summaries import safe_length, summary
from ..values.variables import HIDDEN_NAMES, describe_variable
from .compiling import bound_names, can_change_objects, names_in
from .parts import NO_PARTS, column_names, describe_parts, read_parts

if TYPE_CHECKING:
    from ..guard.lost_state import StateRecorder
    from ..undo.history import UndoHistory
    from ..undo.kinds import Kinds
    from ..undo.mutations import MutationDetector

    Seen = tuple[int, type, int | None, str, object]

_IMMUTABLE = Classes(int, float, complex, bool, str, bytes, frozenset, type(None), range)


class NamespaceTracker:
    """Tracks the changes of a namespace, without running user code."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self.version = 0
        """Increases whenever objects may have changed."""
        self._seen = self._take_snapshot()
        self._parts = {name: read_parts(value) for name, value in self._items()}
        """Of each variable, as it was when it last changed."""
        self._before: MutationDetector | None = None
        self._kinds: Kinds | None = None
        self._max_new_names: int | None = None
        """In a locked fork: with more new names, nothing is compared."""

    def use_in_fork(self, max_new_names: int) -> None:
        """Only find out which names changed, without describing them. With more new names, find
        nothing: the fork's results are refused."""
        self._max_new_names = max_new_names

    def listing(self) -> list[dict[str, Any]]:
        return [describe_variable(name, value) for name, value in self._items()]

    def before_cell(
        self,
        tree: ast.Module,
        codes: Sequence[types.CodeType],
        steps: UndoHistory | StateRecorder | None = None,
    ) -> None:
        self._before = None
        if not can_change_objects(tree, self._namespace):
            return
        if self._kinds is None:
            self._kinds = own_module("undo.kinds").Kinds(self._namespace)
        self._kinds = self._kinds.current()
        self._before = own_module("undo.mutations").MutationDetector(
            self._namespace,
            self._kinds,
            names_in(codes, self._namespace),
            (lambda mentioned: None) if steps is None else steps.take_checkpoint,
        )

    def changes(self, tree: ast.Module | None) -> list[dict[str, Any]]:
        """Return the changes since the last call. tree: the source that ran, if any."""
        self.version += 1
        old_snapshot = self._seen
        if self._has_too_many_new_names():
            return []
        new_snapshot = self._take_snapshot()
        self._seen = new_snapshot
        if tree is not None:
            bound = bound_names(tree, imports=False)
        else:
            bound = frozenset()
        inside, unknown = self._find_mutations()
        deleted = [name for name in old_snapshot if name not in new_snapshot]
        result: list[dict[str, Any]] = [
            {"name": name, "change": "deleted", "variable": None} for name in deleted
        ]
        for name in deleted:
            self._parts.pop(name, None)
        for name, snapshot in new_snapshot.items():
            old = old_snapshot.get(name)
            if old is None:
                change = "added"
            elif old[:2] != snapshot[:2] or name in bound:
                change = "rebound"
            elif old != snapshot or name in inside:
                change = "changed"
            elif name in unknown:
                change = "perhaps"
            else:
                continue
            row: dict[str, Any] = {"name": name, "change": change, "variable": None}
            if self._max_new_names is None:
                row["variable"] = describe_variable(name, self._namespace.get(name))
                row["columns"] = self._describe_parts(name)
            result.append(row)
        return result

    def _describe_parts(self, name: str) -> str:
        """Describe what changed inside a table or a dict since its variable last changed."""
        parts = read_parts(self._namespace.get(name))
        old_parts = self._parts.get(name, NO_PARTS)
        self._parts[name] = parts
        return describe_parts(old_parts, parts)

    def _has_too_many_new_names(self) -> bool:
        if self._max_new_names is None:
            return False
        return len(self._namespace) > len(self._seen) + len(HIDDEN_NAMES) + self._max_new_names

    def _find_mutations(self) -> tuple[frozenset[str], frozenset[str]]:
        old_states = self._before
        self._before = None
        if old_states is None:
            return frozenset(), frozenset()
        try:
            return old_states.compare()
        except Exception:  # a library's object in an unforeseen state
            return frozenset(), frozenset(old_states.mentioned)

    def _items(self) -> list[tuple[str, Any]]:
        # In one step, because other threads may change the namespace meanwhile.
        return [
            (name, value)
            for name, value in list(self._namespace.items())
            if type(name) is str and name not in HIDDEN_NAMES
        ]

    def _shape(self, value: object) -> object:
        """Return what else is compared of every variable after every cell."""
        return column_names(value)

    def _take_snapshot(self) -> dict[str, Seen]:
        return {
            name: (
                address_of(value),
                type(value),
                safe_length(value),
                _visible(value),
                self._shape(value),
            )
            for name, value in self._items()
        }


def merge_changes(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for change in changes:
        earlier_change = merged.get(change["name"])
        if earlier_change is not None and (
            change["change"] == "perhaps"
            or (earlier_change["change"] == "added" and change["change"] != "deleted")
        ):
            change = {**change, "change": earlier_change["change"]}
        merged[change["name"]] = change
    return list(merged.values())


def _visible(value: object) -> str:
    if safe_length(value) is not None or type(value) in _IMMUTABLE:
        return ""
    return summary(value)
