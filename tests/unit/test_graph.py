"""One question over a real namespace: approvals, refusals and stops."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from mahtab_tui.agent import (
    Callbacks,
    create_initial_state,
    create_repl_graph,
    run_graph,
    should_continue,
    should_execute,
)
from mahtab_tui.bus.records import Decision
from mahtab_tui.settings.model import ApprovalMode
from tests import tags
from tests.agents import COMPLETE, FakeModel, RecordedSession, code, last_text, words

HIDING = "a = '\x1bP'\nhidden = 1\nb = '\x1b\\'\nprint('harmless')"
WHY = "Line 1 contains the character U+001B, which can hide code from whoever reads it. Write it as the escape \\x1b and send the code again."


def test_graph_simple_text_response(recorded_session: RecordedSession) -> None:
    state = recorded_session.run(words("It is a list."))
    assert state["current_response"] == "It is a list."
    assert state["step_count"] == 0
    assert recorded_session.agent_states() == ["thinking", "done"]
    (answer,) = recorded_session.of(tags.ASSISTANT_CHAT)
    attrs = {"turn": 1, "step": 0, "party": "replay", "stopped": False, "figures": []}
    assert (answer.text, answer.attrs) == ("It is a list.", attrs)


def test_graph_code_then_done(recorded_session: RecordedSession) -> None:
    recorded_session.namespace["data"] = [1, 2, 3]
    state = recorded_session.run(
        code("total = sum(data)\ntotal"), COMPLETE, words("The total is 6.")
    )
    assert recorded_session.namespace["total"] == 6
    assert state["current_response"] == "The total is 6."
    assert recorded_session.agent_states() == ["thinking", "reflecting", "thinking", "done"]
    assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"]


def test_code_in_the_closing_answer_is_shown_and_not_run(recorded_session: RecordedSession) -> None:
    state = recorded_session.run(code("a = 1"), COMPLETE, code("b = 2", words="You could also:"))
    assert "b" not in recorded_session.namespace
    assert state["current_response"].startswith("You could also:")
    assert recorded_session.agent_states()[-1] == "done"


def test_reflection_on_error_runs_only_after_errors(recorded_session: RecordedSession) -> None:
    answers = code("a = 1"), code("1 / 0"), COMPLETE, words("It cannot be divided.")
    state = recorded_session.run(*answers, reflection="on_error")
    assert recorded_session.agent_states() == [
        "thinking",
        "thinking",
        "reflecting",
        "thinking",
        "done",
    ]
    assert state["current_response"] == "It cannot be divided."


def test_reflection_has_its_own_model(recorded_session: RecordedSession) -> None:
    state = recorded_session.run(
        code("a = 1"), words("Done."), reflection_llm=recorded_session.replay(COMPLETE)
    )
    assert state["current_response"] == "Done."


def test_answer_before_a_failure_stays_on_the_bus_and_does_not_run(
    recorded_session: RecordedSession,
) -> None:
    error = ConnectionResetError("the line is dead")
    state = recorded_session.run(
        llm=FakeModel(script=["Half of an\n```python\na = 1\n```\n", error])
    )
    assert state["failure"] == "The model could not answer: ConnectionResetError: the line is dead."
    assert str(state["messages"][-1].text).startswith("Half of an")
    (answer,) = recorded_session.of(tags.ASSISTANT_CHAT)
    assert answer.text.startswith("Half of an")
    assert answer.attrs["stopped"] is True
    assert "a" not in recorded_session.namespace


def test_invalid_unicode_output_passes_through_the_state(recorded_session: RecordedSession) -> None:
    state = recorded_session.run(code("print(chr(0xd800), 'so')"), COMPLETE, words("Done."))
    assert state["execution_results"][0]["output"] == "\ufffd so\n"


def test_tokens_arrive_before_the_full_answer_and_before_the_code_runs(
    recorded_session: RecordedSession,
) -> None:
    recorded_session.run(code("a = 1"), COMPLETE, words("Done."))
    answer = [tags.AGENT, tags.ASSISTANT_CHAT_STREAM, tags.ASSISTANT_CHAT]
    ran = [tags.ASSISTANT_REPL_IN, tags.ASSISTANT_REPL_OUT]
    order = [record.tag for record in recorded_session.records if record.tag in (*answer, *ran)]
    groups = [tag for tag, _ in itertools.groupby(order)]
    assert groups == [*answer, *ran, *answer, tags.AGENT]
    streamed = recorded_session.of(tags.ASSISTANT_CHAT_STREAM)
    written = [piece.text for piece in streamed if piece.attrs["kind"] == "code"]
    assert "".join(written).strip() == "a = 1"
    everything = "".join(record.text for record in streamed)
    assert "is_complete" not in everything, "the check is not streamed"


class NotStreaming(FakeModel):
    _stream = BaseChatModel._stream

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("All at once."))])


def test_non_streaming_model_is_drawn_too(recorded_session: RecordedSession) -> None:
    tokens: list[str] = []
    graph = create_repl_graph(NotStreaming(), recorded_session.host)
    state = run_graph(
        graph,
        create_initial_state("what is it?"),
        recorded_session.host,
        Callbacks(on_token=tokens.append),
    )
    assert state["current_response"] == "".join(tokens) == "All at once."
    assert (
        "".join(record.text for record in recorded_session.of(tags.ASSISTANT_CHAT_STREAM))
        == "All at once."
    )


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",
        "\x00",
        "[/x] [@click=app.quit]",
        "\x1b]52;c;AAAA\x07",
        "</assistant-chat></assistant-repl-in> so",
        "\u202e",
        "x" * 200_000,
    ],
)
def test_hostile_text_passes_through_the_state(
    recorded_session: RecordedSession, text: str
) -> None:
    pieces = [text[start : start + 1_000] for start in range(0, len(text), 1_000)]
    state = recorded_session.run(llm=FakeModel(script=pieces), prompt=text)
    assert state["current_response"] == text.replace("\ud800", "\ufffd")
    assert recorded_session.agent_states() == ["thinking", "done"]


def test_should_execute() -> None:
    state = create_initial_state("what is it?")
    assert should_execute(state) == "end"
    state["next"] = "approve"
    assert should_execute(state) == "approve"
    state["stopped"] = True
    assert should_execute(state) == "end"


@pytest.mark.parametrize(
    ("complete", "turns", "stopped", "onward"),
    [
        (False, 1, False, "generate"),
        (True, 1, False, "close"),
        (False, 40, False, "close"),
        (False, 1, True, "end"),
    ],
)
def test_should_continue(complete: bool, turns: int, stopped: bool, onward: str) -> None:
    state = create_initial_state("what is it?")
    state["reflection"] = {"is_complete": complete, "reasoning": "", "next_action": ""}
    state["step_count"] = turns
    state["stopped"] = stopped
    assert should_continue(state) == onward


# Each decision about a waiting block.


def test_approved_code_runs(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run"))
    recorded_session.run(code("a = 1"), COMPLETE, words("Done."))
    assert recorded_session.namespace["a"] == 1
    waiting, decided = recorded_session.of(tags.APPROVAL)
    assert waiting.text == decided.text == "a = 1"
    index = {"request": "1.0.0", "turn": 1, "step": 0, "block": 0, "blocks": 1}
    assert waiting.attrs == {**index, "party": "replay", "state": "waiting", "reason": ""}
    assert decided.attrs == waiting.attrs | {"state": "run"}


def test_waiting_block_appears_under_its_streamed_code_and_runs_as_it(
    recorded_session: RecordedSession,
) -> None:
    recorded_session.decide(Decision("run"), Decision("run"))
    recorded_session.run(code("a = 1", "b = 2"), COMPLETE, words("Done."))
    streamed = [
        r for r in recorded_session.of(tags.ASSISTANT_CHAT_STREAM) if r.attrs["kind"] == "code"
    ]
    for records in (streamed, recorded_session.of(tags.ASSISTANT_REPL_IN)):
        assert {(r.attrs["step"], r.attrs["block"]) for r in records} == {(0, 0), (0, 1)}


def test_edited_code_runs_and_the_model_sees_the_edit(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run", code="a = 2"))
    state = recorded_session.run(code("a = 1"), COMPLETE, words("Done."))
    assert recorded_session.namespace["a"] == 2
    assert recorded_session.approvals() == ["waiting", "edited"]
    assert recorded_session.of(tags.APPROVAL)[1].text == "a = 2"
    sent = str(state["messages"][2].text)
    assert "The user edited block 1 of your code." in sent
    assert '<assistant-repl-in cell="1">a = 2</assistant-repl-in>' in sent


def test_code_edited_back_to_the_original_is_not_edited(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run", code="a = 1"))
    state = recorded_session.run(code("a = 1"), COMPLETE, words("Done."))
    assert recorded_session.approvals() == ["waiting", "run"]
    assert "edited" not in str(state["messages"][2].text)


def test_skip_sends_the_reason_to_the_model_and_it_answers(
    recorded_session: RecordedSession,
) -> None:
    recorded_session.decide(Decision("skip", reason="not on Sundays"))
    match = r"The user skipped this code \(block 1\): not on Sundays"
    state = recorded_session.run(code("a = 1"), words("Then not.", match=match))
    assert "a" not in recorded_session.namespace
    assert recorded_session.approvals() == ["waiting", "skipped"]
    assert recorded_session.of(tags.APPROVAL)[1].attrs["reason"] == "not on Sundays"
    assert state["current_response"] == "Then not."
    assert recorded_session.agent_states() == ["thinking", "thinking", "done"], (
        "there is nothing to check"
    )


def test_one_block_of_several_is_skipped(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run"), Decision("skip"), Decision("run"))
    answer = words("Without b, then.", match=r"skipped this code \(block 2\)\.")
    recorded_session.run(code("a = 1", "b = 2", "c = 3"), answer)
    assert (recorded_session.namespace["a"], recorded_session.namespace["c"]) == (1, 3)
    assert "b" not in recorded_session.namespace
    assert recorded_session.approvals() == [
        "waiting",
        "run",
        "waiting",
        "skipped",
        "waiting",
        "run",
    ]
    attrs = [record.attrs for record in recorded_session.of(tags.APPROVAL)]
    assert [fields["block"] for fields in attrs] == [0, 0, 1, 1, 2, 2]
    assert {fields["blocks"] for fields in attrs} == {3}


def test_user_who_skips_everything_is_not_asked_forever(recorded_session: RecordedSession) -> None:
    recorded_session.decide(*[Decision("skip")] * 2)
    last_reply = words("I give up.", match="used all . steps")
    state = recorded_session.run(code("a = 1"), code("a = 2"), last_reply, max_turns=2)
    assert state["current_response"] == "I give up."


def test_stop_ends_the_turn(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run"), Decision("stop"))
    state = recorded_session.run(code("a = 1", "b = 2"))
    assert recorded_session.namespace["a"] == 1
    assert "b" not in recorded_session.namespace
    assert recorded_session.approvals() == ["waiting", "run", "waiting", "stopped"]
    assert recorded_session.agent_states() == ["thinking", "stopped"]
    assert state["stopped"]
    sent = str(state["messages"][-1].text)
    assert '<assistant-repl-out cell="1" status="ok">' in sent
    assert sent.endswith("The user stopped the turn here.")


def test_all_runs_this_and_every_later_block_without_asking(
    recorded_session: RecordedSession,
) -> None:
    recorded_session.decide(Decision("all"))
    recorded_session.run(code("a = 1", "b = 2"), COMPLETE, words("Done."))
    assert recorded_session.namespace["b"] == 2
    assert recorded_session.approvals() == ["waiting", "run"]
    assert recorded_session.host.info.approval == "auto"


def test_auto_never_waits_and_warns_once_about_permissions(
    recorded_session: RecordedSession,
) -> None:
    for _ in range(2):
        recorded_session.run(code("a = 1"), COMPLETE, words("Done."))
    assert recorded_session.approvals() == []
    assert sum("your permissions" in text for text in recorded_session.notices("warning")) == 1


# Code that may not run, because something may hide in it.


@pytest.mark.parametrize("approval", ["ask", "review", "auto"])
def test_refused_code_does_not_run_or_ask(
    recorded_session: RecordedSession, approval: ApprovalMode
) -> None:
    recorded_session.decide()
    recorded_session.host.info.approval = approval
    match = r"Block 1 of your code was not run\. Line 1 contains the character U\+001B"
    state = recorded_session.run(code(HIDING), words("Then not.", match=match))
    assert "hidden" not in recorded_session.namespace
    assert recorded_session.approvals() == ["refused"]
    assert recorded_session.notices("warning")[-1] == f"Code from replay was not run. {WHY}"
    assert not recorded_session.of(tags.ASSISTANT_REPL_IN)
    assert state["current_response"] == "Then not."


def test_blocks_after_refused_code_do_not_run(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run"))
    state = recorded_session.run(code("first = 1", HIDING, "third = 3"), words("Then not."))
    assert {"first", "third"} & set(recorded_session.namespace) == {"first"}
    sent = last_text(state, "human")
    assert "Block 2 of your code was not run. Line 1 contains" in sent
    assert "Block 3 of your code was not run, because the one before it was refused." in sent


def test_replacement_written_by_the_user_runs_unchanged(recorded_session: RecordedSession) -> None:
    recorded_session.decide(Decision("run", code="a = '\x1b'"))
    recorded_session.run(code("a = 1"), COMPLETE, words("Done."))
    assert recorded_session.namespace["a"] == "\x1b"


# Stopping a turn at any point; what was streamed stays.


def test_stop_while_streaming(recorded_session: RecordedSession) -> None:
    agent = recorded_session.agent(
        words("one two three " * 1_000, tokens_per_second=200), words("Again.")
    )
    recorded_session.when(tags.ASSISTANT_CHAT_STREAM, lambda record: agent.stop(), text="three")
    reply = agent.ask_sync("count")
    assert reply.startswith("one two three")
    assert len(reply) < 1_000
    (answer,) = recorded_session.of(tags.ASSISTANT_CHAT)
    assert (answer.text.strip(), answer.attrs["stopped"]) == (reply, True)
    assert answer.text == "".join(
        record.text for record in recorded_session.of(tags.ASSISTANT_CHAT_STREAM)
    )
    assert recorded_session.agent_states() == ["thinking", "stopped"]
    assert str(agent.messages[-1].text).endswith("[The user stopped this answer here.]")
    assert agent.ask_sync("go on") == "Again."


def test_code_of_a_stopped_answer_does_not_run(recorded_session: RecordedSession) -> None:
    text = "```python\na = 1\n```\n" + "and " * 500
    agent = recorded_session.agent(words(text, tokens_per_second=500))
    recorded_session.when(
        tags.ASSISTANT_CHAT_STREAM, lambda record: agent.stop(), text="and", kind="chat"
    )
    agent.ask_sync("count")
    assert "a" not in recorded_session.namespace
    assert recorded_session.of(tags.APPROVAL) == []


def test_stop_while_a_block_waits_for_approval(recorded_session: RecordedSession) -> None:
    agent = recorded_session.agent(code("a = 1"))
    recorded_session.host.info.approval = "ask"
    recorded_session.when(tags.APPROVAL, lambda record: agent.stop(), state="waiting")
    agent.ask_sync("count")
    assert "a" not in recorded_session.namespace
    assert recorded_session.approvals() == ["waiting", "stopped"]
    assert recorded_session.agent_states() == ["thinking", "stopped"]


def test_stop_while_code_runs(recorded_session: RecordedSession) -> None:
    agent = recorded_session.agent(code("print('begun')\nwhile True: pass", "b = 2"))
    recorded_session.when(tags.ASSISTANT_REPL_OUT_STREAM, lambda record: agent.stop(), text="begun")
    agent.ask_sync("count")
    (output,) = recorded_session.of(tags.ASSISTANT_REPL_OUT)
    assert output.attrs["status"] == "interrupted"
    assert output.text.startswith("begun")
    assert recorded_session.agent_states() == ["thinking", "stopped"]
    assert 'status="interrupted"' in str(agent.messages[-1].text)
    assert "b" not in recorded_session.namespace


def test_stop_while_the_result_is_checked(recorded_session: RecordedSession) -> None:
    check = COMPLETE | {"tokens_per_second": 50}
    agent = recorded_session.agent(code("a = 1"), check, reflection="always")
    recorded_session.when(tags.AGENT, lambda record: agent.stop(), state="reflecting")
    agent.ask_sync("count")
    assert recorded_session.agent_states() == ["thinking", "reflecting", "stopped"]
    assert recorded_session.notices("warning")[1:] == [], "a stopped check has not failed"


def test_stop_before_the_first_token(recorded_session: RecordedSession) -> None:
    agent = recorded_session.agent(words("It is 4.", tokens_per_second=1))
    recorded_session.when(tags.AGENT, lambda record: agent.stop(), state="thinking")
    assert agent.ask_sync("count") in ("", "It")
    assert recorded_session.agent_states() == ["thinking", "stopped"]
    assert agent.messages[-1].text


def test_stop_applies_to_the_current_turn_only(recorded_session: RecordedSession) -> None:
    agent = recorded_session.agent(words("It is 4."))
    agent.stop()
    assert agent.ask_sync("count") == "It is 4."
