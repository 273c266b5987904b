"""Reads records of cells: which cells have not ended, what they changed, and whose output it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Namespace, Record, ReplIn, ReplOut

_CELL_FIELDS = tuple(
    field.name for field in fields(records.CellRecord) if field.name not in ("text", "time")
)
"""The fields that are equal in the records of a cell's code and of its output."""


def unfinished_cells(past: Sequence[Record]) -> list[ReplIn]:
    """Return the cells whose end is not in the records, oldest first."""
    ended_cells = {
        record.cell for record in past if isinstance(record, ReplOut) and not record.late
    }
    return [
        record
        for record in past
        if isinstance(record, ReplIn) and record.cell is not None and record.cell not in ended_cells
    ]


def last_ended_cell(past: Sequence[Record]) -> int:
    """Return the number of the newest cell whose end is in the records; 0 if there is none."""
    ended_cells = (
        record.cell or 0 for record in past if isinstance(record, ReplOut) and not record.late
    )
    return max(ended_cells, default=0)


def output_attrs(started: ReplIn) -> dict[str, Any]:
    """Return the fields that a record of a cell's output has in common with the record of its code.

    Args:
        started: The record of the cell's code.
    """
    values = {name: getattr(started, name) for name in _CELL_FIELDS}
    return {name: value for name, value in values.items() if value is not None}


def last_changes(past: Sequence[Record]) -> dict[str, Namespace]:
    """Return the record of the last change of each variable, if a cell has made that change.

    Variables of an earlier kernel, and variables that were deleted, are left out.
    """
    namespace_records = [record for record in past if isinstance(record, Namespace)]
    # The previous screen detached the kernel, so its names are not lost.
    if namespace_records and namespace_records[-1].fresh and namespace_records[-1].cell:
        namespace_records.pop()

    last_records: dict[str, Namespace] = {}
    for record in namespace_records:
        if record.fresh:
            last_records.clear()
        for change in record.changes:
            if change.change == "deleted" or not record.cell:
                last_records.pop(change.name, None)
            elif change.change != "perhaps":
                last_records[change.name] = record
    return last_records


class OutputRecords(NamedTuple):
    """The classes of the records for the output of a cell. They depend on the author of the cell."""

    piece: type[records.ReplOutStream]
    """The class for a piece of the output."""
    whole: type[ReplOut]
    """The class for the whole output, at the end of the cell."""


_USER_OUTPUT = OutputRecords(records.UserReplOutStream, records.UserReplOut)
_ASSISTANT_OUTPUT = OutputRecords(records.AssistantReplOutStream, records.AssistantReplOut)


def output_records(started: ReplIn) -> OutputRecords:
    """Return the classes of records for a cell's output.

    Args:
        started: The record of the cell's code.
    """
    if isinstance(started, records.UserReplIn):
        return _USER_OUTPUT
    return _ASSISTANT_OUTPUT
