"""One name of the namespace, as a record tells of it."""

from __future__ import annotations

import time
from typing import NamedTuple

from mahtab_tui.bus.records import Change, Namespace
from mahtab_tui.bus.sanitize import one_line, plain


class Row(NamedTuple):
    """One name of the namespace."""

    name: str
    """As it is; only as `label` it may be drawn."""
    type: str
    summary: str
    kind: str
    party: str
    cell: int
    perhaps: bool
    """A later cell may have changed it in place; nobody can tell."""
    number: int
    """Counts changes: a higher one is more recent."""
    time: float
    """When it changed, in seconds since the epoch."""
    guest: int | None = None
    """The number of the colour of another agent who changed it."""
    sign: str = ""
    """Where changes are shown: what became of it, ``+``, ``~``, ``?`` or ``−``."""

    @property
    def shown_name(self) -> str:
        """The name with its sign."""
        return f"{self.sign} {self.label}" if self.sign else self.label

    @property
    def label(self) -> str:
        """The name in a line."""
        return one_line(self.name)

    @property
    def by(self) -> str:
        """Who made or last changed it, and in which cell; with a ``?`` where a later cell may have changed it."""
        return f"{self.party} {self.cell}{'?' if self.perhaps else ''}" if self.cell else self.party

    @property
    def clock(self) -> str:
        """When it changed, as a clock shows it; empty of what no cell has made."""
        return time.strftime("%H:%M", time.localtime(self.time)) if self.cell else ""

    @property
    def special(self) -> bool:
        """Modules, functions, classes and private names are hidden by default."""
        return self.kind != "data" or self.name.startswith("_")


def row_of(record: Namespace, change: Change, number: int) -> Row:
    """What a `namespace` record says of one name."""
    return Row(
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
