"""Records from JSON values; unlike in files and sockets, an unknown field is an error."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.codec import decode, from_json
from mahtab_tui.bus.records import Record, get_record, hints


def made(
    tag: str, text: str = "", attrs: Mapping[str, Any] | None = None, time: float = 0.0
) -> Record:
    """Build a record of a tag."""
    fields = dict(attrs or {})
    record = decode(tag, text, fields, time)
    assert record is not None, tag
    unknown = fields.keys() - hints(type(record)).keys() - {"event"}
    assert not unknown, f"{tag} has no {unknown}"
    return record


def emit(log: logging.Logger, tag: str, text: str = "", /, **attrs: Any) -> None:
    """Log a record of a tag."""
    records.emit(log, made(tag, text, attrs))


def read_log(path: Path) -> list[Record]:
    """Read the log of a search."""
    parsed_records = [
        from_json(json.loads(line)) for line in path.read_text("utf-8").splitlines()[1:]
    ]
    return [record for record in parsed_records if record is not None]


class RecordList(logging.Handler):
    """Collects the records of a bus."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(get_record(record))
