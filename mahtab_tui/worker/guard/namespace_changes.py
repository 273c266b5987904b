"""Finds what a cell in a locked fork has bound in the namespace, and unbound."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Iterator
from typing import Any

from ..values.objects import MISSING, address_of, name_of
from ..values.variables import HIDDEN_NAMES
from .lost_state import MAX_LABELS

_MAX_KEY_CHARS = 200
"""Characters of a key of the namespace that is not a name."""
_SET_BY_PYTHON = frozenset(
    "__builtins__ __warningregistry__ __annotations__ __annotate__"
    " __conditional_annotations__".split()
)
"""Names that Python itself sets while a cell runs."""


class NamespaceChanges:
    """Compares the namespace with what it was when this was made."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self.before = dict(namespace)
        """The namespace before the cell."""
        # In reverse, so that the first of several names for an object counts.
        self.names_by_address = {
            address_of(value): name
            for name, value in reversed(self.before.items())
            if type(name) is str and name not in HIDDEN_NAMES
        }
        """The names of the objects in it. `before` keeps these alive, so that an address means the same
        object."""

    def new_values(self) -> dict[str, Any]:
        """Return what the cell has bound to names that the user's code may bind."""
        return {
            name: self._namespace[name]
            for name in self._rebound_names()
            if _is_name(name) and not name.startswith("__") and name not in HIDDEN_NAMES
        }

    def deleted_names(self) -> list[str]:
        """Return the names that the cell has unbound."""
        return [
            name for name in self._missing_names() if _is_name(name) and not name.startswith("__")
        ]

    def changed_dunder_names(self, source: str) -> list[str]:
        """Return the changed names that begin with two underscores, which Python itself uses.

        Args:
            source: The code; what Python sets only counts if it is named there.
        """
        return [
            name
            for name in (*self._rebound_names(), *self._missing_names())
            if name.startswith("__") and (name not in _SET_BY_PYTHON or name in source)
        ]

    def changed_keys(self) -> list[str]:
        """Return, as code, what of the namespace was set or deleted under a key that is not a name.

        At most `MAX_LABELS`, and long keys are cut.
        """
        namespace = dict(self._namespace)
        keys = [key for key in (*namespace, *self.before) if not _is_name(key)]
        changed_keys = [
            key
            for key in dict.fromkeys(keys)
            if namespace.get(key, MISSING) is not self.before.get(key, MISSING)
        ]
        return [f"globals()[{_describe_key(key)}]" for key in changed_keys[:MAX_LABELS]]

    def _rebound_names(self) -> Iterator[str]:
        """Yield the names that were bound to another object, or are new."""
        for name, value in list(self._namespace.items()):
            if type(name) is str and self.before.get(name, MISSING) is not value:
                yield name

    def _missing_names(self) -> Iterator[str]:
        """Yield the names that are gone."""
        for name in self.before:
            if type(name) is str and name not in self._namespace:
                yield name


def _is_name(key: object) -> bool:
    return type(key) is str and key.isidentifier() and not keyword.iskeyword(key)


def _describe_key(key: object) -> str:
    """Return a key of the namespace as code, cut if it is long; for an object whose `repr` may be the
    user's, its type."""
    if type(key) in (str, bytes):
        return repr(key[:_MAX_KEY_CHARS])  # type: ignore[index]
    # Python refuses to write numbers of more than a few thousand digits.
    is_small = type(key) is int and abs(key) <= sys.maxsize
    return repr(key) if key is None or is_small else name_of(type(key))
