"""Tracks who made or last changed each name, and its description then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.kernel.values import Change, Variable


class Author(NamedTuple):
    """The party and cell that changed a name."""

    party: str
    cell: int
    perhaps: bool
    """Whether a later cell may have changed it in place."""


class Provenance:
    """Folds the changes of cells."""

    def __init__(self) -> None:
        self._authors: dict[str, Author] = {}
        self._described: dict[str, Variable] = {}

    def fold(self, cell: int, party: str, changes: Sequence[Change]) -> None:
        for change in changes:
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

    def clear(self) -> None:
        """Forget everything, for a new namespace."""
        self._authors.clear()
        self._described.clear()
