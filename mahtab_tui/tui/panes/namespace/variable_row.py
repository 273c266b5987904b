"""One variable of the namespace, from a record."""

from __future__ import annotations

import time
from typing import NamedTuple

from mahtab_tui.bus.records import Change, Namespace
from mahtab_tui.bus.sanitize import one_line, plain


class VariableRow(NamedTuple):
    """One variable of the namespace."""

    name: str
    """The unsanitised name; draw `label` instead."""
    type: str
    summary: str
    kind: str
    party: str
    cell: int
    perhaps: bool
    """Whether a later cell may have changed it in place."""
    number: int
    """The number of the change; a higher one is more recent."""
    time: float
    """When it changed, in seconds since the epoch."""
    guest: int | None = None
    """The number of the colour of the agent who changed it."""
    sign: str = ""
    """In a list of changes: ``+``, ``~``, ``?`` or ``−``."""

    @property
    def shown_name(self) -> str:
        """The name with its sign."""
        return f"{self.sign} {self.label}" if self.sign else self.label

    @property
    def label(self) -> str:
        """The name, safe to draw in one line."""
        return one_line(self.name)

    @property
    def by(self) -> str:
        """Who created or last changed it, and in which cell; with a ``?`` if a later cell may have changed it."""
        return f"{self.party} {self.cell}{'?' if self.perhaps else ''}" if self.cell else self.party

    @property
    def clock(self) -> str:
        """When it changed, as ``12:34``; empty if no cell created it."""
        return time.strftime("%H:%M", time.localtime(self.time)) if self.cell else ""

    @property
    def special(self) -> bool:
        """Whether it is hidden by default: modules, functions, classes and private names."""
        return self.kind != "data" or self.name.startswith("_")


def row_of(record: Namespace, change: Change, number: int) -> VariableRow:
    """Convert a change of a `namespace` record."""
    return VariableRow(
        name=change.name,
        type=plain(change.type or ""),
        summary=plain(change.summary or ""),
        kind=change.kind or "data",
        party=plain(record.party or ""),
        cell=record.cell or 0,
        perhaps=change.change == "perhaps",
        number=number,
        time=record.time,
        guest=record.guest,
    )
