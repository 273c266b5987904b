"""What an agent knows of the conversation: its own session goes on, or it is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mahtab_tui.agent.host import StoredMessage
from mahtab_tui.bus.entry_names import question_entry
from mahtab_tui.bus.records import Branch
from mahtab_tui.system import start_thread
from tests import tags
from tests.acp_client.conftest import Answering, OpenAnswering
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


def continued(answering: OpenAnswering, *abilities: str) -> Answering:
    """Return the next session after one with a question and an answer."""
    it = answering(*abilities)
    it.ask("say The word is plum.")
    it.session.close()
    return answering(*abilities, past=it.store.records)


@pytest.mark.parametrize("ability", ["resume", "load"])
def test_an_agents_session_goes_on_when_ours_is_continued(
    answering: OpenAnswering, ability: str
) -> None:
    again = continued(answering, ability)
    # Nothing that it repeats while it is loaded is shown.
    assert again.ask("recall") == "I remember ['The word is plum.']; mode bold"
    assert "plum" not in again.ask("echo")


@pytest.mark.parametrize(
    ("report", "cost", "total"),
    [
        # The cost since the agent's session began, as the protocol says, or since it went on.
        ("report 0.9 1.0", 0.3, 1.0),
        ("report 0.1", 0.1, 0.8),
    ],
)
def test_what_an_agents_session_has_cost_before_is_counted_once(
    answering: OpenAnswering, report: str, cost: float, total: float
) -> None:
    it = answering("resume")
    it.ask("report 0.5")
    it.ask("report 0.7")
    it.session.close()
    again = answering("resume", past=it.store.records)
    again.ask(report)
    assert round(again.store.of(tags.USAGE)[-1].cost, 9) == cost
    assert round(again.session.spending.total.cost, 9) == total


def test_an_agent_that_cannot_go_on_is_told_the_conversation(answering: OpenAnswering) -> None:
    again = continued(answering)
    request_text = again.ask("echo")
    assert "user: say The word is plum." in request_text
    assert "assistant: The word is plum. " in request_text
    # Only once.
    assert "plum" not in again.ask("echo")


def test_an_agent_that_has_forgotten_its_session_is_told(answering: OpenAnswering) -> None:
    again = continued(answering, "resume")
    Path(".outside-sessions.json").unlink()
    assert "assistant: The word is plum. " in again.ask("echo")


def test_an_agent_that_was_started_again_is_told(answering: OpenAnswering) -> None:
    it = answering()
    it.ask("say The word is plum.")
    it.wait_end(it.begin_question("die"))
    assert "assistant: The word is plum. " in it.ask("echo")


def test_what_the_user_takes_out_is_forgotten(answering: OpenAnswering) -> None:
    it = answering("resume")
    it.ask("say The word is plum.")
    it.ask("say The number is 7.")
    it.session.entries.hide(question_entry(1), hidden=True)
    request_text = it.ask("echo")
    assert "The number is 7." in request_text
    assert "say The word is plum" not in request_text
    assert it.ask("recall").startswith("I remember ['']")


def test_what_is_hidden_while_a_question_is_prepared_is_forgotten(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = answering("resume")
    it.ask("say The word is plum.")
    add_context = it.session.agent.add_context

    def hide_meanwhile(turn: int, question: str, conversation: str) -> StoredMessage:
        it.session.entries.hide(question_entry(1), hidden=True)
        return add_context(turn, question, conversation)

    monkeypatch.setattr(it.session.agent, "add_context", hide_meanwhile)
    assert it.ask("recall").startswith("I remember []")


def test_what_is_attached_stays_when_something_is_hidden_meanwhile(
    answering: OpenAnswering, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "notes.txt").write_text("the secret word is quince\n")
    it = answering("resume")
    it.ask("say The word is plum.")
    add_context = it.session.agent.add_context

    def hide_afterwards(turn: int, question: str, conversation: str) -> StoredMessage:
        message = add_context(turn, question, conversation)
        it.session.entries.hide(question_entry(1), hidden=True)
        return message

    monkeypatch.setattr(it.session.agent, "add_context", hide_afterwards)
    request_text = it.ask("Look at @notes.txt\necho")
    assert "quince" in request_text
    assert "say The word is plum" not in request_text


def test_another_model_does_not_answer_while_the_agent_does(
    answering: OpenAnswering,
) -> None:
    it = answering()
    cell = start_thread("cell", it.run, "ask('wait')")
    it.store.wait(tags.AGENT_SESSION)
    it.session.set_model("demo")
    turn = it.begin_question("which variables are there?")
    assert it.wait_end(turn) == "failed"
    assert it.answer(turn) == ""
    sentence = "other still answers another question. /model chooses another one."
    wait_for(lambda: sentence in it.notices)
    it.session.stop()
    cell.join()


def test_a_branch_does_not_remember_what_came_after_its_beginning(
    answering: OpenAnswering,
) -> None:
    it = answering("resume")
    it.ask("say The word is plum.")
    it.ask("say The number is 7.")
    it.session.close()
    records = list(it.store.records)
    second_question = records.index(it.store.of(tags.USER_CHAT)[1])
    branch = Branch("A copy.", origin="a", copy="b", cell=0)
    again = answering("resume", past=[*records[:second_question], branch])
    assert again.ask("recall").startswith("I remember []")


def test_a_model_and_an_agent_hand_over_the_conversation(answering: OpenAnswering) -> None:
    it = answering()
    it.ask("say The word is plum.")
    answers = Path("answers.jsonl")
    answers.write_text('{"text": "The colour is blue."}\n')
    it.session.set_model(f"replay:{answers}")
    assert it.ask("And the colour?") == "The colour is blue."
    messages = it.model_messages()
    assert messages.count("The word is plum.") == 2
    assert messages.count("And the colour?") == 1
    it.session.set_model("acp:other")
    request_text = it.ask("echo")
    assert "assistant: The colour is blue." in request_text
    assert "assistant: The word is plum." in request_text


def test_one_agent_follows_another(answering: OpenAnswering) -> None:
    it = answering(agent={})
    it.ask("say The word is plum.")
    agents = it.session.settings.acp
    it.session.settings.acp = {**agents, "next": agents["other"]}
    it.session.set_model("acp:next")
    assert "assistant: The word is plum." in it.ask("echo")
    assert sys.executable in it.session.settings.acp["next"].command
