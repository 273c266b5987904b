"""The approval mode review: the model's code runs at once, and its changes wait until the user
keeps or undoes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.conversation import Cell
from mahtab_tui.bus.records import Decision
from mahtab_tui.session.agent_calls import AgentCall, AgentCalls
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.agents import Desk, code
from tests.integration.sessions import Opened

APPEND = "One step.\n\n```python\nitems.append(2)\ndel old\nnew = 'three'\n```\n"
TWO = "Two steps.\n\n```python\nitems.append(2)\n```\n\n```python\nitems.append(3)\n```\n"


def ask(it: Opened, setup: str = "items = [1]; old = 1") -> None:
    it.run(setup)
    it.session.submit("ask", "change it")


def waiting(it: Opened, cells: tuple[int, ...] = (2,)) -> records.Review:
    review = it.store.wait(tags.REVIEW, state="waiting", cells=list(cells))
    assert isinstance(review, records.Review)
    return review


def end(it: Opened, state: str = "done") -> None:
    it.store.wait(tags.AGENT, state=state)
    while it.session.turn_runs:
        time.sleep(0.001)


def reviews(it: Opened) -> list[str]:
    return [record.state for record in it.store.records if isinstance(record, records.Review)]


def test_reviewed_changes_are_shown_and_accepted(open_session: Callable[..., Opened]) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    review = waiting(it)
    assert [
        (row.name, row.change, row.type, row.summary, row.was) for row in sorted(review.changes)
    ] == [
        ("items", "changed", "list", "2 items", "1 item"),
        ("new", "added", "str", "'three'", None),
        ("old", "deleted", "int", "1", None),
    ]
    assert review.not_restored == ()
    assert it.session.decide(review.request, Decision("keep"))
    end(it)
    assert reviews(it) == ["waiting", "kept"]
    assert it.value("items, new, 'old' in globals()") == "([1, 2], 'three', False)"
    assert not any(record.tag in (tags.APPROVAL, tags.USER_UNDO) for record in it.store.records)


def test_undone_changes_are_reported_to_the_model_and_later_blocks_skipped(
    open_session: Callable[..., Opened],
) -> None:
    expected = r"The person undid this code \(block 1\) after it had run: not so(.|\n)*Block 2 of your code was not run, because the one before it was undone"
    it = open_session(TWO, {"text": "Then not.", "match": expected}, approval="review")
    ask(it)
    it.session.decide(waiting(it).request, Decision("undo", reason="not so"))
    end(it)
    it.store.wait(tags.ASSISTANT_CHAT, text="Then not.")
    assert reviews(it) == ["waiting", "undone"]
    undone = it.store.wait(tags.USER_UNDO)
    assert isinstance(undone, records.Undo)
    assert undone.cells == (2,)
    assert it.value("items") == "[1]"
    transcript = Transcript(0.0)
    transcript.fold(it.store.records)
    assert [
        entry.undone
        for entry in transcript.entries
        if isinstance(entry, Cell) and entry.number == 2
    ] == [True]


def test_each_block_is_reviewed_and_keep_all_ends_reviews(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(TWO, "Done.", approval="review")
    ask(it)
    it.session.decide(waiting(it).request, Decision("all"))
    end(it)
    assert (reviews(it), it.session.approval) == (["waiting", "kept"], "auto")
    assert it.value("items") == "[1, 2, 3]"


def test_stop_keeps_the_changes_which_can_still_be_undone(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(TWO, "Never said.", approval="review")
    ask(it)
    it.session.decide(waiting(it).request, Decision("stop"))
    end(it, "stopped")
    assert reviews(it) == ["waiting", "stopped"]
    assert it.value("items") == "[1, 2]"
    it.session.undo.undo(2)
    assert it.value("items") == "[1]"


def test_escape_outside_the_row_stops_the_turn_and_withdraws_the_question(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(TWO, "Never said.", approval="review")
    ask(it)
    waiting(it)
    assert it.session.stop() == "model"
    end(it, "stopped")
    assert reviews(it) == ["waiting", "stopped"]
    assert it.value("items") == "[1, 2]"


@pytest.mark.parametrize("block", ["1 + 1", "print(len(items))", "items[:]"])
def test_cell_without_changes_needs_no_review(
    open_session: Callable[..., Opened], block: str
) -> None:
    it = open_session(f"Look.\n\n```python\n{block}\n```\n", "Done.", approval="review")
    ask(it)
    end(it)
    assert reviews(it) == []


def test_external_side_effects_are_named_in_the_review(open_session: Callable[..., Opened]) -> None:
    hidden = "import os\ngetattr(os, 'mk' + 'dir')('made')"
    it = open_session(f"Make.\n\n```python\n{hidden}\n```\n", "Done.", approval="review")
    ask(it)
    review = waiting(it)
    assert [(each.name.rpartition("/")[2], each.reason) for each in review.not_restored] == [
        ("made", "this folder was created and stays")
    ]
    it.session.decide(review.request, Decision("keep"))
    end(it)


def test_cell_run_meanwhile_is_shown_before_both_are_undone(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(APPEND, "Then not.", approval="review")
    ask(it)
    request = waiting(it).request
    it.run("mine = 5")
    it.session.decide(request, Decision("undo"))
    review = waiting(it, (2, 3))
    assert "mine" in [row.name for row in review.changes]
    assert it.value("mine") == "5", "nothing was undone yet"
    it.session.decide(request, Decision("undo"))
    review = waiting(it, (2, 3, 4))
    it.session.decide(request, Decision("undo"))
    end(it)
    assert it.value("items, 'mine' in globals()") == "([1], False)"


def test_undo_during_another_cell_is_refused_and_asks_again(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    request = waiting(it).request
    it.session.submit("python", "import time\ntime.sleep(600)")
    it.store.wait(tags.USER_REPL_IN, cell=3)
    it.session.decide(request, Decision("undo"))
    review = waiting(it, (2, 3))
    assert review.changes == ()
    assert review.not_restored[0].reason.startswith("The changes are unknown. A cell is running.")
    it.session.decide(request, Decision("undo"))
    it.store.wait(tags.NOTICE, level="error")
    it.session.decide(request, Decision("keep"))
    end(it)
    assert reviews(it)[-2:] == ["waiting", "kept"]
    while not it.session.kernel.interrupt():
        time.sleep(0.001)
    it.store.wait(tags.USER_REPL_OUT, cell=3)
    assert it.value("items") == "[1, 2]"


def test_undo_from_elsewhere_is_refused_during_a_review(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    review = waiting(it)
    with pytest.raises(Exception, match="Something is running"):
        it.session.undo.undo(2)
    it.session.decide(review.request, Decision("keep"))
    end(it)


def test_all_code_asks_first_when_undo_is_off(open_session: Callable[..., Opened]) -> None:
    it = open_session(APPEND, "Done.", approval="review", undo_steps=0)
    ask(it)
    asked = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(asked, records.Approval)
    assert asked.why == "undo is off (undo_steps is 0)"
    it.session.decide(asked.request, Decision("run"))
    end(it)
    assert reviews(it) == []


def test_code_awaited_by_a_cell_asks_first(open_session: Callable[..., Opened]) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    it.run("items = [1]; old = 1")
    it.session.submit("python", "answer = ask('change it')")
    asked = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(asked, records.Approval)
    assert asked.why == "another cell waits for this answer"
    it.session.decide(asked.request, Decision("run"))
    it.store.wait(tags.USER_REPL_OUT, cell=2)


def test_in_process_kernel_asks_first(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.decide(Decision("run"))
    desk.host.info.approval = "review"
    desk.run(code("a = 1"), {"text": "Done."}, reflection="never")
    asked = desk.of(tags.APPROVAL)[0]
    assert (
        asked.attrs["why"]
        == "the kernel cannot be forked, because it runs inside the program that opened this session"
    )
    assert desk.namespace["a"] == 1
    desk.session.close()


def test_kernel_reset_during_a_review_leaves_nothing_to_undo(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    request = waiting(it).request
    it.session.kernel.reset()
    it.session.decide(request, Decision("undo"))
    it.store.wait(tags.NOTICE, level="error")
    it.session.decide(request, Decision("keep"))
    end(it)
    assert reviews(it)[-2:] == ["waiting", "kept"]


def test_code_with_hidden_characters_is_refused(open_session: Callable[..., Opened]) -> None:
    it = open_session(
        "Look.\n\n```python\nitems.append('\x1bP')\n```\n", "Done.", approval="review"
    )
    ask(it)
    it.store.wait(tags.APPROVAL, state="refused")
    end(it)
    assert (reviews(it), it.value("items")) == ([], "[1]")


def test_agent_code_asks_first(open_session: Callable[..., Opened]) -> None:
    it = open_session(approval="review")
    it.run("items = [1]")
    agent = it.session.joined_agents.join("codex", lambda sentence: None, None)
    answers: list[object] = []
    serve = AgentCalls(it.session).serve
    thread = threading.Thread(
        target=lambda: answers.append(
            serve(agent, AgentCall(lambda message: None), "run", {"code": "items.append(2)"})
        )
    )
    thread.start()
    asked = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(asked, records.Approval)
    assert asked.why == "changes of agents are not reviewed afterwards"
    it.session.decide(asked.request, Decision("run"))
    thread.join(60)
    assert (len(answers), reviews(it)) == (1, [])
