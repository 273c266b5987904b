"""The namespace as a list of described names, and what a cell did to it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .marks import bound_names, touched_names
from .secret_names import summary_of
from .statics import Classes
from .summary import kind_of, size_of, summary, type_name

HIDDEN = frozenset(
    (
        "__name__",
        "__builtins__",
        "__doc__",
        "__file__",
        "__loader__",
        "__package__",
        "__spec__",
        "__cached__",
        "__annotations__",
        "__warningregistry__",
        "_",
    )
)
_IMMUTABLE = Classes(int, float, complex, bool, str, bytes, tuple, frozenset, type(None), range)

if TYPE_CHECKING:
    Seen = tuple[int, type, int | None, str]


def described(name: str, value: object) -> dict[str, Any]:
    """A name as the host lists it."""
    return {"name": name, "type": type_name(value), "summary": summary_of(name, value), "kind": kind_of(value)}


class NamespaceWatch:
    """Looks at a namespace from time to time and tells what changed. Nothing of the user's classes runs."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._seen = self._look()

    def listing(self) -> list[dict[str, Any]]:
        """Every name that is not the interpreter's own."""
        return [described(name, value) for name, value in self._items()]

    def changes(self, tree: ast.Module | None) -> list[dict[str, Any]]:
        """What happened since the last call; `tree` is the source that ran, where there is one."""
        before, now = self._seen, self._look()
        self._seen = now
        bound = bound_names(tree) if tree is not None else frozenset()
        touched = touched_names(tree) if tree is not None else frozenset()
        result: list[dict[str, Any]] = [{"name": name, "change": "deleted", "variable": None} for name in before if name not in now]
        for name, seen in now.items():
            change = self._change(name, before.get(name), seen, bound, touched)
            if change is not None:
                value = self._namespace.get(name)
                result.append({"name": name, "change": change, "variable": described(name, value)})
        return result

    def _change(self, name: str, old: Seen | None, new: Seen, bound: frozenset[str], touched: frozenset[str]) -> str | None:
        if old is None:
            return "added"
        if old[:2] != new[:2] or name in bound:
            return "rebound"
        if old != new:
            return "changed"
        if name in touched and new[1] not in _IMMUTABLE and kind_of(self._namespace.get(name)) == "data":
            return "perhaps"
        return None

    def _items(self) -> list[tuple[str, Any]]:
        # A copy of the items in one step: other threads may change the namespace meanwhile.
        return [(name, value) for name, value in list(self._namespace.items()) if type(name) is str and name not in HIDDEN]

    def _look(self) -> dict[str, Seen]:
        return {name: (id(value), type(value), size_of(value), _visible(value)) for name, value in self._items()}


def _visible(value: object) -> str:
    """The part of the summary that an in-place change would show: shapes of tables."""
    return "" if size_of(value) is not None or type(value) in _IMMUTABLE else summary(value)
