"""Sessions are found by their texts, for any query and any content of the file."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.values import Change, NotRestored, Variable
from mahtab_tui.store.session_index import find_sessions
from mahtab_tui.store.session_list import SessionRow, list_sessions
from mahtab_tui.store.session_preview import MAX_PREVIEW_TEXT_CHARS, preview_records
from mahtab_tui.store.session_removal import delete_records
from mahtab_tui.store.session_titles import rename_session
from mahtab_tui.store.session_words import RECORDS_PER_STEP, catch_up, words
from mahtab_tui.store.sqlite import SqliteStore, fork_session
from tests.unit.sqlite_sessions import spoil

HOSTILE = [
    *('"', "*", "NEAR(a b)", "a AND", "NOT b", "text:a", "{text}: a", "^a", "a + b"),
    *("'; drop table record; --", "-a", "(", "\ud800", "%", "_"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


def cell(
    number: int, code: str, output: str = "", *, private: tuple[str, ...] | None = None
) -> list[Record]:
    at = 1000.0 + number
    return [
        records.UserReplIn(code, cell=number, time=at),
        records.UserReplOut(output, cell=number, status="ok", private=private, time=at),
    ]


def save(path: Path, session: str, *saved_records: Record, project: str = "/p") -> None:
    store = SqliteStore(path, session, name="n", project=project)
    for record in saved_records:
        store.append(record)
    store.close()


def question(text: str, turn: int = 1, at: float = 1.0) -> Record:
    return records.UserChat(text, turn=turn, time=at)


def found(path: Path, typed: str, project: str | None = None) -> list[str]:
    assert catch_up(path, 60.0) == 0
    return [hit.session.id for hit in find_sessions(path, typed, project).hits]


def listed(path: Path) -> list[SessionRow]:
    assert catch_up(path, 60.0) == 0
    return list_sessions(path)


def index_rows(path: Path) -> int:
    with closing(sqlite3.connect(path.with_name("sessions-words.db"))) as connection:
        (count,) = connection.execute("select count(*) from word").fetchone()
    return int(count)


def test_every_kind_of_entry_is_found_at_once(path: Path) -> None:
    save(
        path,
        "asked",
        question("How is the Weather?"),
        records.AssistantChat("Rather foggy.", turn=1, step=0, party="m", time=2.0),
    )
    save(path, "ran", *cell(1, "frame = read_csv('storms.csv')", "3 hurricanes\n"))
    for typed in ("weather", "FOGGY"):
        assert found(path, typed) == ["asked"]
    for typed in ("storms read_csv", "hurric"):
        assert found(path, typed) == ["ran"]
    for typed in ("hurric 3", "weather hurricanes", "nothing"):
        assert found(path, typed) == []
    [hit] = find_sessions(path, "hurric").hits
    assert hit.excerpt == "3 hurricanes"
    assert (hit.session.project, hit.record) == ("/p", 2)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Größe in Zürich", "GROSSE zur"),
        ("naïve café", "naive cafe\u0301"),
        ("\x1b[31mred\x1b[0mdish", "reddish"),
        ("a\0nul", "anul"),
        ("lone \ud800 surrogate", "surrogate lone"),
        ("日本語の表", "本語"),
        ("df.groupby('Month').sum()", "groupby month sum"),
        ("x" * 300, "x" * 300),
        ("ﬁne ½", "fine"),
    ],
)
def test_words_are_found_in_any_script_case_and_normal_form(
    path: Path, text: str, typed: str
) -> None:
    save(path, "s", question(text))
    save(path, "other", question("something else"))
    assert found(path, typed) == ["s"]


def test_search_text_is_never_parsed_as_a_query(path: Path) -> None:
    save(path, "s", question("near not and text a b drop table record"))
    for typed in HOSTILE:
        assert found(path, typed) == (["s"] if words(typed).strip() else []), typed


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(typed=st.text(st.characters(), max_size=40))
def test_any_text_finds_itself(tmp_path_factory: pytest.TempPathFactory, typed: str) -> None:
    path = tmp_path_factory.mktemp("any") / "sessions.db"
    save(path, "s", question(typed))
    assert found(path, typed) == (["s"] if words(typed).strip() else [])


def test_newest_hits_come_first_and_omitted_ones_are_noted(path: Path) -> None:
    for number in range(5):
        save(
            path,
            f"s{number}",
            question("apples", at=float(number)),
            question("apples", 2, at=10.0 + (7 * number) % 5),
        )
    assert catch_up(path, 60.0) == 0
    outcome = find_sessions(path, "apples", limit=3)
    assert len(outcome.hits) == 3
    assert outcome.more
    times = [hit.session.last for hit in outcome.hits]
    assert times == sorted(times, reverse=True)
    all_hits = find_sessions(path, "apples")
    assert [hit.session.id for hit in all_hits.hits] == [row.id for row in list_sessions(path)]
    assert not all_hits.more


def test_folder_has_its_own_sessions(path: Path) -> None:
    save(path, "here", question("apples"), project="/here")
    save(path, "there", question("apples"), project="/there")
    assert found(path, "apples", "/there") == ["there"]
    assert found(path, "there") == ["there"]  # by the folder's name


def test_first_question_is_the_title_until_renamed(path: Path) -> None:
    first_question = question("\n  Which   month\x1b[1m?\nIn short.")
    save(path, "s", *cell(1, "import pandas"), first_question, question("And then?", 2))
    [row] = listed(path)
    assert (row.title, row.heading) == ("", "Which month\x1b[1m? In short.")
    rename_session(path, "s", "Sales\nof the year")
    assert listed(path)[0].title == "Sales"
    assert found(path, "sales") == ["s"]
    rename_session(path, "s", "Profits")
    assert [found(path, typed) for typed in ("sales", "profits", "month")] == [[], ["s"], ["s"]]
    save(path, "s", question("later", 3))
    assert listed(path)[0].title == "Profits"


def test_deleting_a_session_leaves_nothing_of_it_in_the_index(path: Path) -> None:
    save(path, "other", question("apples"))
    cell_records = [
        record
        for number in range(RECORDS_PER_STEP)
        for record in cell(number, f"pears{number}", "plums")
    ]
    save(path, "gone", question("apples"), *cell_records, question("grapes", 2))
    assert found(path, "pears77") == found(path, "plums") == ["gone"]
    delete_records(path, "gone")
    assert index_rows(path) == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from record").fetchone() == (1,)
    save(path, "new", question("bananas"))  # it may have the number of a deleted record
    assert (found(path, "apples"), found(path, "bananas")) == (["other"], ["new"])


def test_sessions_are_indexed_in_steps_with_a_note_until_done(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in ("a", "b"):
        cells = (record for number in range(150) for record in cell(number, f"x{number}"))
        save(path, session, question(f"apples {session}"), *cells)
    assert [row.heading for row in list_sessions(path)] == ["apples b", "apples a"]
    assert find_sessions(path, "apples").hits == []
    assert catch_up(path, 0.0) == 2
    ticks = iter([0.0] * 5 + [100.0] * 100)
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(ticks))
        assert catch_up(path, 1.0) == 2
    assert sorted(found(path, "apples")) == ["a", "b"]
    save(path, "a", question("plums", 3))
    assert found(path, "plums") == ["a"]


def test_copy_has_the_title(path: Path) -> None:
    save(path, "s", question("apples"), question("pears", 2))
    rename_session(path, "s", "The harvest")
    fork_session(path, "s", "copy")
    fork_session(path, "s", "part", before=2)
    assert {row.id: row.heading for row in listed(path)} == {
        "s": "The harvest",
        "copy": "The harvest",
        "part": "apples",
    }
    assert found(path, "harvest") == ["copy", "s"]


def test_cells_that_use_a_private_variable_are_neither_found_nor_previewed(path: Path) -> None:
    private = records.Private(name="salaries", private=True, cells=(1,), time=5.0)
    records_before = (*cell(1, "salaries = load()", "51234 euros"), *cell(2, "other = 'visible'"))
    records_after = cell(3, "salaries.sum()", "987654", private=("salaries",))
    save(path, "s", *records_before, private, *records_after)
    for typed in ("51234", "987654", "salaries"):
        assert found(path, typed) == []
    assert found(path, "visible") == ["s"]
    preview_text = "\n".join(record.text for record in preview_records(path, "s"))
    assert "visible" in preview_text
    assert not any(text in preview_text for text in ("51234", "987654", "load()"))
    save(path, "s", records.Private(name="salaries", private=False, time=6.0))
    assert found(path, "51234") == ["s"]
    assert found(path, "987654") == []  # an output that was private when it came is in no index


def test_a_cell_that_uses_a_private_variable_names_no_session(path: Path) -> None:
    save(path, "s", *cell(1, "pin = 12345678"), *cell(2, "x = 1"))
    assert [row.first for row in listed(path)] == ["pin = 12345678"]
    save(path, "s", records.Private(name="pin", private=True, cells=(1,)))
    assert [row.first for row in listed(path)] == ["x = 1"]
    save(path, "s", records.Private(name="x", private=True, cells=(2,)))
    assert [row.first for row in listed(path)] == [""]
    save(path, "s", *cell(4, "pin + 1", private=("pin",)))
    assert [row.first for row in listed(path)] == [""]
    save(path, "s", *cell(3, "y = 2"))
    assert [row.first for row in listed(path)] == ["y = 2"]
    save(path, "s", records.Private(name="pin", private=False))
    assert [row.first for row in listed(path)] == ["pin = 12345678"]
    save(path, "s", question("Why?"), records.Private(name="pin", private=True, cells=(1,)))
    assert [row.first for row in listed(path)] == ["Why?"]


def test_long_outputs_are_indexed_by_their_start_and_end(path: Path) -> None:
    filler = "filler " * 100_000
    save(path, "s", *cell(1, "go()", f"alpha {filler} middle {filler} omega"))
    assert [found(path, typed) for typed in ("alpha", "omega", "middle")] == [["s"], ["s"], []]


def test_preview_shows_the_start_and_end_of_long_texts(path: Path) -> None:
    text = "beginning " + "x" * 1_000_000 + " end"
    answer = records.AssistantChat(text, turn=1, step=0, party="m", time=2.0)
    save(path, "s", question(text), answer, *cell(1, text, text))
    previewed_records = preview_records(path, "s")
    tags = [record.tag for record in previewed_records]
    assert tags == ["user-chat", "assistant-chat", "user-repl-in", "user-repl-out"]
    for record in previewed_records:
        assert (record.text[:9], record.text[-3:]) == ("beginning", "end")
        assert "\n…\n" in record.text
        assert len(record.text) <= MAX_PREVIEW_TEXT_CHARS


def test_preview_counts_the_records_before_and_after_it(path: Path) -> None:
    questions = [question(f"number {number}", number) for number in range(1, 303)]
    save(path, "s", *questions)
    first, *_, last = preview_records(path, "s")
    assert (first.text, last.text) == ("Earlier records not shown here: 2.", "number 302")
    first, *_, last = preview_records(path, "s", around_record=151)
    assert (first.text, last.text) == (
        "Earlier records not shown here: 1.",
        "Later records not shown here: 1.",
    )


def test_preview_of_a_review_does_not_name_private_variables(path: Path) -> None:
    private = records.Private(name="salaries", private=True, cells=(1,), time=5.0)
    variables = [Variable(name, "list", "3 items", "data") for name in ("salaries", "other")]
    review = records.Review(
        request="r",
        state="waiting",
        changes=tuple(Change(variable.name, "added", variable) for variable in variables),
        not_restored=(NotRestored("salaries", "It is a lock."), NotRestored("other", "A file.")),
        time=6.0,
    )
    save(path, "s", private, review)
    *_, visible_review = preview_records(path, "s")
    assert isinstance(visible_review, records.Review)
    assert [change.name for change in visible_review.changes] == ["other"]
    assert visible_review.not_restored == (NotRestored("other", "A file."),)


def test_damaged_index_is_made_again(path: Path) -> None:
    save(path, "s", question("apples"))
    assert found(path, "apples") == ["s"]
    path.with_name("sessions-words.db").write_bytes(b"no database" * 1_000)
    find_sessions(path, "apples")
    assert found(path, "apples") == ["s"]
    assert [row.id for row in list_sessions(path)] == ["s"]


def test_index_of_a_replaced_database_is_made_again(path: Path) -> None:
    save(path, "old", question("apples"), question("pears", 2))
    assert found(path, "pears") == ["old"]
    for leave in (Path.unlink, lambda path: path.rename(path.with_name("moved"))):
        leave(path)
        save(path, "new", question("pears"))
        assert (found(path, "pears"), found(path, "apples"), index_rows(path)) == (["new"], [], 1)


def test_unreadable_records_are_counted(path: Path) -> None:
    save(path, "s", question("apples"), question("pears", 2))
    assert found(path, "apples") == ["s"]
    spoil(path, "update record set attrs = '{', text = x'ff00fe' where number = 1")
    spoil(path, "update session set first = x'ff', name = 5")
    rename_session(path, "s", "mine")
    spoil(path, "update digest set title = x'ff'")
    assert found(path, "pears") == ["s"]
    assert preview_records(path, "s")[-1].text == "Records that cannot be read: 1."
    assert found(path, "apples") == []
    delete_records(path, "s")


def test_title_given_while_the_session_is_open_stays(path: Path) -> None:
    store = SqliteStore(path, "s", name="n", project="/p")
    with pytest.raises(StoreError, match="Nothing of this session is saved yet"):
        rename_session(path, "s", "Early")
    store.append(cell(1, "first = 1")[0])
    with pytest.raises(StoreError, match="Nothing of this session is saved yet"):
        rename_session(path, "other", "Other")
    rename_session(path, "s", "Mine")
    store.append(question("A question?"))
    store.close()
    assert listed(path)[0].title == "Mine"
    assert (found(path, "mine"), found(path, "question")) == (["s"], ["s"])
    delete_records(path, "s")
    assert index_rows(path) == 0
