"""Undo in a session: what the bus, the model and the namespace's authors know of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.conversation import Cell, Note
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.integration.sessions import Opened

TWICE = "Two steps.\n\n```python\nitems.append(2)\n```\n\n```python\nitems.append(3)\n```\n"
COMPLETE = {
    "text": '{"is_complete": true, "reasoning": "", "next_action": ""}',
    "match": "is_complete",
}


def test_undo_is_reported_to_the_panes_the_model_and_the_store(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session()
    it.run("items = [1]; kept = 1", "items.append(2); new = 5")
    it.session.undo.undo(2)
    undone = it.store.wait(tags.USER_UNDO)
    assert isinstance(undone, records.Undo)
    assert (undone.cells, undone.undone) == ((2,), True)
    reported = [
        record
        for record in it.store.records
        if isinstance(record, records.Namespace) and record.restored
    ]
    assert [
        (record.party, record.cell, [change.name for change in record.changes])
        for record in reported
    ] == [
        ("you", 1, ["items"]),
        ("you", 0, ["new"]),
    ]
    author = it.session.cells.provenance.author("items")
    assert author is not None
    assert author.cell == 1
    transcript, prompt = Transcript(0.0), PromptHandler()
    transcript.fold(it.store.records)
    prompt.resume(it.store.records)
    assert [entry.undone for entry in transcript.entries if isinstance(entry, Cell)] == [
        False,
        True,
    ]
    assert [entry.text for entry in transcript.entries if isinstance(entry, Note)] == [undone.text]
    assert f'<user-undo undone="true">{undone.text}</user-undo>' in prompt.get_context()
    assert it.value("items, 'new' in globals()") == "([1], False)"


def test_an_answer_with_two_cells_is_undone_in_one_step(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(TWICE, COMPLETE, "Done.", approval="auto")
    it.run("items = [1]")
    it.session.submit("ask", "add two")
    it.store.wait(tags.AGENT, state="done")
    while it.session.turn_runs:
        time.sleep(0.001)
    assert it.session.undo.last_step() == 2
    it.session.undo.undo(2)
    assert it.value("items") == "[1]"
    assert it.session.undo.cells_from(1) == (1, 4)


def test_redo_restores_names_and_authors_until_another_cell_runs(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session()
    it.run("items = [1]", "items.append(2)")
    it.session.undo.undo(2)
    it.session.undo.redo()
    author = it.session.cells.provenance.author("items")
    assert author is not None
    assert author.cell == 2
    assert it.value("items") == "[1, 2]"
    it.session.undo.undo(2)
    it.run("other = 1")
    with pytest.raises(KernelError):
        it.session.undo.redo()
    assert it.value("items") == "[1]"


def test_nothing_is_undone_during_a_cell_or_before_any_cell(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session()
    it.run()
    with pytest.raises(KernelError, match="nothing to undo"):
        it.session.undo.last_step()
    it.run("items = [1]")
    it.session.submit("python", "import time\ntime.sleep(600)")
    it.store.wait(tags.USER_REPL_IN, cell=2)
    with pytest.raises(KernelError, match="running"):
        it.session.undo.undo(1)
    while it.session.stop() != "cell":  # the kernel may not have the cell yet
        time.sleep(0.001)
    it.store.wait(tags.USER_REPL_OUT, cell=2)


def test_authors_are_right_after_an_undo_of_more_than_a_hundred_cells(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(undo_steps=200)
    it.run("items = []; other = 0", *[f"items.append({number})" for number in range(110)])
    it.session.undo.undo(3)
    who = it.session.cells.provenance.author
    assert (who("items"), who("other")) == (("you", 2, False), ("you", 1, False))
    it.session.undo.redo()
    assert who("items") == ("you", 111, False)
    assert it.value("len(items)") == "110"
