"""The namespace as a list of described names, and what a cell did to it."""

from __future__ import annotations

import ast
import time
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from .fingerprints import Fingerprint, fingerprint
from .marks import Touch, bound_names, called_names, touches
from .own import is_table
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
_IMMUTABLE = Classes(int, float, complex, bool, str, bytes, frozenset, type(None), range)
_SECONDS = 0.03
"""After this long, no fingerprint of a further object is taken."""
_CALLS = 3
"""How deep functions that call functions are followed."""

if TYPE_CHECKING:
    Seen = tuple[int, type, int | None, str]


def described(name: str, value: object) -> dict[str, Any]:
    """A name as the host lists it."""
    return {"name": name, "type": type_name(value), "summary": summary_of(name, value), "kind": kind_of(value)}


class _Before(NamedTuple):
    """An object before a cell ran."""

    value_id: int
    fingerprint: Fingerprint


class NamespaceWatch:
    """Looks at a namespace from time to time and tells what changed. Nothing of the user's classes runs."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._seen = self._look()
        self._direct: frozenset[str] = frozenset()
        self._before: dict[str, _Before] = {}

    def listing(self) -> list[dict[str, Any]]:
        """Every name that is not the interpreter's own."""
        return [described(name, value) for name, value in self._items()]

    def expect(self, tree: ast.Module) -> None:
        """Called before a cell runs: keeps fingerprints of what its code may change in place."""
        direct, reached = self._suspects(tree)
        self._direct = direct
        self._before = {}
        until = time.monotonic() + _SECONDS
        for name in (*direct, *reached):
            if time.monotonic() > until:
                break
            value = self._namespace.get(name)
            known = next((before for before in self._before.values() if before.value_id == id(value)), None)
            self._before[name] = known or _Before(id(value), fingerprint(value))

    def changes(self, tree: ast.Module | None) -> list[dict[str, Any]]:
        """What happened since the last call; `tree` is the source that ran, where there is one."""
        before, now = self._seen, self._look()
        self._seen = now
        bound = bound_names(tree, imports=False) if tree is not None else frozenset()
        result: list[dict[str, Any]] = [{"name": name, "change": "deleted", "variable": None} for name in before if name not in now]
        after: dict[int, Fingerprint] = {}
        for name, seen in now.items():
            change = self._change(name, before.get(name), seen, bound) or self._change_inside(name, after)
            if change is not None:
                value = self._namespace.get(name)
                result.append({"name": name, "change": change, "variable": described(name, value)})
        self._direct, self._before = frozenset(), {}
        return result

    def _change(self, name: str, old: Seen | None, new: Seen, bound: frozenset[str]) -> str | None:
        if old is None:
            return "added"
        if old[:2] != new[:2] or name in bound:
            return "rebound"
        return "changed" if old != new else None

    def _change_inside(self, name: str, after: dict[int, Fingerprint]) -> str | None:
        """Whether the object that a name has held all the time holds something else now."""
        before = self._before.get(name)
        if before is None:
            return "perhaps" if name in self._direct else None
        if before.value_id not in after:
            after[before.value_id] = fingerprint(self._namespace.get(name))
        now = after[before.value_id]
        if now.digest != before.fingerprint.digest:
            return "changed"
        return "perhaps" if name in self._direct and not (now.complete and before.fingerprint.complete) else None

    def _suspects(self, tree: ast.Module) -> tuple[frozenset[str], frozenset[str]]:
        """The names whose objects a cell may change in place: by its own code, and by the functions that it calls."""
        ids = {id(self._namespace[touch.name]) for touch in touches(tree) if self._may_change(touch)}
        direct = frozenset(name for name, seen in self._seen.items() if seen[0] in ids) if ids else frozenset()
        reached: set[str] = set()
        pending = called_names(tree)
        for _ in range(_CALLS):
            functions = [self._namespace.get(name) for name in pending]
            codes = [function.__code__ for function in functions if type(function) is types.FunctionType and function.__globals__ is self._namespace]
            pending = frozenset(name for code in codes for name in code.co_names)
            reached |= {name for name in pending if self._may_change(Touch(name, ""))}
        return direct, frozenset(reached) - direct

    def _may_change(self, touch: Touch) -> bool:
        value = self._namespace.get(touch.name)
        if type(value) in _IMMUTABLE or kind_of(value) != "data" or touch.name in HIDDEN:
            return False
        return touch.changes_tables or not is_table(value)

    def _items(self) -> list[tuple[str, Any]]:
        # A copy of the items in one step: other threads may change the namespace meanwhile.
        return [(name, value) for name, value in list(self._namespace.items()) if type(name) is str and name not in HIDDEN]

    def _look(self) -> dict[str, Seen]:
        return {name: (id(value), type(value), size_of(value), _visible(value)) for name, value in self._items()}


def _visible(value: object) -> str:
    """The part of the summary that an in-place change would show: shapes of tables."""
    return "" if size_of(value) is not None or type(value) in _IMMUTABLE else summary(value)
