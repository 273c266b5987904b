"""Agents of other programs answer questions in a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import AnswerText, Cell, ToolUse
from mahtab_tui.bus.records import AssistantChatStream, Record, RecordHandler
from tests import tags
from tests.acp_client.conftest import Answering, OpenAnswering
from tests.waiting import wait_for


class Pieces(RecordHandler):
    """Keeps the pieces of answers."""

    kinds = (AssistantChatStream,)

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def fold(self, record: Record) -> None:
        self.texts.append(record.text)


def entries(it: Answering) -> list[object]:
    conversation = Conversation()
    conversation.fold(it.store.records)
    return [
        entry for entry in conversation.entries if isinstance(entry, Cell | AnswerText | ToolUse)
    ]


def test_an_agent_answers_and_runs_code_in_the_namespace(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    it.run("mine = [1, 2]")
    assert it.ask("eval mine.append(3); total = sum(mine); total").startswith("It says: 6\n")
    cell = it.store.wait(tags.ASSISTANT_REPL_IN)
    assert cell.party == "other"
    assert it.value("total") == "6"
    # The cell says what the call would.
    assert it.tools == {}


def test_words_come_in_pieces_and_end_as_an_answer(answering: OpenAnswering) -> None:
    it = answering()
    pieces = Pieces()
    it.session.log.addHandler(pieces)
    assert it.ask("say one two three") == "one two three "
    assert pieces.texts == ["one ", "two ", "three "]


def test_code_in_the_words_of_an_agent_stays_words(answering: OpenAnswering) -> None:
    it = answering()
    it.ask(r"say Look:\n```python\nx = 1\n```\nDone.")
    (words,) = entries(it)
    assert isinstance(words, AnswerText)
    assert "```python\nx = 1\n```" in words.source


def test_the_user_allows_an_agents_cell(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("eval 6 * 7")
    request = it.wait_approval()
    assert (request.party, request.text) == ("other", "6 * 7")
    it.decide("run")
    assert it.wait_end(turn) == "done"
    assert it.answer(turn).startswith("It says: 42")


def test_the_user_decides_about_the_agents_own_tools(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering()
    turn = it.begin_question("write notes.txt")
    request = it.wait_approval()
    assert request.is_code is False
    assert request.text.startswith("# Write notes.txt\npath = notes.txt\n--- notes.txt\n")
    assert request.text.endswith(" one\n+two")
    it.decide("run")
    assert it.wait_end(turn) == "done"
    # Never for good, although the agent offers that first.
    assert it.answer(turn) == "You chose allow_once."
    assert (project / "notes.txt").read_text() == "one\ntwo\n"
    written = it.tools["Write notes.txt"]
    assert (written.state, written.party) == ("ok", "other")
    assert "+two" in written.text
    assert written.text.startswith("Undo does not reach files that this agent's own tools change.")


def test_a_refusal_of_the_user_reaches_the_agent(answering: OpenAnswering, project: Path) -> None:
    it = answering()
    turn = it.begin_question("write notes.txt")
    it.wait_approval()
    it.decide("skip")
    assert it.wait_end(turn) == "done"
    assert it.answer(turn) == "You chose reject_once."
    assert not (project / "notes.txt").exists()
    assert it.tools["Write notes.txt"].state == "error"


def test_stopping_withdraws_what_the_agent_asked(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("write notes.txt")
    request = it.wait_approval().request
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    assert it.store.wait(tags.APPROVAL, request=request, state="stopped")
    assert it.session.approvals.waiting == ()
    assert it.tools["Write notes.txt"].state == "stopped"
    assert it.ask("say again") == "again "


def test_stopping_interrupts_the_agents_cell(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    turn = it.begin_question("eval import time; time.sleep(1000)")
    it.store.wait(tags.ASSISTANT_REPL_IN)
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    wait_for(lambda: not it.session.cells.running)
    assert it.ask("eval 1 + 1").startswith("It says: 2")


def test_an_answer_that_is_stopped_keeps_its_words(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("wait")
    pieces = Pieces()
    it.session.log.addHandler(pieces)
    wait_for(lambda: pieces.texts)
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    answer = it.store.wait(tags.ASSISTANT_CHAT, turn=turn)
    assert (answer.text, answer.stopped) == ("I wait. ", True)


def test_an_agent_that_dies_is_started_again(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("die of boredom")
    assert it.wait_end(turn) == "failed"
    assert it.answer(turn) == "Half of an ans"
    assert (
        "other has ended with exit code 3: of boredom. The next question starts it again."
        in it.notices
    )
    assert it.ask("say again") == "again "


def test_an_agent_gets_no_keys_that_are_not_named_for_it(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDECODE", "CLAUDECODE_ENTRY", "OPENAI_API_KEY", "GH_TOKEN", "EDITOR"):
        monkeypatch.setenv(name, f"{name}-value")
    root = str(Path(__file__).parents[2])
    it = answering(agent={"env": {"PYTHONPATH": root, "MY_TOKEN": "${GH_TOKEN}"}})
    answer = it.ask(
        "environment CLAUDECODE CLAUDECODE_ENTRY OPENAI_API_KEY GH_TOKEN MY_TOKEN EDITOR"
    )
    assert '"EDITOR": "EDITOR-value"' in answer
    assert answer.count("null") == 4
    # It has the one that is named, which nobody else sees.
    assert '"MY_TOKEN": "••••••••"' in answer
    assert os.environ["CLAUDECODE"]
