"""Reads a part of a session for a preview."""

from __future__ import annotations

import contextlib
from pathlib import Path

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.hidden_entries import HiddenEntries, cell_entry, entry_of
from mahtab_tui.bus.records import Record
from mahtab_tui.store.database import as_sentences, connect
from mahtab_tui.store.reading import readable_record
from mahtab_tui.store.session_index import SAID, shortened

SHOWN = 300
"""Records that a preview shows."""
LONGEST = 10_000
"""Characters of an output that it shows: half of them from the beginning, half from the end."""
LONGEST_SAID = 20_000
"""Records of a question, an answer or a cell: reading a long answer's Markdown would keep the
screen busy."""
PRIVATE = "# This cell uses a private variable, so it is left out."

_COUNT = "select count(*) from record where session = ?"
_PAGE = (
    "select time, tag, attrs, text from record where session = ? order by number limit ? offset ?"
)
_MARKS = "select time, tag, attrs, text from record where session = ? and tag = ? order by number"


def preview(path: Path, session: str, place: int = 0) -> list[Record]:
    """Return the last records of a session, or those around the one at a place (from 1), without
    cells that use private variables.

    Those that cannot be read are counted in a notice. Raises `StoreError`.
    """
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        (count,) = connection.execute(_COUNT, (session,)).fetchone()
        first = max(0, min(count - SHOWN, place - SHOWN // 2 if place else count))
        rows = [readable_record(row) for row in connection.execute(_PAGE, (session, SHOWN, first))]
        marks = [
            readable_record(row) for row in connection.execute(_MARKS, (session, tags.PRIVATE))
        ]
    found = [_shortened(record) for record in rows if record is not None]
    left_out = HiddenEntries()
    for record in (*found, *(mark for mark in marks if mark is not None)):
        left_out.fold(record)
    shown = [kept for record in found if (kept := without_private(record, left_out)) is not None]
    notices = [records.Notice(f"{first:,} earlier records are not shown here.")] if first else []
    if unreadable := rows.count(None):
        shown.append(records.Notice(f"{unreadable:,} records cannot be read.", level="warning"))
    return [*notices, *shown]


def _shortened(record: Record) -> Record:
    if isinstance(record, records.ReplOut) and len(record.text) > LONGEST:
        return record.changed(text=shortened(record.text, LONGEST), kinds=None, frames=None)
    if isinstance(record, SAID) and len(record.text) > LONGEST_SAID:
        return record.changed(text=shortened(record.text, LONGEST_SAID))
    return record


def without_private(record: Record, left_out: HiddenEntries) -> Record | None:
    """Return what of a record may be shown to others than the user: nothing of private variables
    and of cells that use them."""
    if isinstance(record, records.Display) and record.cell is not None:
        return None if left_out.held_back(cell_entry(record.cell)) else record
    if isinstance(record, records.Namespace | records.Review):
        return record.changed(
            changes=tuple(
                change for change in record.changes if change.name not in left_out.private
            )
        )
    if not left_out.held_back(entry_of(record)):
        return record
    return record.changed(text=PRIVATE) if isinstance(record, records.ReplIn) else None
