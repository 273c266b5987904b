"""The input history."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from mahtab_tui.store.history import History, letters_between


def texts(history: History, mode: str | None = None) -> list[str]:
    return [entry.text for entry in history.entries(mode)]


def test_entries_are_newest_first_with_this_projects_before_others(tmp_path: Path) -> None:
    path = tmp_path / "home" / "history.db"
    here, there = History(path, "/here"), History(path, "/there")
    for history, text, mode in (
        (here, "a = 1", "python"),
        (here, "why?", "ask"),
        (there, "b = 2", "python"),
        (here, "c\nd", "python"),
    ):
        history.add(text, mode)
    assert texts(here) == ["c\nd", "why?", "a = 1", "b = 2"]
    assert texts(here, "python") == ["c\nd", "a = 1", "b = 2"]
    assert texts(there) == ["b = 2", "c\nd", "why?", "a = 1"]
    assert here.problem == there.problem == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    here.close()
    there.close()


def test_repeated_input_is_stored_once(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db", "p")
    for text in ("a", "a", "b", "a", "a"):
        history.add(text, "python")
    assert texts(history) == ["a", "b"]
    rows = sqlite3.connect(tmp_path / "history.db").execute("select text from input").fetchall()
    assert [row[0] for row in rows] == ["a", "b", "a"]
    history.close()


def test_history_survives_a_restart_with_any_text(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    first = History(path, "p")
    hostile = ["nul \x00", "lone \ud800", "'; drop table input; --", "ש" * 100_000]
    for text in hostile:
        first.add(text, "python")
    first.close()
    second = History(path, "p")
    assert texts(second) == hostile[::-1]
    second.close()


def test_search_ranks_by_closeness_then_newness(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db", "p")
    for text in ("df.describe()", "d = fetch()", "print(df)\nmore", "nothing", "DF"):
        history.add(text, "python")
    assert [entry.text for entry in history.search("df")] == [
        "DF",
        "print(df)\nmore",
        "df.describe()",
        "d = fetch()",
    ]
    assert [entry.text for entry in history.search("df", limit=1)] == ["DF"]
    assert history.search("zzz") == []
    history.close()


def test_letters_match_with_gaps() -> None:
    assert [letters_between(text, "ac") for text in ("xacx", "abc", "a--c", "ca", "")] == [
        0,
        1,
        2,
        None,
        None,
    ]


@pytest.mark.parametrize(
    "damage",
    [b"this is no database, it only says so" * 100, b"SQLite format 3\x00" + b"\xff" * 5000],
)
def test_damaged_file_is_moved_away(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(damage)
    history = History(path, "p")
    assert "damaged" in history.problem
    history.add("x", "python")
    history.close()
    again = History(path, "p")
    assert texts(again) == ["x"]
    again.close()
    damaged = next(tmp_path.glob("history.db.damaged-*"))
    assert damaged.read_bytes() == damage


def test_folder_at_the_file_path_leaves_history_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.mkdir()
    history = History(path, "p")
    history.add("x", "python")
    assert "kept in memory" in history.problem
    assert texts(history) == ["x"]
    history.close()


def test_uncreatable_folder_is_explained_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = History(tmp_path / "file" / "history.db", "p")
    assert "(File exists). This session's inputs are kept in memory" in history.problem
    history.close()


def test_locked_file_is_reported_and_not_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    history = History(path, "p")
    history._connection.execute("pragma busy_timeout = 1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    history.add("x", "python")
    assert "locked" in history.problem
    other.execute("rollback")
    history.add("y", "python")
    assert texts(history) == ["y"]
    assert list(tmp_path.glob("*damaged*")) == []
    history.close()


def test_several_programs_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.db"

    def work(name: str) -> None:
        history = History(path, name)
        for number in range(20):
            history.add(f"{name} {number}", "python")
        assert history.problem == ""
        history.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = History(path, "a")
    assert len(texts(reader)) == 80
    reader.close()


def test_no_trace_session_sees_earlier_inputs_and_writes_none(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    hidden = History(path, "here", no_trace=True)
    assert not path.exists()
    hidden.close()
    first = History(path, "here")
    first.add("earlier", "python")
    hidden = History(path, "here", no_trace=True)
    hidden.add("hidden", "python")
    assert [entry.text for entry in hidden.entries()] == ["hidden", "earlier"]
    assert [entry.text for entry in first.entries()] == ["earlier"]
    hidden.close()
    first.close()


def test_no_trace_session_works_with_a_damaged_history(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"no database" * 100)
    hidden = History(path, "here", no_trace=True)
    hidden.add("hidden", "python")
    assert [entry.text for entry in hidden.entries()] == ["hidden"]
    hidden.close()
    assert path.read_bytes() == b"no database" * 100
