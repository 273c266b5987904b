"""Tracks which names of the namespace a cell binds, deletes and changes. No user code runs."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..stdlib import own_module
from ..values.objects import Classes, address_of, is_subclass
from ..values.summaries import safe_length, summary
from ..values.variables import HIDDEN_NAMES, describe_variable
from .compiling import bound_names, can_change_objects
from .parts import NO_PARTS, column_names, describe_parts, read_parts
from .reached_names import names_in
from .value_numbers import ValueNumbers

if TYPE_CHECKING:
    from ..guard.lost_state import StateRecorder
    from ..undo.history import UndoHistory
    from ..undo.kinds import Kinds
    from ..undo.mutations import MutationDetector

_MAX_NUMBERED = 500
"""If a cell changes more variables, their values are not compared with earlier ones."""
_IMMUTABLE = Classes(int, float, complex, bool, str, bytes, frozenset, type(None), range)


ChangeRow = dict[str, Any]
"""A change of a variable as the host gets it: `name`, `change` (the kind of change) and `variable` (its
description; None if it is gone or nothing is described). Of a variable that is not gone also `columns`;
of one whose value has a number `value_number` and `is_equal`."""
ChangeKind = Literal["added", "rebound", "changed", "perhaps", "deleted"]
"""What a cell did with a variable; `perhaps` if it may have changed the object in place."""


class _NameChange(NamedTuple):
    """How a cell changed a name, as the snapshots before and after it show."""

    name: str
    kind: ChangeKind
    is_unchanged: bool = False
    """Whether nothing of the object differs from that which the name had before. It is another object
    if that one does not exist any more."""


class _Snapshot(NamedTuple):
    """What is compared of every variable after every cell."""

    address: int
    cls: type
    length: int | None
    """None if only user code could tell it."""
    summary: str
    """Empty for values that have a length, or never change."""
    shape: object
    """The names of a table's columns, or what else a subclass of the tracker compares."""

    def is_same_object(self, other: _Snapshot) -> bool:
        return self.address == other.address and self.cls is other.cls


class _Mutations(NamedTuple):
    """Names whose objects were changed in place, or may have been."""

    changed: frozenset[str]
    unknown: frozenset[str]

    def may_include(self, name: str) -> bool:
        """Return whether the object of a name may have been changed in place."""
        return name in self.changed or name in self.unknown


