"""Conversation for the model after the person has hidden a part of it; a real session, a replayed
model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from mahtab_tui.bus.records import Decision
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.llm.prompts import REMOVED_BY_USER
from mahtab_tui.llm.replay import ChatReplay
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.agents import without_surroundings
from tests.fake_claude import install_fake_claude
from tests.integration.sessions import Opened, Watched
from tests.waiting import wait_for

CODE = "I make it.\n\n```python\nmade = 'a pear'\nprint(made)\n```\n"
COMPLETE = {
    "text": '{"is_complete": true, "reasoning": "", "next_action": ""}',
    "match": "is_complete",
}
Open = Callable[..., Opened]


@pytest.fixture
def sent_messages(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, str]]]:
    """Return the messages of each request to the model; checks of results are left out."""
    sent: list[list[tuple[str, str]]] = []
    stream = ChatReplay._stream

    def listening(self: ChatReplay, messages: list[Any], *args: Any, **options: Any) -> Any:
        if "is_complete" not in messages[-1].text:
            sent.append(
                [
                    (message.type, without_surroundings(str(message.text)))
                    for message in messages
                    if message.type != "system"
                ]
            )
        return stream(self, messages, *args, **options)

    monkeypatch.setattr(ChatReplay, "_stream", listening)
    return sent


def run(it: Opened, number: int, code: str) -> None:
    it.session.submit("python", code)
    it.store.wait(tags.USER_REPL_OUT, cell=number)


def ask(it: Opened, turn: int, question: str) -> None:
    it.session.submit("ask", question)
    it.store.wait(tags.AGENT, state="done", turn=turn)


def text(messages: list[tuple[str, str]]) -> str:
    return "\n".join(words for _, words in messages)


def test_hidden_cell_is_removed_from_the_conversation_and_can_return(
    open_session: Open, sent_messages: list[list[tuple[str, str]]]
) -> None:
    it = open_session("One.", "Two.", "Three.")
    run(it, 1, "print('sec' + 'ret')")
    run(it, 2, "print('open' + 'ly')")
    ask(it, 1, "first?")
    assert "secret" in text(sent_messages[0])
    it.session.hide("cell 1", True)
    ask(it, 2, "second?")
    assert "secret" not in text(sent_messages[1])
    assert "print('sec'" not in text(sent_messages[1])
    assert "openly" in text(sent_messages[1])
    assert [kind for kind, _ in sent_messages[1]] == ["human", "ai", "human"]
    it.session.hide("cell 1", False)
    ask(it, 3, "third?")
    assert sent_messages[2][:1] == sent_messages[0]


def test_cell_hidden_before_the_question_is_not_sent(
    open_session: Open, sent_messages: list[list[tuple[str, str]]]
) -> None:
    it = open_session("One.", "Two.")
    run(it, 1, "print('sec' + 'ret')")
    it.session.hide("cell 1", True)
    ask(it, 1, "first?")
    assert sent_messages[0] == [("human", "first?")]
    it.session.hide("cell 1", False)
    ask(it, 2, "second?")
    assert "secret" in sent_messages[1][0][1]


def test_hidden_questions_answers_and_model_code_leave_a_sentence(
    open_session: Open, sent_messages: list[list[tuple[str, str]]]
) -> None:
    it = open_session(CODE, COMPLETE, "It is a pear.", "Yes.", "No.", approval="auto")
    ask(it, 1, "what fruit?")
    it.session.hide("question 1", True)
    it.session.hide("answer 1.1", True)
    it.session.hide("cell 1", True)
    ask(it, 2, "sure?")
    messages = sent_messages[-1]
    assert [kind for kind, _ in messages] == ["human", "ai", "human", "ai", "human"]
    assert messages[0][1].endswith(REMOVED_BY_USER)
    assert messages[1][1] == f"I make it.\n\n{REMOVED_BY_USER}"
    assert "a pear" not in text(messages[:4])
    assert messages[3][1] == REMOVED_BY_USER
    it.session.hide("answer 1.0", True)
    it.session.hide("cell 1", False)
    ask(it, 3, "again?")
    assert (
        sent_messages[-1][1][1]
        == f"{REMOVED_BY_USER}\n\n```python\nmade = 'a pear'\nprint(made)\n```"
    )
    assert "a pear" in sent_messages[-1][2][1]


def test_skipped_code_can_be_hidden(
    open_session: Open, sent_messages: list[list[tuple[str, str]]]
) -> None:
    it = open_session(CODE, "Then not.", "Yes.")
    it.session.submit("ask", "make it")
    waiting = it.store.wait(tags.APPROVAL, state="waiting")
    it.session.decide(waiting.attrs["request"], Decision("skip"))
    it.store.wait(tags.AGENT, state="done", turn=1)
    it.session.hide("code 1.0.0", True)
    ask(it, 2, "well?")
    assert sent_messages[-1][1] == ("ai", f"I make it.\n\n{REMOVED_BY_USER}")


def test_hidden_entries_stay_hidden_in_a_resumed_session(
    open_session: Open, sent_messages: list[list[tuple[str, str]]], project: Path
) -> None:
    it = open_session(CODE, COMPLETE, "It is a pear.", "Yes.", "No.", approval="auto")
    ask(it, 1, "what fruit?")
    it.session.hide("cell 1", True)
    it.session.hide("answer 1.1", True)
    it.session.pin("question 1", True)
    it.session.close()
    settings = load_settings(model=f"replay:{project / 'replay.jsonl'}", approval="auto")
    store = Watched()
    again = Session(
        settings, ProcessKernel(), HeadlessFrontend(), store=store, past=tuple(it.store.records)
    )
    again.start()
    try:
        (project / "replay.jsonl").write_text('{"text": "Yes."}\n', "utf-8")
        ask(Opened(again, store), 2, "sure?")
    finally:
        again.close()
    transcript = Transcript(since=time.time())
    transcript.fold(again.past)
    assert [(entry.key, entry.removed) for entry in transcript.entries if entry.removed] == [
        ("cell 1", "hidden"),
        ("answer 1.1", "hidden"),
    ]
    assert [entry.key for entry in transcript.pinned] == ["question 1"]
    assert sent_messages[-1] == [
        ("human", "what fruit?"),
        ("ai", f"I make it.\n\n{REMOVED_BY_USER}\n\n{REMOVED_BY_USER}"),
        ("human", "sure?"),
    ]


def test_hidden_cell_can_be_shown_again_in_a_resumed_session(
    open_session: Open, sent_messages: list[list[tuple[str, str]]], project: Path
) -> None:
    it = open_session("One.")
    run(it, 1, "print('sec' + 'ret')")
    run(it, 2, "print('open' + 'ly')")
    it.session.hide("cell 1", True)
    ask(it, 1, "first?")
    it.session.close()
    store = Watched()
    again = Session(
        load_settings(model=f"replay:{project / 'replay.jsonl'}"),
        ProcessKernel(),
        HeadlessFrontend(),
        store=store,
        past=tuple(it.store.records),
    )
    again.start()
    try:
        (project / "replay.jsonl").write_text('{"text": "Two."}\n{"text": "Three."}\n', "utf-8")
        ask(Opened(again, store), 2, "second?")
        assert "openly" in text(sent_messages[-1])
        assert "secret" not in text(sent_messages[-1])
        again.hide("cell 1", False)
        ask(Opened(again, store), 3, "third?")
        assert "secret" in text(sent_messages[-1])
    finally:
        again.close()


def test_replaced_question_leaves_no_trace_of_itself_and_its_answers(
    open_session: Open, sent_messages: list[list[tuple[str, str]]]
) -> None:
    it = open_session("One.", CODE, COMPLETE, "It is a pear.", "It is an apple.", approval="auto")
    ask(it, 1, "zero?")
    run(it, 1, "print('be' + 'fore')")
    ask(it, 2, "what fruit?")
    run(it, 3, "print('af' + 'ter')")
    replace(it, "question 2", "ask", "what red fruit?")
    it.store.wait(tags.AGENT, state="done", turn=3)
    messages = sent_messages[-1]
    assert [kind for kind, _ in messages] == ["human", "ai", "human"]
    assert messages[:2] == sent_messages[1][:2]
    assert "before" in messages[2][1]
    assert messages[2][1].endswith("what red fruit?")
    assert not any(
        words in text(messages) for words in ("It is a pear", "I make it", "after", "what fruit?")
    )
    run(it, 4, "made")
    assert it.store.wait(tags.USER_REPL_OUT, cell=4).text == "'a pear'\n"
    assert "namespace stays" in it.store.wait(tags.REPLACE).text


def test_replaced_cell_goes_with_the_next_question_and_the_new_one_runs(
    open_session: Open, sent_messages: list[list[tuple[str, str]]]
) -> None:
    it = open_session("One.", "Two.")
    run(it, 1, "print('ke' + 'pt')")
    run(it, 2, "fruit = 'pe' + 'ar'; fruit")
    ask(it, 1, "which?")
    replace(it, "cell 2", "python", "fruit = 'ap' + 'ple'; fruit")
    it.store.wait(tags.USER_REPL_OUT, cell=3, text="'apple'\n")
    ask(it, 2, "which now?")
    ((kind, words),) = sent_messages[-1]
    assert kind == "human"
    assert "kept" in words
    assert "apple" in words
    assert "pear" not in words
    assert "which?" not in words


def test_nothing_is_replaced_while_work_is_running(open_session: Open) -> None:
    it = open_session()
    run(it, 1, "x = 1")
    it.session.submit("python", "while True: pass")
    it.store.wait(tags.KERNEL, state="busy", cell=2)
    assert not it.session.replace("cell 1", "python", "x = 2")
    wait_for(lambda: it.session.stop() == "cell")
    it.store.wait(tags.USER_REPL_OUT, cell=2)
    assert not [record for record in it.store.records if record.tag == tags.REPLACE]


def test_stateful_model_receives_the_changed_conversation(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = install_fake_claude(tmp_path / "bin", "answers", answers=["One.", "Two.", "Three."])
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    store = Watched()
    it = Opened(
        Session(load_settings(model="claude"), ProcessKernel(), HeadlessFrontend(), store=store),
        store,
    )
    it.session.start()
    try:
        run(it, 1, "print('sec' + 'ret')")
        ask(it, 1, "first?")
        it.session.hide("cell 1", True)
        ask(it, 2, "second?")
        ask(it, 3, "third?")
    finally:
        it.session.close()
    first, second, third = map(without_surroundings, fake.prompts)
    assert "secret" in first
    assert (
        second
        == "<conversation><human>first?</human><assistant>One.</assistant></conversation>\n\nsecond?"
    )
    assert third == "third?"
    assert len(fake.starts) == 2


def replace(it: Opened, entry: str, mode: Literal["python", "ask"], words: str) -> None:
    """Replace an entry as soon as nothing is at work."""
    wait_for(lambda: it.session.replace(entry, mode, words))
