"""Turns records into rows of the database, and rows into records."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard

from mahtab_tui.bus.codec import MAX_INTEGER, InvalidRecord, decode
from mahtab_tui.bus.records import AssistantChat, Record, ReplOut, encode
from mahtab_tui.store.database import decode_text, encode_text

LIST_PART_ITEMS = 2_000
"""Items of a long list that are written as JSON at once."""

_SELECT_UNFINISHED = "select time, tag, attrs, text from partial where session = ? order by time"
"""Finds the rows of a session's unfinished streams; the columns are those of `StoredRow`."""


class StoredRow(NamedTuple):
    """A record as it is stored.

    The file may be damaged, so a row that was read can hold any values.
    """

    time: object
    """The time of the record, in seconds since the epoch."""
    tag: object
    """The kind of the record, as `Record.tag`."""
    attrs: object
    """The fields of the record except time and text, as JSON."""
    text: object
    """The text of the record, as `encode_text` returns it."""


class UnfinishedStream(NamedTuple):
    """A stream that was unfinished when the program was killed."""

    row: StoredRow
    """The row that has what had come until then."""
    record: Record | None
    """The same as a record that is marked ``cut``; None if it cannot be read."""


def encode_row(record: Record) -> StoredRow:
    """Return a record as it is stored. One without a time gets the present time."""
    return StoredRow(
        time=record.time or time.time(),
        tag=record.tag,
        attrs=_as_json(encode(record)),
        text=encode_text(record.text),
    )


def decode_row(row: StoredRow) -> Record | None:
    """Return the record of a row.

    Returns:
        The record; None if a newer version of the program wrote it, with a tag that this version does
        not know.

    Raises:
        InvalidRecord: The row is damaged.
    """
    if not isinstance(row.attrs, str | bytes):
        raise InvalidRecord("The attributes are not JSON.")
    try:
        attributes = json.loads(row.attrs)
    except (ValueError, RecursionError):
        raise InvalidRecord("The attributes are not JSON.") from None
    if not isinstance(row.tag, str) or not isinstance(row.time, float):
        raise InvalidRecord("The tag or the time is missing.")
    # Infinities and NaN are not in this range either.
    if not -MAX_INTEGER <= row.time < MAX_INTEGER:
        raise InvalidRecord("The time is not a number of seconds.")
    if not isinstance(row.text, str | bytes):
        raise InvalidRecord("The text is missing.")
    return decode(row.tag, decode_text(row.text), attributes, row.time)


def readable_record(row: StoredRow) -> Record | None:
    """Return the record of a row.

    None if the row is damaged, or if a newer version of the program wrote it.
    """
    try:
        return decode_row(row)
    except InvalidRecord:
        return None


def unfinished_streams(connection: sqlite3.Connection, session: str) -> list[UnfinishedStream]:
    """Return the unfinished streams of a session, the oldest first.

    Args:
        connection: The database of the sessions.
        session: The id of the session.
    """
    streams: list[UnfinishedStream] = []
    for columns in connection.execute(_SELECT_UNFINISHED, (session,)):
        row = StoredRow(*columns)
        record = readable_record(row)
        cut_record: Record | None = None
        if isinstance(record, ReplOut | AssistantChat):
            cut_record = record.changed(cut=True)
        streams.append(UnfinishedStream(row, cut_record))
    return streams


def _as_json(attributes: Mapping[str, object]) -> str:
    """Return the fields of a record as JSON.

    Long lists are written in parts, because Python's other threads, such as the one that reads
    keys, wait while a value is written.
    """
    if not any(map(_is_long_list, attributes.values())):
        return json.dumps(attributes, default=str)

    members: list[str] = []
    for name, value in attributes.items():
        if _is_long_list(value):
            json_value = _long_list_as_json(value)
        else:
            json_value = json.dumps(value, default=str)
        members.append(f"{json.dumps(name)}: {json_value}")
    return f"{{{', '.join(members)}}}"


def _is_long_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list) and len(value) > LIST_PART_ITEMS


def _long_list_as_json(items: Sequence[object]) -> str:
    """Return a list as JSON, written a part of its items at a time."""
    json_parts: list[str] = []
    for start in range(0, len(items), LIST_PART_ITEMS):
        json_part = json.dumps(items[start : start + LIST_PART_ITEMS], default=str)
        json_parts.append(json_part.removeprefix("[").removesuffix("]"))
    return f"[{', '.join(json_parts)}]"
