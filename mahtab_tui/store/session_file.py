"""A session as one file: lines of JSON, compressed by gzip. The first line says what it is, each further one is a record.

It holds no variables, and nothing of it is code that runs when it is read. A file from elsewhere is hostile until it has been read:
sizes are limited, each line is checked, and nothing in it names a place where anything is written.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mahtab_tui import __version__
from mahtab_tui.bus import records
from mahtab_tui.bus.codec import FORMAT, InvalidRecord, as_json, from_json
from mahtab_tui.bus.left_out import LeftOut
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.records.base import encode
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.worker.frames import FrameError, check_bare
from mahtab_tui.store.digest import RECORDS, title_of
from mahtab_tui.store.preview import without_private
from mahtab_tui.store.sqlite import ALL, YEAR_10000, SessionRow, load_records

KIND = "mahtab session"
LONGEST_LINE = 200_000_000
"""Bytes of one record."""
LARGEST = 2_000_000_000
"""Bytes of all records, when they are not compressed."""
_SHORT, _MOST_STRUCTURE = 1_000_000, 5_000_000
"""Bytes of a line that are looked at before it is read, and of what is no text in it: a hundred million empty lists take gigabytes."""
_LARGEST_NUMBER = 1e12
"""No cell, question, cost or size comes near it."""
_NAME = 200
"""Characters of a project's name."""
_MAGIC = b"\x1f\x8b"


class BadSessionFile(Exception):
    """The file is not one of a session, or is damaged; the message is a sentence."""


class Header(NamedTuple):
    """What a file says of its session."""

    session: str
    """Its id where it comes from."""
    name: str
    title: str
    started: float
    """Seconds since the epoch, as `last`."""
    last: float


def write_session(database: Path, row: SessionRow, file: Path, *, over: bool = False) -> str:
    """Write a session into a file, in one step; returns a sentence. Cells that use private variables are left out.

    Raises `StoreError`, `OSError`; `FileExistsError` if the file is there and not `over`.
    """
    if not over and file.exists():
        raise FileExistsError(f"{file} is there already.")
    page = load_records(database, row.id, limit=ALL)
    left_out = LeftOut()
    for _, record in page.records:
        left_out.fold(record)
    header = {"kind": KIND, "format": FORMAT, "program": f"mahtab-tui {__version__}", "session": row.id, "name": row.name, "title": row.title}
    kept = [shared for _, record in page.records if (shared := without_private(record, left_out)) is not None]
    private = sum(isinstance(record, records.ReplIn) and left_out.held_back(f"cell {record.cell}") for _, record in page.records)
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}")
    try:
        with os.fdopen(handle, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
            packed.write(_line(header | {"started": row.started, "last": row.last}))
            for record in kept:
                packed.write(_line(as_json(record)))
        os.replace(draft, file)
    except BaseException:
        os.unlink(draft)
        raise
    parts = [f"Exported {len(kept):,} record{'s' * (len(kept) != 1)} into {file}."]
    if private:
        parts.append(f"Left out: {private:,} cell{'s' * (private > 1)} that use{'s' * (private == 1)} a private variable.")
    if page.unreadable:
        parts.append(f"Left out: {page.unreadable:,} record{'s' * (page.unreadable > 1)} that cannot be read.")
    return " ".join(parts)


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"


@contextlib.contextmanager
def opened_session(file: Path) -> Iterator[tuple[Header, Iterator[Record | None]]]:
    """Open a session's file and yield its header and its records, which are read and checked as they are asked for.

    None stands for one that only a newer version knows. Raises `BadSessionFile`, also while lines are read, and `OSError`.
    """
    if not file.is_file() and file.exists():
        raise BadSessionFile(f"{file} is no file.")
    with file.open("rb") as raw:
        if raw.read(2) != _MAGIC:
            raise BadSessionFile(f"{file} is no session that was exported: it is not compressed.")
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw, mode="rb") as packed:
            lines = _lines(file, packed)
            try:
                yield _header(file, next(lines, None)), _records(file, lines)
            except (gzip.BadGzipFile, EOFError, zlib.error):
                raise BadSessionFile(f"{file} is damaged: it cannot be decompressed.") from None


def _lines(file: Path, packed: gzip.GzipFile | BinaryIO) -> Iterator[Any]:
    """Yield the JSON value of each line."""
    number, total = 0, 0
    while data := packed.readline(LONGEST_LINE + 1):
        number += 1
        total += len(data)
        if len(data) > LONGEST_LINE or total > LARGEST or number > RECORDS:
            raise BadSessionFile(f"{file} is larger than a session may be (line {number:,}).")
        try:
            if len(data) > _SHORT:
                check_bare(data, _MOST_STRUCTURE)
            yield json.loads(data)
        except FrameError:
            raise BadSessionFile(f"{file} is damaged: line {number:,} is no record.") from None
        except (ValueError, RecursionError):
            raise BadSessionFile(f"{file} is damaged: line {number:,} is not JSON.") from None


def _header(file: Path, value: Any) -> Header:
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise BadSessionFile(f"{file} is no session that was exported.")
    if value.get("format") != FORMAT:
        raise BadSessionFile(f"{file} was exported by a newer version of mahtab-tui. Update mahtab-tui to use it.")
    session, name, title = (one_line(text)[:_NAME] if isinstance(text := value.get(key), str) else "" for key in ("session", "name", "title"))
    return Header(session, name or "session", title_of(title), _moment(value.get("started")), _moment(value.get("last")))


def _records(file: Path, values: Iterator[Any]) -> Iterator[Record | None]:
    for number, value in enumerate(values, 2):
        try:
            record = from_json(value)
            if record is not None:
                _check(record)
        except InvalidRecord as error:
            raise BadSessionFile(f"{file} is damaged: line {number:,} is not a record ({one_line(str(error))[:_NAME]}).") from None
        yield record


def _check(record: Record) -> None:
    """Raise `InvalidRecord` for what no session keeps."""
    if not record.in_store:
        raise InvalidRecord(f"records of tag {record.tag} are not kept in sessions")
    if not _is_moment(record.time):
        raise InvalidRecord("its time is no date")
    if not _is_small(encode(record)):  # not the value: what nobody reads may be nested deeper than Python goes
        raise InvalidRecord("a number is too large")


def _moment(value: Any) -> float:
    return float(value) if _is_moment(value) else 0.0


def _is_moment(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < YEAR_10000  # type: ignore[operator]


def _is_small(value: object) -> bool:
    """Return whether all numbers in a JSON value are of a size that occurs."""
    if isinstance(value, dict):
        return all(_is_small(each) for each in value.values())
    if isinstance(value, list):
        return all(_is_small(each) for each in value)
    return not isinstance(value, int | float) or abs(value) <= _LARGEST_NUMBER
