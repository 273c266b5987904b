"""Session files and logs that 0.1.0 wrote (`tests/data/0.1.0`) are read whole: they hold a record
of every tag that is kept."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.conversation import Cell
from mahtab_tui.bus.records import KINDS, Record, encode
from mahtab_tui.search.tree import Tree, Trees
from mahtab_tui.session.agent_thread import load_messages
from mahtab_tui.store.session_index import catch_up
from mahtab_tui.store.session_search import find_sessions
from mahtab_tui.store.sqlite import SqliteStore, list_sessions, load_records
from mahtab_tui.tui.namespace.rows import VariableRows
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.records import read_log

WRITTEN = Path(__file__).parent.parent / "data" / "0.1.0"
SESSION = "0a1b2c3d"


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return Path(shutil.copy(WRITTEN / "sessions.db", tmp_path))


@pytest.fixture
def past(sessions: Path) -> list[Record]:
    page = load_records(sessions, SESSION, limit=5_000)
    assert page.unreadable == 0
    return [record for _, record in page.records]


def test_every_old_record_is_read_without_loss(sessions: Path, past: list[Record]) -> None:
    with sqlite3.connect(sessions) as connection:
        rows = connection.execute("select tag, attrs, text from record order by number").fetchall()
    newer = {
        tags.USER_UNDO,
        tags.REVIEW,
        tags.RESTORE,
        tags.BRANCH,
        tags.PRIVATE,
        tags.PLAN,
        tags.ASSISTANT_THOUGHT,
    }
    newer |= {tags.NOTEBOOK_FILE, tags.NOTEBOOK_CELL, tags.NOTEBOOK_OUTPUT, tags.NOTEBOOK_WRITTEN}
    assert {tag for tag, _, _ in rows} == {
        tag for (tag, _), kind in KINDS.items() if kind.in_store
    } - newer
    read = past[: len(rows)]
    assert [(record.tag, record.text) for record in read] == [(tag, text) for tag, _, text in rows]
    for record, (_, attrs, _) in zip(read, rows, strict=True):
        expected: dict[str, Any] = {
            name: value for name, value in json.loads(attrs).items() if value is not None
        }
        assert expected.items() <= json.loads(json.dumps(encode(record))).items()


def test_cell_running_when_killed_is_marked_as_cut(past: list[Record]) -> None:
    last = past[-1]
    assert isinstance(last, records.UserReplOut)
    assert (last.cut, last.text, last.kinds) == (True, "begun\n", (("stdout", 6),))


def test_old_session_is_shown_as_it_was(past: list[Record]) -> None:
    transcript, rows, searches = Transcript(since=past[-1].time + 1), VariableRows(), Trees()
    transcript.fold(past)
    rows.fold(past)
    searches.fold(past)
    cells = {
        cell.number: cell
        for cell in transcript.entries
        if isinstance(cell, Cell) and cell.number is not None
    }
    assert [cells[number].status for number in (1, 2, 12)] == ["ok", "error", "cut off"]
    assert [function for _, _, function, _ in cells[2].frames] == ["<module>", "f"]
    assert [(cell.author, cell.agent_index, cell.edited) for cell in (cells[7], cells[8])] == [
        ("replay", None, True),
        ("codex", 0, False),
    ]
    assert (cells[1].removed, cells[4].removed) == ("hidden", "")
    assert transcript.pinned == [cells[2]]
    assert {"data", "total", "answer"} <= {row.name for row in rows.shown}
    assert [len(tree.nodes) for tree in searches] == [1, 5]


def test_old_session_can_be_continued(past: list[Record]) -> None:
    messages = load_messages(past)
    assert [(each.role, each.text) for each in messages[:3:2]] == [
        ("user", "Count the data"),
        ("assistant", "It is **6**."),
    ]
    assert "@a.png" in next(each for each in messages if each.text.startswith("what is")).context
    asked = [
        record
        for record in past
        if isinstance(record, records.UserAttachment) and record.data is not None
    ]
    assert [(record.mime, record.width, record.height) for record in asked] == [("image/png", 9, 9)]


def test_old_session_can_be_appended_to(sessions: Path) -> None:
    store = SqliteStore(sessions, SESSION)
    store.append(records.UserReplIn("1", cell=13, party="you"))
    assert store.output(1) == "a line\n[1, 2, 3]\n"
    assert store.output(12) == "begun\n"
    assert len(store.pictures(3)) == 1
    store.close()
    [row] = list_sessions(sessions)
    assert (row.id, row.first) == (SESSION, "data = [1, 2, 3] print('a line') data")
    assert load_records(sessions, SESSION).records[-1][1].text == "1"


def test_old_session_is_found_once_indexed(sessions: Path) -> None:
    list_sessions(sessions)
    assert find_sessions(sessions, "count").hits == []
    assert catch_up(sessions, 60.0) == 0
    [hit] = find_sessions(sessions, "count data").hits
    assert (hit.session.id, hit.session.title) == (SESSION, "Count the data")


def test_the_log_of_a_search_is_read() -> None:
    tree = Tree("")
    for record in read_log(WRITTEN / "search.jsonl"):
        tree.fold(record)
    assert tree.root is not None
    assert (tree.root.state, tree.root.answer, len(tree.nodes)) == (
        "done",
        "five and five and five and five",
        5,
    )
    assert tree.used.calls == 2
