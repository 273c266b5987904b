"""Sessions to be shown again, saved or from a file, and going on from the middle of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.records import Record
from mahtab_tui.store.branches import fork, fork_before
from mahtab_tui.store.importing import import_session
from mahtab_tui.store.resume import database, find_session
from mahtab_tui.store.session_file import opened_session
from mahtab_tui.store.sqlite import ALL, load_records


class Replayed(NamedTuple):
    """A session to show."""

    title: str
    records: Sequence[Record]
    take_over: Callable[[int], str]
    """Makes a new session of so many of the records, from the first; returns its id. Raises `StoreError`, `BadSessionFile`, `OSError`."""


def replayed(what: str, project: Path) -> Replayed:
    """Return the session in a file, or a saved one by the beginning of its id. project: the folder of a session that is made of a file.

    Raises `NoSession`, `StoreError`, `BadSessionFile`, `OSError`.
    """
    return _of_file(Path(what), project) if Path(what).is_file() else _saved(what)


def _of_file(file: Path, project: Path) -> Replayed:
    with opened_session(file) as (header, found):
        records = [record for record in found if record is not None]

    def take_over(count: int) -> str:
        return import_session(database(), file, str(project), limit=count).session

    return Replayed(header.title or header.name, records, take_over)


def _saved(session: str) -> Replayed:
    row = find_session(session, None)
    page = load_records(database(), row.id, limit=ALL)
    numbers = [number for number, _ in page.records]

    def take_over(count: int) -> str:
        return fork(row.id) if count >= len(numbers) else fork_before(row.id, numbers[count])

    return Replayed(row.heading, [record for _, record in page.records], take_over)
