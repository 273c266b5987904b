"""Tracks who made or last changed each name, and its description then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from mahtab_tui.kernel.values import Change, Variable

_T = TypeVar("_T")


class Author(NamedTuple):
    """The party and cell that changed a name."""

    party: str
    cell: int
    perhaps: bool
    """Whether a later cell may have changed it in place."""


class _Replaced(NamedTuple):
    """The author and description of a name before a cell changed it."""

    cell: int
    name: str
    author: Author | None
    variable: Variable | None


class Provenance:
    """Folds the changes of cells."""

    def __init__(self) -> None:
        self._authors: dict[str, Author] = {}
        self._described: dict[str, Variable] = {}
        self._replaced: list[_Replaced] = []

    def fold(self, cell: int, party: str, changes: Sequence[Change]) -> None:
        for change in changes:
            name = change.name
            before = _Replaced(cell, name, self._authors.get(name), self._described.get(name))
            if change.variable is None:
                self._described.pop(change.name, None)
            else:
                self._described[change.name] = change.variable
            known = self._authors.get(change.name)
            if change.change == "deleted":
                self._authors.pop(change.name, None)
            elif change.change == "perhaps" and known is not None:
                self._authors[change.name] = known._replace(perhaps=True)
            else:
                self._authors[change.name] = Author(party, cell, change.change == "perhaps")
            if (self._authors.get(name), self._described.get(name)) != before[2:]:
                self._replaced.append(before)

    def rewind(self, cell: int) -> None:
        """Restore what was known before a cell ran."""
        first = next((n for n, entry in enumerate(self._replaced) if entry.cell >= cell), None)
        if first is None:
            return
        for _, name, author, variable in reversed(self._replaced[first:]):
            _put(self._authors, name, author)
            _put(self._described, name, variable)
        del self._replaced[first:]

    def who(self, name: str) -> Author | None:
        """Return who made or last changed a name; None if no cell has."""
        return self._authors.get(name)

    def described(self, name: str) -> Variable | None:
        """Return the variable as it was after the last cell that changed it; None if no cell
        has."""
        return self._described.get(name)

    def copy(self) -> Provenance:
        other = Provenance()
        other.restore(self)
        return other

    def restore(self, other: Provenance) -> None:
        """Know again what was known when `other` was copied."""
        self._authors = dict(other._authors)
        self._described = dict(other._described)
        self._replaced = list(other._replaced)

    def clear(self) -> None:
        """Forget everything, for a new namespace."""
        self._authors.clear()
        self._described.clear()
        self._replaced.clear()


def _put(known: dict[str, _T], name: str, value: _T | None) -> None:
    if value is None:
        known.pop(name, None)
    else:
        known[name] = value
