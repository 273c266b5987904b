"""The namespace as a list of described names, and what a cell did to it."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .listing import HIDDEN, described
from .statics import Classes
from .stdlib import late_import
from .summary import size_of, summary
from .undo.reach import can_change_objects, names_in

if TYPE_CHECKING:
    from .undo.kinds import CurrentKinds
    from .undo.mutations import MutationDetector
    from .undo.steps import UndoHistory

    Seen = tuple[int, type, int | None, str]

_IMMUTABLE = Classes(int, float, complex, bool, str, bytes, frozenset, type(None), range)


class NamespaceTracker:
    """Looks at a namespace from time to time and tells what changed. Nothing of the user's classes
    runs."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._seen = self._look()
        self._before: MutationDetector | None = None
        self._kinds: CurrentKinds | None = None

    def listing(self) -> list[dict[str, Any]]:
        """Every name that is not the interpreter's own."""
        return [described(name, value) for name, value in self._items()]

    def expect(
        self, tree: ast.Module, codes: tuple[types.CodeType, ...], steps: UndoHistory | None = None
    ) -> None:
        """Called before a cell runs: note what it can reach. steps: makes a step to go back to."""
        self._before = None
        if not can_change_objects(tree, self._namespace):
            return
        if self._kinds is None:
            self._kinds = late_import(f"{__package__}.undo.kinds").CurrentKinds(self._namespace)
        before = late_import(f"{__package__}.undo.mutations").MutationDetector(
            self._namespace, self._kinds.get(), names_in(codes, self._namespace)
        )
        before.begin(None if steps is None else steps.expect(before.mentioned))
        self._before = before

    def changes(self, tree: ast.Module | None) -> list[dict[str, Any]]:
        """Return the changes since the last call; `tree` is the source that ran, if there is
        one."""
        before, now = self._seen, self._look()
        self._seen = now
        bound = bound_names(tree, imports=False) if tree is not None else frozenset()
        inside = self._inside()
        result: list[dict[str, Any]] = [
            {"name": name, "change": "deleted", "variable": None}
            for name in before
            if name not in now
        ]
        for name, seen in now.items():
            change = self._change(name, before.get(name), seen, bound)
            change = change or (
                "changed" if name in inside[0] else "perhaps" if name in inside[1] else None
            )
            if change is not None:
                value = self._namespace.get(name)
                result.append({"name": name, "change": change, "variable": described(name, value)})
        return result

    def _inside(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names whose objects the cell has changed inside, and those for which that is
        not known."""
        before, self._before = self._before, None
        if before is None:
            return frozenset(), frozenset()
        try:
            return before.compare()
        except Exception:  # a library's object in a state that nobody foresaw
            return frozenset(), frozenset(before.mentioned)

    def _change(self, name: str, old: Seen | None, new: Seen, bound: frozenset[str]) -> str | None:
        if old is None:
            return "added"
        if old[:2] != new[:2] or name in bound:
            return "rebound"
        return "changed" if old != new else None

    def _items(self) -> list[tuple[str, Any]]:
        # A copy of the items in one step: other threads may change the namespace meanwhile.
        return [
            (name, value)
            for name, value in list(self._namespace.items())
            if type(name) is str and name not in HIDDEN
        ]

    def _look(self) -> dict[str, Seen]:
        return {
            name: (id(value), type(value), size_of(value), _visible(value))
            for name, value in self._items()
        }


def merged(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one change for each name, of several in their order."""
    merged: dict[str, dict[str, Any]] = {}
    for change in changes:
        before = merged.get(change["name"])
        if before is None or change["change"] == "deleted":
            merged[change["name"]] = change
        else:
            stronger = (
                before if change["change"] == "perhaps" or before["change"] == "added" else change
            )
            merged[change["name"]] = {**change, "change": stronger["change"]}
    return list(merged.values())


def _visible(value: object) -> str:
    """The part of the summary that an in-place change would show: shapes of tables."""
    return "" if size_of(value) is not None or type(value) in _IMMUTABLE else summary(value)


def bound_names(tree: ast.Module, *, imports: bool = True) -> frozenset[str]:
    """Return the names that a cell binds at its top level: assignments, definitions, loops, with,
    except, match, walrus; optionally imports."""
    names: set[str] = set()
    for node in _own_level(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            if imports:
                names.add(node.asname or node.name.split(".")[0])
        else:
            # except … as name, case … as name, case [*name], case {**name}
            names.update(
                str(getattr(node, field))
                for field in ("name", "rest")
                if isinstance(getattr(node, field, None), str)
            )
    return frozenset(names)


def _own_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that run at a cell's top level, without the bodies of functions and
    classes."""
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.comprehension):  # its target is local to it
            pending.extend((node.iter, *node.ifs))
            continue
        pending.extend(ast.iter_child_nodes(node))
