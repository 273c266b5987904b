"""`claude` is ready before it is asked, and stays so after a stop."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from mahtab_tui.llm.claude_cli import ChatClaudeCLI
from mahtab_tui.llm.prompts import STOPPED_ANSWER
from tests.fake_claude import FakeClaude
from tests.unit.conftest import InstallClaude, MakeClaude
from tests.waiting import wait_for

HELLO: list[BaseMessage] = [SystemMessage("Be kind."), HumanMessage("hello")]


def running(fake: FakeClaude) -> list[int]:
    """The processes that were started and have not ended."""
    return [start["pid"] for start in fake.starts if Path(f"/proc/{start['pid']}").exists()]


def stop_at_once(llm: ChatClaudeCLI, messages: list[BaseMessage]) -> str:
    """Ask, and stop at the first words; what came of them."""
    words = []
    for chunk in llm.stream(messages):
        words.append(str(chunk.text))
        llm.stop()
    return "".join(words)


def test_question_uses_the_process_that_was_prestarted_for_it(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    fake = install_claude("answers", answers=["one"])
    llm = claude_model()
    llm.prepare("Be kind.")
    llm.prepare("Be kind.")
    wait_for(lambda: fake.starts)
    assert fake.prompts == []
    llm.invoke([HELLO[0], HumanMessage("other"), AIMessage("words"), HumanMessage("more")])
    assert fake.prompts == [
        "<conversation><human>other</human><assistant>words</assistant></conversation>\n\nmore"
    ]
    llm.prepare("Be kind.")
    assert len(fake.starts) == 1


def test_unused_prestarted_process_is_replaced(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    """Its system prompt is old, since a skill was loaded."""
    fake = install_claude("answers", answers=["one"])
    llm = claude_model()
    llm.prepare("Be kind.")
    wait_for(lambda: fake.starts)
    llm.prepare("Be short.")
    wait_for(lambda: len(fake.starts) == 2)
    assert running(fake) == [fake.starts[1]["pid"]]


def test_prestarted_process_that_died_is_replaced(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    fake = install_claude("answers", answers=["one"])
    llm = claude_model()
    llm.prepare("Be kind.")
    wait_for(lambda: fake.starts)
    os.kill(fake.starts[0]["pid"], 9)
    wait_for(lambda: Path(f"/proc/{fake.starts[0]['pid']}/stat").read_text().split()[2] == "Z")
    assert str(llm.invoke(HELLO).text) == "one"
    assert len(fake.starts) == 2


def test_nothing_is_started_while_an_answer_streams(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    fake = install_claude("answers", answers=["one"])
    llm = claude_model()
    answer = llm.stream(HELLO)
    next(answer)
    llm.prepare("Be short.")
    assert list(answer)
    assert len(fake.starts) == 1


def test_conversation_keeps_its_process_after_a_stop(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    """The process knows by itself that it was stopped, and may know more of its answer than was
    heard."""
    fake = install_claude("streams")
    llm = claude_model()
    assert stop_at_once(llm, HELLO) == "begun "
    sent = [*HELLO, AIMessage(f"beg\n\n{STOPPED_ANSWER}"), HumanMessage("more")]
    stop_at_once(llm, sent)
    stop_at_once(llm, [*sent, AIMessage(f"begun \n\n{STOPPED_ANSWER}"), HumanMessage("and more")])
    assert fake.prompts == ["hello", "more", "and more"]
    assert len(fake.starts) == 1


@pytest.mark.parametrize(
    "changed", ["[The person has taken this out of the conversation.]", f"gone\n\n{STOPPED_ANSWER}"]
)
def test_edited_stopped_answer_is_sent_again_from_the_start(
    install_claude: InstallClaude, claude_model: MakeClaude, changed: str
) -> None:
    fake = install_claude("streams")
    llm = claude_model()
    stop_at_once(llm, HELLO)
    stop_at_once(llm, [*HELLO, AIMessage(changed), HumanMessage("more")])
    assert len(fake.starts) == 2
    assert fake.prompts[-1].startswith("<conversation>")


def test_another_process_waits_for_the_next_check(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    fake = install_claude("answers", answers=["complete"])
    llm = claude_model()
    llm.checker.prepare("")
    wait_for(lambda: len(fake.starts) == 1)
    for number in (2, 3):
        llm.checker.invoke("is it complete?")
        wait_for(lambda number=number: len(fake.starts) == number)  # type: ignore[misc]
        wait_for(lambda number=number: running(fake) == [fake.starts[number - 1]["pid"]])  # type: ignore[misc]
    assert len(fake.prompts) == 2
    llm.close()
    assert running(fake) == []
