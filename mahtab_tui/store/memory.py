"""A store that keeps records in memory, for tests and for sessions that leave no trace."""

from __future__ import annotations

from mahtab_tui.bus import tags
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
        whole = (r for r in reversed(self.records) if r.tag in tags.OUTPUTS and r.attrs.get("cell") == cell and not r.attrs.get("late"))
        return next((record.text for record in whole), None)

    def pictures(self, cell: int) -> list[str]:
        shown = (r.attrs for r in self.records if r.tag == tags.DISPLAY and r.attrs.get("cell") == cell)
        return [attrs["data"] for attrs in shown if attrs["mime"] in tags.PICTURES]

    def close(self) -> None:
        """Nothing to do: the records stay."""
