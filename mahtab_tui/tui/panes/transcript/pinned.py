"""The visible rows of the pinned entries at the top of the pane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Entry
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row, Rows


class PinnedRow(NamedTuple):
    row: Row
    entry: Entry | None
    """None for a row that belongs to no entry."""


def pinned_rows(
    pinned: Sequence[tuple[Entry, Rows]], room: int, width: int, palette: Palette
) -> list[PinnedRow]:
    """Return at most `room` rows, including the line below: the starts of the entries; short
    entries are shown in full if possible."""
    if not pinned or room < 2:
        return []
    room -= 1
    shown = list(pinned)
    more = len(pinned) - room
    if more > 0:
        more += 1
        shown = shown[: room - 1]
        room -= 1
    heights = [len(rows) - entry.gap for entry, rows in shown]
    shares = [min(height, room) for height in heights]
    while sum(shares) > room:
        shares[shares.index(max(shares))] -= 1
    drawn = [
        PinnedRow(_row(entry, rows, number, share, height, palette), entry)
        for (entry, rows), share, height in zip(shown, shares, heights, strict=True)
        for number in range(share)
    ]
    if more > 0:
        drawn.append(PinnedRow(Row([(f"… {more} more pinned", palette.muted)]), None))
    return [*drawn, PinnedRow(Row([("─" * width, palette.hairline)]), None)]


def _row(entry: Entry, rows: Rows, number: int, share: int, height: int, palette: Palette) -> Row:
    row = rows[number + entry.gap]
    if number == share - 1 > 0 and share < height:
        return Row([(f"… {height - number:,} more rows", palette.muted)], row.bar)
    return row
