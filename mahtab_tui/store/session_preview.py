"""Parts of stored sessions as lists and previews show them: shortened, and without what cells with
private variables contain."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TypeVar

from mahtab_tui.bus import records
from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.values import Change, NotRestored
from mahtab_tui.store.session_file import opened
from mahtab_tui.store.stored_records import StoredRow, readable_record

_NamedT = TypeVar("_NamedT", Change, NotRestored)

MAX_PREVIEW_RECORDS = 300
MAX_PREVIEW_TEXT_CHARS = 20_000
"""Characters of each text that are previewed: rendering long Markdown would block the screen."""
PRIVATE_CELL_TEXT = "# This cell uses a private variable, so it is left out."

_GAP = "\n…\n"
"""Stands for the middle of a text that is too long."""
_RECORD_COUNT = "select count(*) from record where session = ?"
_RECORD_PAGE = (
    "select time, tag, attrs, text from record where session = ? order by number limit ? offset ?"
)
_HAS_TAG = "select 1 from record where session = ? and tag = ? limit 1"
_OUTPUT_MARKS = ", ".join("?" for _ in records.OUTPUT_TAGS)
_PRIVATE_MARKS = (
    "select time, tag, attrs, '' from record"
    f" where session = ? and tag in (?, {_OUTPUT_MARKS}) order by number"
)
"""Marks of private variables, and the cells that use them; without texts, which may be long."""


def shorten_middle(text: str, max_chars: int) -> str:
    """Return a text, or its two ends with a line `…` between them, in `max_chars` characters."""
    if len(text) <= max_chars:
        return text
    end_chars = (max_chars - len(_GAP)) // 2
    return f"{text[:end_chars]}{_GAP}{text[-end_chars:]}"


def find_private_cells(connection: sqlite3.Connection, session: str) -> HiddenEntries:
    """Find the private variables of a session, and the cells that use them."""
    hidden = HiddenEntries()
    # Most sessions have no private variable: do not read their cells.
    private_tag = records.Private.tag
    if connection.execute(_HAS_TAG, (session, private_tag)).fetchone() is None:
        return hidden
    for columns in connection.execute(_PRIVATE_MARKS, (session, private_tag, *records.OUTPUT_TAGS)):
        record = readable_record(StoredRow(*columns))
        if record is not None:
            hidden.fold(record)
    return hidden


def preview_records(path: Path, session: str, around_record: int = 0) -> list[Record]:
    """Return records of a session for display, with notices about those that are left out. Cells
    that use private variables are replaced.

    Args:
        path: The database.
        session: The session's id.
        around_record: The record around which they are read, by its place in the session from 1; 0
            for the last ones.

    Raises:
        StoreError: The database cannot be read.
    """
    with opened(path) as connection:
        (record_count,) = connection.execute(_RECORD_COUNT, (session,)).fetchone()
        start = _page_start(record_count, around_record)
        page = (session, MAX_PREVIEW_RECORDS, start)
        rows = connection.execute(_RECORD_PAGE, page).fetchall()
        hidden = find_private_cells(connection, session)

    page_records = [readable_record(StoredRow(*columns)) for columns in rows]
    read_records = [record for record in page_records if record is not None]
    visible_records = [without_private(_shorten(record), hidden) for record in read_records]

    preview: list[Record] = []
    if start:
        preview.append(records.Notice(f"Earlier records not shown here: {start:,}."))
    preview += [record for record in visible_records if record is not None]
    later_count = record_count - start - len(rows)
    if later_count > 0:
        preview.append(records.Notice(f"Later records not shown here: {later_count:,}."))
    unreadable_count = len(page_records) - len(read_records)
    if unreadable_count:
        notice = f"Records that cannot be read: {unreadable_count:,}."
        preview.append(records.Notice(notice, level="warning"))
    return preview


def _page_start(record_count: int, around_record: int) -> int:
    """Return how many records come before those of a preview."""
    start = record_count - MAX_PREVIEW_RECORDS
    if around_record:
        start = min(start, around_record - MAX_PREVIEW_RECORDS // 2)
    return max(0, start)


def _shorten(record: Record) -> Record:
    """Return a record whose text is short enough to be rendered."""
    if isinstance(record, records.ReplOut) and len(record.text) > MAX_PREVIEW_TEXT_CHARS:
        # The kinds and frames have positions in the whole text.
        text = shorten_middle(record.text, MAX_PREVIEW_TEXT_CHARS)
        return record.changed(text=text, kinds=None, frames=None)
    if record.indexed:
        return record.changed(text=shorten_middle(record.text, MAX_PREVIEW_TEXT_CHARS))
    return record


def without_private(record: Record, hidden: HiddenEntries) -> Record | None:
    """Remove what a record tells of private variables.

    Args:
        record: A record of the session.
        hidden: The private variables, and the cells that use them.

    Returns:
        The record, without the private variables that it lists. Of a cell that uses one, the input
        has `PRIVATE_CELL_TEXT`, and all else is None.
    """
    match record:
        case records.DisplayRecord(cell=int(cell)):
            # A display makes no entry of its own.
            entry = cell_entry(cell)
        case records.Review():
            return record.changed(
                changes=_named_publicly(record.changes, hidden),
                not_restored=_named_publicly(record.not_restored, hidden),
            )
        case records.Namespace():
            return record.changed(changes=_named_publicly(record.changes, hidden))
        case _:
            entry = record.entry_name

    if not hidden.is_private(entry):
        return record
    if isinstance(record, records.ReplIn):
        return record.changed(text=PRIVATE_CELL_TEXT)
    return None


def _named_publicly(items: tuple[_NamedT, ...], hidden: HiddenEntries) -> tuple[_NamedT, ...]:
    """Return the items without those about private variables."""
    return tuple(item for item in items if item.name not in hidden.private)
