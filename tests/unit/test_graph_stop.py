"""Stopping a turn, whatever it is doing; what was said stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.agent.repl_agent import ReplAgent
from tests import tags
from tests.agents import COMPLETE, Desk, code, words


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()


def test_stop_while_streaming(desk: Desk) -> None:
    agent = ReplAgent(
        desk.host,
        desk.replay(words("one two three " * 1_000, tokens_per_second=200), words("Again.")),
    )
    desk.when(tags.ASSISTANT_CHAT_STREAM, lambda record: agent.stop(), text="three")
    reply = agent.ask_sync("count")
    assert reply.startswith("one two three")
    assert len(reply) < 1_000
    (answer,) = desk.of(tags.ASSISTANT_CHAT)
    assert (answer.text.strip(), answer.attrs["stopped"]) == (reply, True)
    assert desk.doings() == ["thinking", "stopped"]
    assert str(agent.messages[-1].text).endswith("[The person stopped this answer here.]")
    assert agent.ask_sync("go on") == "Again."


def test_code_of_a_stopped_answer_does_not_run(desk: Desk) -> None:
    agent = ReplAgent(
        desk.host,
        desk.replay(
            code("a = 1")
            | {"text": "```python\na = 1\n```\n" + "and " * 500, "tokens_per_second": 500}
        ),
    )
    desk.when(tags.ASSISTANT_CHAT_STREAM, lambda record: agent.stop(), text="and", kind="chat")
    agent.ask_sync("count")
    assert "a" not in desk.namespace
    assert desk.of(tags.APPROVAL) == []


def test_stop_while_a_block_waits_for_approval(desk: Desk) -> None:
    agent = ReplAgent(desk.host, desk.replay(code("a = 1")))
    desk.host.info.approval = "ask"
    desk.when(tags.APPROVAL, lambda record: agent.stop(), state="waiting")
    agent.ask_sync("count")
    assert "a" not in desk.namespace
    assert desk.approvals() == ["waiting", "stopped"]
    assert desk.doings() == ["thinking", "stopped"]


def test_stop_while_code_runs(desk: Desk) -> None:
    agent = ReplAgent(desk.host, desk.replay(code("print('begun')\nwhile True: pass", "b = 2")))
    desk.when(tags.ASSISTANT_REPL_OUT_STREAM, lambda record: agent.stop(), text="begun")
    agent.ask_sync("count")
    (output,) = desk.of(tags.ASSISTANT_REPL_OUT)
    assert output.attrs["status"] == "interrupted"
    assert output.text.startswith("begun")
    assert desk.doings() == ["thinking", "stopped"]
    assert 'status="interrupted"' in str(agent.messages[-1].text)
    assert "b" not in desk.namespace


def test_stop_while_the_result_is_checked(desk: Desk) -> None:
    agent = ReplAgent(
        desk.host,
        desk.replay(code("a = 1"), COMPLETE | {"tokens_per_second": 50}),
        reflection="always",
    )
    desk.when(tags.AGENT, lambda record: agent.stop(), state="reflecting")
    agent.ask_sync("count")
    assert desk.doings() == ["thinking", "reflecting", "stopped"]
    assert desk.notices("warning")[1:] == [], "a check that was stopped is no check that failed"


def test_stop_before_the_first_token(desk: Desk) -> None:
    agent = ReplAgent(desk.host, desk.replay(words("It is 4.", tokens_per_second=1)))
    desk.when(tags.AGENT, lambda record: agent.stop(), state="thinking")
    assert agent.ask_sync("count") in ("", "It")
    assert desk.doings() == ["thinking", "stopped"]
    assert agent.messages[-1].text


def test_stop_applies_to_the_current_turn_only(desk: Desk) -> None:
    agent = ReplAgent(desk.host, desk.replay(words("It is 4.")))
    agent.stop()
    assert agent.ask_sync("count") == "It is 4."


def test_stopped_answer_is_stored_as_it_was_drawn(desk: Desk) -> None:
    agent = ReplAgent(desk.host, desk.replay(words("one two " * 500, tokens_per_second=2_000)))
    desk.when(tags.ASSISTANT_CHAT_STREAM, lambda record: agent.stop(), text="two")
    agent.ask_sync("count")
    drawn = "".join(record.text for record in desk.of(tags.ASSISTANT_CHAT_STREAM))
    assert drawn
    assert drawn == desk.of(tags.ASSISTANT_CHAT)[0].text
    assert str(agent.messages[-1].text).startswith(drawn)