class NamespaceTracker:
    """Tracks the changes of a namespace, without running user code."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self.version = 0
        """Increases whenever objects may have changed."""
        self._last_snapshots = self._take_snapshots()
        self._parts = {name: read_parts(value) for name, value in self._items()}
        """The parts of each variable, as they were when it last changed."""
        self._values = ValueNumbers()
        self._detector: MutationDetector | None = None
        """Knows the objects as they were before the cell; None if the cell cannot change objects."""
        self._kinds: Kinds | None = None
        self._max_new_names: int | None = None
        """With more new names than this, nothing is compared in a locked fork."""

    def use_in_fork(self, max_new_names: int) -> None:
        """Only find out which names changed, without describing them.

        With more new names, find nothing: the fork's results are refused.
        """
        self._max_new_names = max_new_names

    def listing(self) -> list[dict[str, Any]]:
        """Describe all variables."""
        return [describe_variable(name, value) for name, value in self._items()]

    def before_cell(
        self,
        tree: ast.Module,
        codes: Sequence[types.CodeType],
        recorder: UndoHistory | StateRecorder | None = None,
    ) -> None:
        """Note the objects that a cell may change in place.

        Args:
            tree: The cell's statements.
            codes: What they were compiled to.
            recorder: Takes a checkpoint, if the cell may change objects.
        """
        self._detector = None
        if not can_change_objects(tree, self._namespace):
            return
        if self._kinds is None:
            self._kinds = own_module("undo.kinds").Kinds(self._namespace)
        self._kinds = self._kinds.current()
        self._detector = own_module("undo.mutations").MutationDetector(
            self._namespace,
            self._kinds,
            names_in(codes, self._namespace, self._kinds.user_modules),
            (lambda mentioned: None) if recorder is None else recorder.take_checkpoint,
        )

    def changes(self, tree: ast.Module | None) -> list[ChangeRow]:
        """Return the changes since the last call.

        Args:
            tree: The source that ran, if any.
        """
        self.version += 1
        if self._has_too_many_new_names():
            return []
        old_snapshots = self._last_snapshots
        self._last_snapshots = self._take_snapshots()
        changes = [
            *self._find_deleted_names(old_snapshots),
            *self._classify_names(old_snapshots, self._find_bound_names(tree)),
        ]
        rows = list(map(self._describe_change, changes))
        if not self._is_in_fork:
            self._number_values(rows, {change.name for change in changes if change.is_unchanged})
        return rows

    def _find_bound_names(self, tree: ast.Module | None) -> frozenset[str]:
        """Return the names that a cell binds, apart from imports.

        In a fork there are none: a name that gets its own object again (`items += [1]`) does not
        count as bound there.
        """
        if tree is None or self._is_in_fork:
            return frozenset()
        return bound_names(tree, imports=False)

    def _find_deleted_names(self, old_snapshots: Mapping[str, _Snapshot]) -> list[_NameChange]:
        return [
            _NameChange(name, "deleted")
            for name in old_snapshots
            if name not in self._last_snapshots
        ]

    def _classify_names(
        self, old_snapshots: Mapping[str, _Snapshot], bound: Set[str]
    ) -> list[_NameChange]:
        """Return how the cell changed the names that exist now.

        Args:
            old_snapshots: What was compared before the cell.
            bound: The names that the cell binds.
        """
        mutations = self._find_mutations()
        changes: list[_NameChange] = []
        for name, snapshot in self._last_snapshots.items():
            old_snapshot = old_snapshots.get(name)
            if old_snapshot is None:
                changes.append(_NameChange(name, "added"))
            elif name in bound or not snapshot.is_same_object(old_snapshot):
                # An address is not an identity: the object may be a new one. What is in a module is
                # not compared unless it is the user's own.
                is_unchanged = (
                    snapshot == old_snapshot
                    and not is_subclass(snapshot.cls, types.ModuleType)
                    and not mutations.may_include(name)
                )
                changes.append(_NameChange(name, "rebound", is_unchanged))
            elif snapshot != old_snapshot or name in mutations.changed:
                changes.append(_NameChange(name, "changed"))
            elif name in mutations.unknown:
                changes.append(_NameChange(name, "perhaps"))
        return changes

    def number_restored(self, rows: list[ChangeRow]) -> None:
        """Add the numbers of the variables' values to the changes of an undo or a redo.

        The values before it do not count: no snapshot shows all that it has changed.
        """
        for row in rows:
            self._values.forget_current(row["name"])
        self._number_values(rows, frozenset())

    def _number_values(self, rows: list[ChangeRow], unchanged_names: Set[str]) -> None:
        """Add to changes the numbers of the variables' values, which equal values share.

        Args:
            rows: The changes.
            unchanged_names: Variables whose objects are as before, if they are the same objects.
        """
        self._values.start_cell(can_compare=len(rows) <= _MAX_NUMBERED)
        for row in rows:
            name = row["name"]
            # What a variable is now is known only if nothing else may have changed it since.
            if row["change"] in ("deleted", "perhaps"):
                self._values.forget_current(name)
                continue
            try:
                value = self._values.assign_number(
                    name, self._namespace.get(name), is_unchanged=name in unchanged_names
                )
            except Exception:  # of a library's object, or an import that code has broken
                self._values.forget_current(name)
                continue
            row["value_number"] = value.number
            row["is_equal"] = value.is_equal and row["change"] == "rebound"

    def _describe_change(self, change: _NameChange) -> ChangeRow:
        """Return the row of a change, and remember the parts that the variable has now."""
        name = change.name
        row: ChangeRow = {"name": name, "change": change.kind, "variable": None}
        if change.kind == "deleted":
            self._parts.pop(name, None)
        elif not self._is_in_fork:
            row["variable"] = describe_variable(name, self._namespace.get(name))
            row["columns"] = self._describe_parts(name)
        return row

    def _describe_parts(self, name: str) -> str:
        """Describe what changed inside a table or a dict since its variable last changed."""
        parts = read_parts(self._namespace.get(name))
        old_parts = self._parts.get(name, NO_PARTS)
        self._parts[name] = parts
        return describe_parts(old_parts, parts)

    @property
    def _is_in_fork(self) -> bool:
        return self._max_new_names is not None

    def _has_too_many_new_names(self) -> bool:
        if self._max_new_names is None:
            return False
        old_count = len(self._last_snapshots) + len(HIDDEN_NAMES)
        return len(self._namespace) > old_count + self._max_new_names

    def _find_mutations(self) -> _Mutations:
        """Return the names whose objects the cell has changed in place."""
        detector = self._detector
        self._detector = None
        if detector is None:
            return _Mutations(frozenset(), frozenset())
        try:
            return _Mutations(*detector.compare())
        except Exception:  # a library's object in an unforeseen state
            return _Mutations(frozenset(), frozenset(detector.mentioned))

    def _items(self) -> list[tuple[str, Any]]:
        # In one step, because other threads may change the namespace meanwhile.
        return [
            (name, value)
            for name, value in list(self._namespace.items())
            if type(name) is str and name not in HIDDEN_NAMES
        ]

    def _comparable_shape(self, value: object) -> object:
        """Return what a snapshot compares of what is in a value. A subclass may compare more."""
        return column_names(value)

    def _take_snapshots(self) -> dict[str, _Snapshot]:
        return {
            name: _Snapshot(
                address_of(value),
                type(value),
                safe_length(value),
                _visible_summary(value),
                self._comparable_shape(value),
            )
            for name, value in self._items()
        }


def merge_changes(changes: list[ChangeRow]) -> list[ChangeRow]:
    """Merge the changes of a cell, which are in order, to one change for each name."""
    merged: dict[str, ChangeRow] = {}
    for change in changes:
        name = change["name"]
        earlier_change = merged.get(name)
        if earlier_change is not None:
            kind = change["change"]
            is_still_new = earlier_change["change"] == "added" and kind != "deleted"
            if kind == "perhaps" or is_still_new:
                change = {**change, "change": earlier_change["change"]}
            if change.get("is_equal") and not earlier_change.get("is_equal"):
                change = {**change, "is_equal": False}
        merged[name] = change
    return list(merged.values())


def _visible_summary(value: object) -> str:
    """Return the summary of a value that has no length and may change in place."""
    if safe_length(value) is not None or type(value) in _IMMUTABLE:
        return ""
    return summary(value)
