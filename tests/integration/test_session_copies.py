"""Copies of a saved session that begin as it was before a cell, and what is told of a long past."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store import resume
from mahtab_tui.store.resume import (
    database,
    find_session,
    fork,
    new_store,
    resumed_store,
    save_target,
)
from mahtab_tui.store.sqlite import SqliteStore, load_records
from tests.waiting import wait_for

TWICE = "Two steps.\n\n```python\nitems.append(2)\n```\n\n```python\nitems.append(3)\n```\n"
COMPLETE = '{"is_complete": true, "reasoning": "", "next_action": ""}'
OpenSaved = Callable[..., Session]


@pytest.fixture
def open_saved(project: Path) -> Iterator[OpenSaved]:
    """Open a session that is saved: a new one, or the one with an id. All are closed with the
    test."""
    opened: list[Session] = []
    replay = project / "replay.jsonl"
    replay.write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in (TWICE, COMPLETE, "Done.")), "utf-8"
    )

    def open_it(id: str = "", keep_namespace: bool = True) -> Session:
        settings = load_settings(
            model=f"replay:{replay}", approval="auto", keep_namespace=keep_namespace
        )
        store, name, past = (
            resumed_store(find_session(id, None), variables=True) if id else new_store(project)
        )
        keep = save_target(store.session, settings.keep_namespace_mb) if keep_namespace else None
        session = Session(
            settings,
            process_kernel(settings, keep),
            HeadlessFrontend(),
            store=store,
            name=name,
            past=past,
        )
        opened.append(session)
        session.start()
        wait_for(session.ready.done)
        return session

    yield open_it
    for session in opened:
        session.close()


def run(session: Session, *cells: str) -> None:
    for code in cells:
        session.cells.run(code)


def value(session: Session, expression: str) -> str:
    return session.cells.run(expression).output.strip()


def texts(id: str) -> list[str]:
    """Return the inputs of a session, and its notice about being a copy."""
    kinds = (records.UserReplIn, records.UserChat, records.Branch)
    return [
        record.text
        for _, record in load_records(database(), id).records
        if isinstance(record, kinds)
    ]


def test_copy_before_an_answer_excludes_the_question(open_saved: OpenSaved) -> None:
    session = open_saved()
    run(session, "items = [1]")
    session.submit("ask", "add two")
    wait_for(
        lambda: session.cells.last == 3 and not session.turn_runs and not session.cells.running
    )
    session.save()
    copy = fork(session.saved_id, "cell 3")
    assert texts(copy) == [
        "items = [1]",
        f"This session is a copy of {session.saved_id}, before cell 3.",
    ]
    again = open_saved(copy)
    assert value(again, "'items' in globals()") == "False"


def test_private_variable_is_private_in_every_copy_however_old_its_mark(
    open_saved: OpenSaved, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_saved()
    run(session, "pay = [1]", "pay.append(2)", "private('pay')")
    session.save()
    id = session.saved_id
    copy = fork(id, "cell 2")
    run(session, *(f"x{number} = {number}" for number in range(5)))
    session.close()
    store = session.backend.get().store
    assert isinstance(store, SqliteStore)
    assert store.claim is not None
    store.claim.release()
    monkeypatch.setattr(resume, "TAIL", 5)
    for each in (copy, id):
        hidden = HiddenEntries()
        for record in resumed_store(find_session(each, None))[2]:
            hidden.fold(record)
        assert hidden.private == {"pay"}


def test_resumed_session_counts_the_records_not_shown(
    open_saved: OpenSaved, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_saved()
    run(session, *(f"x{number} = {number}" for number in range(5)))
    session.save()
    row = find_session(fork(session.saved_id), None)

    def first_notice(tail: int) -> str:
        monkeypatch.setattr(resume, "TAIL", tail)
        store, _, past = resumed_store(row)
        assert store.claim is not None
        store.claim.release()
        return past[0].text

    assert "not shown" not in first_notice(row.records + 1)
    assert "1 earlier record is not shown here: /export writes all of them." in first_notice(
        row.records - 1
    )
    assert f"{row.records - 4:,} earlier records are not shown here" in first_notice(4)
