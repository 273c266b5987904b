"""Going on from the middle of a session, saved or in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.store.importing import IMPORTED
from mahtab_tui.store.namespaces import is_kept
from mahtab_tui.store.replaying import replayed
from mahtab_tui.store.resume import NoSession, database, find_session
from mahtab_tui.store.session_file import write_session
from mahtab_tui.store.sqlite import SqliteStore, list_sessions, load_records
from tests.unit.sqlite_sessions import cell, spoil
from tests.unit.test_resume import saved


@pytest.fixture(autouse=True)
def session(home: Path) -> None:
    store = SqliteStore(database(), "abc", name="shop", project="/p")
    for number in range(1, 5):
        store.append(cell(number, f"x = {number}"))
    store.append(records.Private(name="x", private=True, cells=(1,), time=2000.0))
    store.close()
    saved("abc")


def texts(session: str) -> list[str]:
    return [record.text for _, record in load_records(database(), session).records]


def marks(session: str) -> list[Record]:
    return [record for _, record in load_records(database(), session).records if isinstance(record, records.Private)]


def test_a_saved_session_goes_on_with_the_records_so_far(tmp_path: Path) -> None:
    source = replayed("ab", tmp_path)
    assert (source.title, len(source.records)) == ("x = 1", 5)
    copy = source.take_over(2)
    assert texts(copy)[:2] == ["x = 1", "x = 2"]
    assert "This session is a copy of abc" in texts(copy)[2]
    assert len(marks(copy)) == 1  # what is private now is private in its past, too
    assert not is_kept(copy)
    whole = source.take_over(5)
    assert texts(whole) == texts("abc")
    assert is_kept(whole)
    assert len(list_sessions(database())) == 3


def test_a_record_that_cannot_be_read_does_not_count(tmp_path: Path) -> None:
    spoil(database(), "update record set attrs = '{' where number = 2")
    source = replayed("abc", tmp_path)
    assert [record.text for record in source.records[:2]] == ["x = 1", "x = 3"]
    assert texts(source.take_over(2))[:2] == ["x = 1", "x = 3"]


def test_a_file_goes_on_without_the_session_it_came_from(tmp_path: Path) -> None:
    store = SqliteStore(database(), "def", name="shop", project="/p")
    for number in range(1, 5):
        store.append(cell(number, f"y = {number}"))
    store.close()
    file = tmp_path / "it.jsonl.gz"
    write_session(database(), find_session("def", None), file)
    source = replayed(str(file), tmp_path)
    assert [record.text for record in source.records] == texts("def")
    assert len(list_sessions(database())) == 2
    made = source.take_over(3)
    assert texts(made) == ["y = 1", "y = 2", "y = 3", IMPORTED]
    assert find_session(made, None).project == str(tmp_path)


def test_what_is_neither_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoSession, match="no session whose ID begins with 'nothing'"):
        replayed("nothing", tmp_path)
