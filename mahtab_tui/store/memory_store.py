"""Sessions that are not saved."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record


class MemoryStore:
    """A `bus.store_handler.Store` that keeps every record in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        """All records, in order."""
        self.partials: dict[str, Record] = {}
        """Streams that have not ended, by their keys."""

    def append(self, *added: Record) -> None:
        """Store records."""
        self.records += added

    def partial(self, key: str, record: Record | None) -> None:
        """Replace the partial record under a key; None deletes it."""
        if record is None:
            self.partials.pop(key, None)
        else:
            self.partials[key] = record

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell; None if it has not ended."""
        for record in reversed(self.records):
            if isinstance(record, records.ReplOut) and record.cell == cell and not record.late:
                return record.text
        return None

    def pictures(self, cell: int) -> list[str]:
        """Return the pictures displayed by a cell, as base64."""
        return [
            record.data
            for record in self.records
            if isinstance(record, records.DisplayRecord)
            and record.cell == cell
            and record.mime in records.PICTURE_MIMES
        ]

    def everything(self) -> list[Record]:
        """Return all records, in order."""
        return list(self.records)

    def close(self) -> None:
        """Do nothing, because the records stay."""
