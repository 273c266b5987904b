"""The words that name a session without a title in lists: those of its first question, or else of its
first cell."""

from __future__ import annotations

import sqlite3

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.store.database import encode_text
from mahtab_tui.store.stored_records import StoredRow, readable_record

FIRST_TEXT_CHARS = 80
"""Characters of a question that identify a session without a title."""
_START_CHARS = 10 * FIRST_TEXT_CHARS
"""Characters of a record that are read; several blanks count as one."""

_CELLS = (records.UserReplIn.tag, records.AssistantReplIn.tag)
_INPUTS = (records.UserChat.tag, *_CELLS)
_INPUT_STARTS = """
select time, tag, attrs, substr(text, 1, ?)
from record
where session = ? and tag in (?, ?, ?)
order by number
"""
_FIRST_TEXT = "select first from session where id = ?"
VALID_ATTRS = "case when json_valid(attrs) then attrs else '{}' end"
"""Invalid JSON would fail the query."""
_INPUT_START_OF_CELL = f"""
select time, tag, attrs, substr(text, 1, ?)
from record
where session = ? and tag in (?, ?) and json_extract({VALID_ATTRS}, '$.cell') = ?
order by number desc
limit 1
"""


def first_text(record: Record) -> str | bytes:
    """Return what would name a session whose first input is this record; empty if it is no input."""
    if not isinstance(record, records.UserChat | records.ReplIn):
        return ""
    start = " ".join(record.text[:_START_CHARS].split())
    return encode_text(start[:FIRST_TEXT_CHARS])


def is_first_question(record: Record) -> bool:
    """Return whether a record is the first question, which names its session whatever was before."""
    return isinstance(record, records.UserChat) and record.turn == 1


def hides_first_text(connection: sqlite3.Connection, session: str, record: Record) -> bool:
    """Return whether a record may make the cell private that names its session."""
    if isinstance(record, records.Private):
        return True
    if not isinstance(record, records.ReplOut) or not record.private:
        return False
    parameters = (_START_CHARS, session, *_CELLS, record.cell)
    columns = connection.execute(_INPUT_START_OF_CELL, parameters).fetchone()
    cell = None if columns is None else readable_record(StoredRow(*columns))
    if cell is None:
        return False
    (stored_text,) = connection.execute(_FIRST_TEXT, (session,)).fetchone()
    return bool(first_text(cell) == stored_text)


def find_first_text(connection: sqlite3.Connection, session: str) -> str | bytes:
    """Return what names a session, without cells that use private variables."""
    from mahtab_tui.store.session_preview import find_private_cells

    hidden = find_private_cells(connection, session)
    found_text: str | bytes = ""
    for columns in connection.execute(_INPUT_STARTS, (_START_CHARS, session, *_INPUTS)):
        record = readable_record(StoredRow(*columns))
        if record is None or hidden.is_private(record.entry_name):
            continue
        if is_first_question(record) or not found_text:
            found_text = first_text(record)
    return found_text
