"""Notebook of a stored session, and the spelling of its lines."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus import records
from mahtab_tui.bus.codec import as_json, from_json
from mahtab_tui.bus.records import Record
from mahtab_tui.export.writing import preserve_lines
from mahtab_tui.store.resume import TAIL, database, find_session, new_store, resumed_store
from mahtab_tui.store.sqlite import list_sessions

OPENED = records.NotebookFile(
    "opened", file="/a.ipynb", digest="d", first=1, cells=1, kept=True, time=1.0
)
CELL: list[Record] = [
    records.NotebookCell("x", place=1, kind="code", time=1.0),
    records.NotebookOutput("1\n", place=1, kind="display", mime="text/html", data="<b>", time=1.0),
]

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "#%%\n", "# %%\n", "\n", "c\n"]), min_size=1, max_size=12
).map("".join)


def test_viewing_a_notebook_leaves_no_session(home: Path, project: Path) -> None:
    store, _, _ = new_store(project)
    for record in (OPENED, *CELL):
        store.append(record)
    assert list_sessions(database()) == []
    store.append(records.UserReplIn("x", cell=1, place=1, time=2.0))
    assert store.everything() == [OPENED, *CELL, records.UserReplIn("x", cell=1, place=1, time=2.0)]
    store.close()


def test_resumed_session_knows_its_notebook_however_old(home: Path, project: Path) -> None:
    store, _, _ = new_store(project)
    for record in (
        OPENED,
        *CELL,
        records.NotebookWritten(digest="e", time=2.0),
        records.NotebookWritten(digest="f", time=3.0),
    ):
        store.append(record)
    for number in range(TAIL):
        store.append(records.UserReplIn("x", cell=number, time=4.0))
    store.close()
    if store.claim is not None:
        store.claim.release()
    past = resumed_store(find_session(None, project))[2]
    assert [
        record
        for record in past
        if isinstance(record, records.NotebookFile | records.NotebookWritten)
    ] == [
        OPENED,
        records.NotebookWritten(digest="f", time=3.0),
    ]


def test_records_of_notebooks_are_read_as_they_were_written() -> None:
    for record in (
        OPENED,
        *CELL,
        records.NotebookWritten(digest="e", time=2.0),
        records.UserReplOut("", cell=1, place=3, time=1.0),
    ):
        assert from_json(as_json(record)) == record


@given(LINES, LINES, LINES)
def test_unchanged_source_keeps_its_spelling(original: str, read: str, now: str) -> None:
    assert preserve_lines(original, read, read) == original
    assert preserve_lines(read, read, now) == now
    assert preserve_lines(original, read, f"{read}new\n") == f"{original}new\n"


def test_long_texts_are_not_compared() -> None:
    assert preserve_lines("a\n" * 4_000, "b\n" * 4_000, "c\n") == "c\n"


def test_inserted_line_of_the_author_stays_once_among_new_lines() -> None:
    assert preserve_lines("a\nX\nb\n", "a\nb\n", "a\nNEW\nb\n") == "a\nNEW\nX\nb\n"
