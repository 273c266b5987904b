"""Who made or last changed each name, and what it was then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.kernel.base import Change, Variable


class Author(NamedTuple):
    """Who, and in which cell."""

    party: str
    cell: int
    perhaps: bool
    """A later cell may have changed it in place; nobody can tell."""


class Provenance:
    """Folds the changes of one cell after the other."""

    def __init__(self) -> None:
        self._authors: dict[str, Author] = {}
        self._described: dict[str, Variable] = {}

    def fold(self, cell: int, party: str, changes: Sequence[Change]) -> None:
        """A cell of `party` made these changes."""
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
        """Who made or last changed a name; None where no cell has."""
        return self._authors.get(name)

    def described(self, name: str) -> Variable | None:
        """A name as it was after the last cell that changed it; None where no cell has."""
        return self._described.get(name)

    def copy(self) -> Provenance:
        """The same, as it is now."""
        other = Provenance()
        other.restore(self)
        return other

    def restore(self, other: Provenance) -> None:
        """Know again what was known when `other` was copied."""
        self._authors = dict(other._authors)
        self._described = dict(other._described)

    def clear(self) -> None:
        """A new, empty namespace."""
        self._authors.clear()
        self._described.clear()
