"""Every answer that the person can give to a block that waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus.records import Decision
from tests import tags
from tests.agents import COMPLETE, Desk, code, words


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()


def test_run(desk: Desk) -> None:
    desk.decide(Decision("run"))
    desk.run(code("a = 1"), COMPLETE, words("Done."))
    assert desk.namespace["a"] == 1
    waiting, decided = desk.of(tags.APPROVAL)
    assert waiting.text == decided.text == "a = 1"
    assert waiting.attrs == {
        "request": "1.0.0",
        "turn": 1,
        "step": 0,
        "block": 0,
        "blocks": 1,
        "party": "replay",
        "state": "waiting",
        "reason": "",
    }
    assert decided.attrs == waiting.attrs | {"state": "run"}


def test_waiting_block_appears_under_its_streamed_code_and_runs_as_it(desk: Desk) -> None:
    desk.decide(Decision("run"), Decision("run"))
    desk.run(code("a = 1", "b = 2"), COMPLETE, words("Done."))
    drawn = {
        (r.attrs["step"], r.attrs["block"])
        for r in desk.of(tags.ASSISTANT_CHAT_STREAM)
        if r.attrs["kind"] == "code"
    }
    ran = {(r.attrs["step"], r.attrs["block"]) for r in desk.of(tags.ASSISTANT_REPL_IN)}
    assert drawn == ran == {(0, 0), (0, 1)}


def test_edited_code_runs_and_the_model_sees_the_edit(desk: Desk) -> None:
    desk.decide(Decision("run", code="a = 2"))
    state = desk.run(code("a = 1"), COMPLETE, words("Done."))
    assert desk.namespace["a"] == 2
    assert desk.approvals() == ["waiting", "edited"]
    assert desk.of(tags.APPROVAL)[1].text == "a = 2"
    sent = str(state["messages"][2].text)
    assert "The person edited block 1 of your code." in sent
    assert '<assistant-repl-in cell="1">a = 2</assistant-repl-in>' in sent


def test_code_edited_back_to_the_original_is_not_edited(desk: Desk) -> None:
    desk.decide(Decision("run", code="a = 1"))
    state = desk.run(code("a = 1"), COMPLETE, words("Done."))
    assert desk.approvals() == ["waiting", "run"]
    assert "edited" not in str(state["messages"][2].text)


def test_skip_sends_the_reason_to_the_model_and_it_answers(desk: Desk) -> None:
    desk.decide(Decision("skip", reason="not on Sundays"))
    state = desk.run(
        code("a = 1"),
        words("Then not.", match=r"The person skipped this code \(block 1\): not on Sundays"),
    )
    assert "a" not in desk.namespace
    assert desk.approvals() == ["waiting", "skipped"]
    assert desk.of(tags.APPROVAL)[1].attrs["reason"] == "not on Sundays"
    assert state["current_response"] == "Then not."
    assert desk.doings() == ["thinking", "thinking", "done"], "there is nothing to check"


def test_one_block_of_several_is_skipped(desk: Desk) -> None:
    desk.decide(Decision("run"), Decision("skip"), Decision("run"))
    desk.run(
        code("a = 1", "b = 2", "c = 3"),
        words("Without b, then.", match=r"skipped this code \(block 2\)\."),
    )
    assert (desk.namespace["a"], desk.namespace["c"]) == (1, 3)
    assert "b" not in desk.namespace
    assert [
        (r.attrs["block"], r.attrs["blocks"], r.attrs["state"]) for r in desk.of(tags.APPROVAL)
    ] == [
        (0, 3, "waiting"),
        (0, 3, "run"),
        (1, 3, "waiting"),
        (1, 3, "skipped"),
        (2, 3, "waiting"),
        (2, 3, "run"),
    ]


def test_user_who_skips_everything_is_not_asked_forever(desk: Desk) -> None:
    desk.decide(*[Decision("skip")] * 2)
    state = desk.run(
        code("a = 1"), code("a = 2"), words("I give up.", match="used all . runs"), max_turns=2
    )
    assert state["current_response"] == "I give up."


def test_stop_ends_the_turn(desk: Desk) -> None:
    desk.decide(Decision("run"), Decision("stop"))
    state = desk.run(code("a = 1", "b = 2"))
    assert desk.namespace["a"] == 1
    assert "b" not in desk.namespace
    assert desk.approvals() == ["waiting", "run", "waiting", "stopped"]
    assert desk.doings() == ["thinking", "stopped"]
    assert state["stopped"]
    assert '<assistant-repl-out cell="1" status="ok">' in str(state["messages"][-1].text)
    assert str(state["messages"][-1].text).endswith("The person stopped the turn here.")


def test_all_runs_this_and_every_later_block_without_asking(desk: Desk) -> None:
    desk.decide(Decision("all"))
    desk.run(code("a = 1", "b = 2"), COMPLETE, words("Done."))
    assert desk.namespace["b"] == 2
    assert desk.approvals() == ["waiting", "run"]
    assert desk.host.info.approval == "auto"


def test_auto_never_waits_and_warns_once_about_permissions(desk: Desk) -> None:
    for _ in range(2):
        desk.run(code("a = 1"), COMPLETE, words("Done."))
    assert desk.approvals() == []
    assert sum("your permissions" in text for text in desk.notices("warning")) == 1
