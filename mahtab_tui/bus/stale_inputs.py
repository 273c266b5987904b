"""Variables as cells have used them, and how they are different now, also as words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_MAX_NAMED = 3
"""Inputs that a sentence names; more are counted."""


class VariableVersion(NamedTuple):
    """A variable as a cell has made it."""

    name: str
    maker: int
    """The cell; 0 if none has made it."""


class StaleInput(NamedTuple):
    """A variable that a cell has used, and that has been different since."""

    name: str
    made_by: int
    """The cell that had made it as it was used; 0 if none had."""
    changed_by: int | None
    """The cell that has changed or deleted it since, the first one if several have; None if only an
    undo or a new kernel has."""
    now_made_by: int | None
    """The cell that had made it as it was after that; None if it was gone."""

    @property
    def version(self) -> VariableVersion:
        """The variable as it was used."""
        return VariableVersion(self.name, self.made_by)

    def __str__(self) -> str:
        used = f"`{self.name}`"
        if self.made_by:
            used += f" from In {self.made_by}"
        if self.changed_by is not None:
            verb = "deleted" if self.now_made_by is None else "changed"
            return f"{used}, {verb} by In {self.changed_by}"
        if self.now_made_by:
            return f"{used}, now that from In {self.now_made_by}"
        if self.now_made_by is None:
            return f"{used}, which is gone"
        return f"{used}, which is now a different object"


def describe_stale(inputs: Sequence[StaleInput], verb: str = "uses") -> str:
    """Say which inputs of a cell have changed: ``uses `df` from In 4, changed by In 9``."""
    text = f"{verb} {'; '.join(map(str, inputs[:_MAX_NAMED]))}"
    omitted_count = len(inputs) - _MAX_NAMED
    return f"{text}; and {omitted_count:,} more" if omitted_count > 0 else text


def describe_origin(maker: int, stale_cell: int) -> str:
    """Say that a variable comes from a stale cell: ``from In 4 (stale)`` if that has made it, else
    ``rests on In 4 (stale)``."""
    verb = "from" if maker == stale_cell else "rests on"
    return f"{verb} In {stale_cell} (stale)"
