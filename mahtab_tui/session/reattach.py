"""Cells that an earlier screen has left: found in the session's records when its kernel has
waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mahtab_tui.bus.records import Namespace, Record, ReplIn, ReplOut


def unfinished(past: Sequence[Record]) -> list[ReplIn]:
    """Return the cells whose end is not in the records, the oldest first."""
    ended = {record.cell for record in past if isinstance(record, ReplOut) and not record.late}
    return [
        record
        for record in past
        if isinstance(record, ReplIn) and record.cell is not None and record.cell not in ended
    ]


def attrs_of(started: ReplIn) -> dict[str, Any]:
    """Return the fields that the record of a cell's output shares with that of its code."""
    names = ("cell", "party", "turn", "step", "block", "guest", "call")
    return {name: value for name in names if (value := getattr(started, name)) is not None}


def makers(past: Sequence[Record]) -> dict[str, Namespace]:
    """Return for each name that a cell has made the record of the last cell that did."""
    found: dict[str, Namespace] = {}
    told = [record for record in past if isinstance(record, Namespace)]
    if (
        told and told[-1].fresh and told[-1].cell
    ):  # the screen before has left the kernel, not lost it
        told.pop()
    for record in told:
        if record.fresh:
            found.clear()
        for change in record.changes:
            if change.change == "deleted" or not record.cell:
                found.pop(change.name, None)
            elif change.change != "perhaps":
                found[change.name] = record
    return found
