"""Reads stored records, which may be damaged."""

from __future__ import annotations

import json
from typing import Any

from mahtab_tui.bus.codec import InvalidRecord, decode
from mahtab_tui.bus.records import Record
from mahtab_tui.store.encoding import restored

StoredRow = tuple[Any, Any, Any, Any]
"""Time, tag, attributes and text of a record as stored, unchecked."""


def decoded(row: StoredRow) -> Record | None:
    """Return a record from its time, tag, attributes and text; None if a newer version wrote it.
    Raises `InvalidRecord`."""
    moment, tag, attrs, text = row
    try:
        values = json.loads(attrs)
    except (ValueError, TypeError, RecursionError):
        raise InvalidRecord("The attributes are not JSON.") from None
    if not (isinstance(tag, str) and isinstance(moment, float)):
        raise InvalidRecord("The tag or the time is missing.")
    return decode(tag, restored(text), values, moment)


def readable_record(row: StoredRow) -> Record | None:
    """Return a record; None if it cannot be read, or a newer version wrote it."""
    try:
        return decoded(row)
    except InvalidRecord:
        return None
