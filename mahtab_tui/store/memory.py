"""A store that keeps records in memory, for tests and for sessions that leave no trace."""

from __future__ import annotations

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.records import Record


class MemoryStore:
    """Keeps every record in `records`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.partials: dict[str, Record] = {}

    def append(self, record: Record) -> None:
        self.records.append(record)

    def partial(self, key: str, record: Record | None) -> None:
        if record is None:
            self.partials.pop(key, None)
        else:
            self.partials[key] = record

    def output(self, cell: int) -> str | None:
        outputs = (
            record for record in reversed(self.records) if isinstance(record, records.ReplOut)
        )
        return next(
            (record.text for record in outputs if record.cell == cell and not record.late), None
        )

    def pictures(self, cell: int) -> list[str]:
        shown = (
            record
            for record in self.records
            if isinstance(record, records.Display) and record.cell == cell
        )
        return [record.data for record in shown if record.mime in tags.PICTURES]

    def everything(self) -> list[Record]:
        return list(self.records)

    def close(self) -> None:
        """Do nothing: the records stay."""
