"""Who has made and changed the names in a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus.values import Change, Variable


class Author(NamedTuple):
    """Who has changed a variable."""

    party: str
    """The user, the model or an agent."""
    cell: int
    """Number of the cell that has changed it."""
    perhaps: bool
    """Whether the last change is uncertain, because comparing the value would take too long."""


class _Origin(NamedTuple):
    """Where a name comes from."""

    author: Author | None = None
    """Who made the last change; None if that is unknown, or the name was deleted."""
    possible_parties: frozenset[str] = frozenset()
    """Who has made uncertain changes since then."""
    variable: Variable | None = None
    """The variable after the last change."""
    maker: str = ""
    """Who made the name, whoever has changed it since; empty if unknown."""
    deleter: Author | None = None
    """Who has deleted the name; None if it is there, or if that is unknown."""


_UNKNOWN = _Origin()


def _origin_after(change: Change, before: _Origin, author: Author) -> _Origin:
    """Return where a name comes from after a change.

    Args:
        author: Who made it, for certain.
    """
    if change.change == "deleted":
        return _Origin(variable=change.variable, deleter=author)

    maker = author.party if change.change == "added" else before.maker
    is_uncertain = change.change == "perhaps"
    if is_uncertain and before.author is not None:
        # The author of the last change stays; this party comes into question, too.
        return _Origin(
            before.author._replace(perhaps=True),
            before.possible_parties | {author.party},
            change.variable,
            maker,
        )
    if is_uncertain:
        author = author._replace(perhaps=True)
    return _Origin(author, variable=change.variable, maker=maker)


class Provenance:
    """Who has made and changed each name."""

    def __init__(self) -> None:
        self._origins: dict[str, _Origin] = {}
        self._earlier_origins: list[tuple[int, dict[str, _Origin]]] = []
        """The numbers of the cells that made changes, the oldest first, each with the origins
        before them by name."""

    def fold(self, cell: int, party: str, changes: Sequence[Change]) -> None:
        """Add the changes by a cell."""
        author = Author(party, cell, perhaps=False)
        earlier_origins: dict[str, _Origin] = {}
        for change in changes:
            before = self._origins.get(change.name, _UNKNOWN)
            after = _origin_after(change, before, author)
            if after != before:
                self._origins[change.name] = after
                earlier_origins.setdefault(change.name, before)
        if earlier_origins:
            self._earlier_origins.append((cell, earlier_origins))

    def describe_existing(self, variables: Sequence[Variable]) -> None:
        """Note the variables that exist before any cell, so that their first change can be
        described."""
        for variable in variables:
            self._origins.setdefault(variable.name, _Origin(variable=variable))

    def before(self, cell: int) -> Provenance:
        """Return a copy as it was before a cell."""
        first_index = 0
        for changing_cell, _ in self._earlier_origins:
            if changing_cell >= cell:
                break
            first_index += 1

        earlier = Provenance()
        earlier._origins = dict(self._origins)
        earlier._earlier_origins = self._earlier_origins[:first_index]
        # Newest first, so that the oldest origin of a name wins.
        for _, origins in reversed(self._earlier_origins[first_index:]):
            earlier._origins.update(origins)
        return earlier

    def author(self, name: str) -> Author | None:
        """Return who has changed a name last; None if that is unknown."""
        return self._origins.get(name, _UNKNOWN).author

    def deleter(self, name: str) -> Author | None:
        """Return who has deleted a name; None if it is there, or if that is unknown."""
        return self._origins.get(name, _UNKNOWN).deleter

    def possible_parties(self, name: str) -> frozenset[str]:
        """Return who has perhaps changed a name since its last certain change."""
        return self._origins.get(name, _UNKNOWN).possible_parties

    def is_made_by(self, name: str, party: str) -> bool:
        """Return whether a party made a name, or its maker is unknown."""
        return self._origins.get(name, _UNKNOWN).maker in (party, "")

    def described(self, name: str) -> Variable | None:
        """Return a name's variable as it was after its last change; None if that is unknown."""
        return self._origins.get(name, _UNKNOWN).variable
