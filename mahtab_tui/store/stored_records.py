"""Records as rows of the database."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mahtab_tui.bus.codec import MAX_INTEGER, InvalidRecord, decode
from mahtab_tui.bus.records import AssistantChat, Record, ReplOut, encode
from mahtab_tui.store.database import decode_text, encode_text

LIST_PART_ITEMS = 2_000
"""Items of a long list that are written as JSON at once."""


class StoredRow(NamedTuple):
    """A record as it is stored. The file may be damaged, so nothing in a row is validated."""

    time: Any
    """In seconds since the epoch."""
    tag: Any
    attrs: Any
    """The fields, as JSON."""
    text: Any


def encode_row(record: Record) -> StoredRow:
    """Return a record as it is stored."""
    return StoredRow(
        time=record.time or time.time(),
        tag=record.tag,
        attrs=_as_json(encode(record)),
        text=encode_text(record.text),
    )


def _as_json(attributes: Mapping[str, Any]) -> str:
    """Return the fields of a record as JSON. Long lists are written in parts, because Python's other
    threads, such as the one that reads keys, wait while a value is written."""
    if not any(map(_is_long_list, attributes.values())):
        return json.dumps(attributes, default=str)

    members: list[str] = []
    for name, value in attributes.items():
        is_long = _is_long_list(value)
        text = _long_list_as_json(value) if is_long else json.dumps(value, default=str)
        members.append(f"{json.dumps(name)}: {text}")
    return f"{{{', '.join(members)}}}"


def _long_list_as_json(items: Sequence[object]) -> str:
    """Return a list as JSON, which is written in parts."""
    parts: list[str] = []
    for start in range(0, len(items), LIST_PART_ITEMS):
        part = json.dumps(items[start : start + LIST_PART_ITEMS], default=str)
        parts.append(part.removeprefix("[").removesuffix("]"))
    return f"[{', '.join(parts)}]"


def _is_long_list(value: object) -> bool:
    return isinstance(value, list) and len(value) > LIST_PART_ITEMS


class UnfinishedStream(NamedTuple):
    """A stream that was unfinished when the program was killed."""

    row: StoredRow
    record: Record | None
    """Marked ``cut``; None if it cannot be read."""


def unfinished_streams(connection: sqlite3.Connection, session: str) -> list[UnfinishedStream]:
    """Return the unfinished streams of a session, the oldest first."""
    query = "select time, tag, attrs, text from partial where session = ? order by time"
    streams: list[UnfinishedStream] = []
    for columns in connection.execute(query, (session,)):
        row = StoredRow(*columns)
        record = readable_record(row)
        cut_record: Record | None = None
        if isinstance(record, ReplOut | AssistantChat):
            cut_record = record.changed(cut=True)
        streams.append(UnfinishedStream(row, cut_record))
    return streams


def decode_row(row: StoredRow) -> Record | None:
    """Decode a record; None if a newer version wrote it. Raises `InvalidRecord`."""
    try:
        attributes = json.loads(row.attrs)
    except (ValueError, TypeError, RecursionError):
        raise InvalidRecord("The attributes are not JSON.") from None
    if not isinstance(row.tag, str) or not isinstance(row.time, float):
        raise InvalidRecord("The tag or the time is missing.")
    # False for infinities and NaN.
    if not -MAX_INTEGER <= row.time < MAX_INTEGER:
        raise InvalidRecord("The time is not a number of seconds.")
    if not isinstance(row.text, str | bytes):
        raise InvalidRecord("The text is missing.")
    return decode(row.tag, decode_text(row.text), attributes, row.time)


def readable_record(row: StoredRow) -> Record | None:
    """Decode a record; None if it is damaged, or if a newer version wrote it."""
    try:
        return decode_row(row)
    except InvalidRecord:
        return None
