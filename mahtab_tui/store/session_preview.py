"""Parts of stored sessions as lists and previews show them: shortened, and without what cells with
private variables contain."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mahtab_tui.bus import records
from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.store.session_file import opened
from mahtab_tui.store.stored_records import StoredRow, readable_record

PREVIEW_RECORDS = 300
PREVIEW_TEXT_CHARS = 20_000
"""Characters of a text in a preview at most, because rendering long Markdown would block the
screen."""
PRIVATE_CELL_TEXT = "# This cell uses a private variable, so it is left out."

_RECORD_COUNT = "select count(*) from record where session = ?"
_RECORD_PAGE = (
    "select time, tag, attrs, text from record where session = ? order by number limit ? offset ?"
)
_HAS_TAG = "select 1 from record where session = ? and tag = ? limit 1"
_PRIVATE_MARKS = f"select time, tag, attrs, '' from record where session = ? and tag in ({', '.join('?' * (1 + len(records.OUTPUTS)))}) order by number"
"""Marks of private variables, and the cells that use them; without texts, which may be long."""


def shorten_middle(text: str, max_chars: int) -> str:
    """Return the start and the end of a text that is too long."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n{text[-half:]}"


def hidden_entries(connection: sqlite3.Connection, session: str) -> HiddenEntries:
    """Find the cells of a session that use private variables."""
    hidden = HiddenEntries()
    # Most sessions have no private variable: do not read their cells.
    private_tag = records.Private.tag
    if connection.execute(_HAS_TAG, (session, private_tag)).fetchone() is None:
        return hidden
    for columns in connection.execute(_PRIVATE_MARKS, (session, private_tag, *records.OUTPUTS)):
        record = readable_record(StoredRow(*columns))
        if record is not None:
            hidden.fold(record)
    return hidden


def preview(path: Path, session: str, number: int = 0) -> list[Record]:
    """Return records of a session for display, without cells that use private variables. Raises
    `StoreError`.

    Args:
        path: The database.
        session: The session's id.
        number: The record (from 1) around which they are read; 0 for the last ones.
    """
    with opened(path) as connection:
        (count,) = connection.execute(_RECORD_COUNT, (session,)).fetchone()
        start = count - PREVIEW_RECORDS
        if number:
            start = min(start, number - PREVIEW_RECORDS // 2)
        start = max(0, start)
        rows = connection.execute(_RECORD_PAGE, (session, PREVIEW_RECORDS, start)).fetchall()
        hidden = hidden_entries(connection, session)

    previewed: list[Record] = []
    unreadable_count = 0
    if start:
        previewed.append(records.Notice(f"{start:,} earlier records are not shown here."))
    for columns in rows:
        record = readable_record(StoredRow(*columns))
        if record is None:
            unreadable_count += 1
            continue
        visible_record = without_private(_shorten(record), hidden)
        if visible_record is not None:
            previewed.append(visible_record)
    if unreadable_count:
        text = f"{unreadable_count:,} records cannot be read."
        previewed.append(records.Notice(text, level="warning"))
    return previewed


def _shorten(record: Record) -> Record:
    """Return a record whose text is short enough to be rendered."""
    if isinstance(record, records.ReplOut) and len(record.text) > PREVIEW_TEXT_CHARS:
        # The kinds and frames have positions in the whole text.
        text = shorten_middle(record.text, PREVIEW_TEXT_CHARS)
        return record.changed(text=text, kinds=None, frames=None)
    if record.indexed:
        return record.changed(text=shorten_middle(record.text, PREVIEW_TEXT_CHARS))
    return record


def without_private(record: Record, hidden: HiddenEntries) -> Record | None:
    """Return a record without private variables, or None for a cell that uses them."""
    if isinstance(record, records.DisplayRecord) and record.cell is not None:
        return None if hidden.is_private(cell_entry(record.cell)) else record
    if isinstance(record, records.Namespace | records.Review):
        changes = tuple(change for change in record.changes if change.name not in hidden.private)
        return record.changed(changes=changes)
    if not hidden.is_private(record.entry_name):
        return record
    if isinstance(record, records.ReplIn):
        return record.changed(text=PRIVATE_CELL_TEXT)
    return None
