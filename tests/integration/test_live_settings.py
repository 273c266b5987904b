"""Settings that change while a session runs; the conversation over a change of the model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mahtab_tui.agent.repl_agent import ReplAgent
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session.models import change_setting
from tests import tags
from tests.agents import without_surroundings
from tests.fake_claude import install_fake_claude
from tests.integration.kernels import Cells
from tests.integration.sessions import Opened
from tests.waiting import wait_for

CODE = [
    {"text": f"```python\nprint({number})\n```", "match": "^(?!.*is_complete)"} for number in (1, 2)
]


def test_the_model_changes_and_the_conversation_stays(
    open_session: Callable[..., Opened], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = install_fake_claude(tmp_path / "bin", "answers", answers=["Two."])
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    it = open_session("One.")
    it.session.submit("ask", "first?")
    it.store.wait(tags.ASSISTANT_CHAT, turn=1)
    assert change_setting(it.session, "model", "claude")
    assert (it.session.model, it.session.settings.model) == ("claude", "claude")
    agent = it.session.agent.agent
    wait_for(lambda: "claude" in type(agent._nodes.llm).__name__.lower())
    it.session.submit("ask", "second?")
    assert it.store.wait(tags.ASSISTANT_CHAT, turn=2).text.strip() == "Two."
    (prompt,) = map(without_surroundings, fake.prompts)
    assert prompt.startswith(
        "<conversation><human>first?</human><assistant>One.</assistant></conversation>"
    )


def test_unavailable_model_changes_nothing(open_session: Callable[..., Opened]) -> None:
    it = open_session()
    before = it.session.model
    for key in ("model", "sub_model", "reflection_model"):
        with pytest.raises(ModelError):
            change_setting(it.session, key, "nonsense")
    assert (
        it.session.model,
        it.session.settings.sub_model,
        it.session.settings.reflection_model,
    ) == (before, None, None)


def test_turn_limit_and_reflection_change_during_a_session(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(
        *CODE,
        {"text": "x", "match": "is_complete"},
        {"text": "The end.", "repeat": True},
        approval="auto",
    )
    _ = it.session.agent.agent
    assert change_setting(it.session, "reflection", "never")
    assert change_setting(it.session, "max_turns", 2)
    wait_for(lambda: it.session.agent.agent._nodes._max_turns == 2)
    it.session.submit("ask", "go")
    it.store.wait(tags.ASSISTANT_CHAT, step=2)
    ran = [record for record in it.store.records if record.tag == tags.ASSISTANT_REPL_IN]
    assert len(ran) == 2
    assert not [
        record
        for record in it.store.records
        if record.tag == tags.AGENT and record.attrs.get("state") == "reflecting"
    ]


def test_autoreload_is_switched_on_and_off_in_a_running_kernel(project: Path, cells: Cells) -> None:
    module = project / "mine.py"
    module.write_text("value = 1\n")
    kernel = cells.kernel
    assert isinstance(kernel, ProcessKernel)
    kernel.set_reload(True)
    cells.run("import mine")
    write_later(module, "value = 2\n", 1)
    assert "2" in cells.run("mine.value").output
    kernel.set_reload(False)
    cells.run("mine")
    write_later(module, "value = 3\n", 2)
    assert "3" not in cells.run("mine.value").output
    kernel.set_reload(True)
    kernel.reset()
    cells.run("import mine")
    write_later(module, "value = 4\n", 3)
    assert "4" in cells.run("mine.value").output


def write_later(path: Path, text: str, seconds: int) -> None:
    """Write a file that was changed some seconds after it was."""
    moment = path.stat().st_mtime + seconds
    path.write_text(text)
    os.utime(path, (moment, moment))


def test_cost_limit_and_history_length_change_during_a_session(
    open_session: Callable[..., Opened],
) -> None:
    cost = {"usage": {"cost": 0.4}, "repeat": True}
    it = open_session(
        {"match": "keep the memory", "text": "Little.", **cost}, {"text": "Yes.", **cost}
    )
    for turn, question in enumerate(("first?", "second?", "third?"), 1):
        it.session.submit("ask", question)
        it.store.wait(tags.AGENT, state="done", turn=turn)
    assert change_setting(it.session, "max_history", 2)
    wait_for(lambda: it.session.agent.agent._history.max_history == 2)
    it.session.submit("ask", "fourth?")
    it.store.wait(tags.AGENT, state="done", turn=4)
    assert "Little." in it.store.wait(tags.SUMMARY, turn=3).text
    assert change_setting(it.session, "max_usd", 1.0)
    it.session.submit("ask", "fifth?")
    assert "(max_usd)" in it.store.wait(tags.NOTICE, level="error").text
    assert change_setting(it.session, "max_usd", None)
    it.session.submit("ask", "sixth?")
    it.store.wait(tags.AGENT, state="done", turn=6)


def test_changed_limits_leave_the_agent_its_tools(open_session: Callable[..., Opened]) -> None:
    it = open_session()
    tools = it.session.agent.agent._nodes._tools
    assert tools is not None
    assert change_setting(it.session, "max_turns", 2)
    wait_for(lambda: it.session.agent.agent._nodes._max_turns == 2)
    assert it.session.agent.agent._nodes._tools is tools


@pytest.mark.parametrize(("key", "value"), [("max_usd", 2.0), ("model_timeout", 7.0)])
def test_both_models_are_recreated(
    open_session: Callable[..., Opened], key: str, value: float
) -> None:
    it = open_session(reflection_model="demo")
    agent = it.session.agent.agent
    answering, checking = agent._nodes.llm, agent._nodes.reflection_llm
    assert checking is not None
    assert change_setting(it.session, key, value)
    wait_for(
        lambda: agent._nodes.llm is not answering and agent._nodes.reflection_llm is not checking
    )
    assert agent._nodes.reflection_llm is not None


def test_newest_of_two_pending_changes_wins(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session()
    thread = it.session.agent
    _ = thread.agent
    wanted, holding = 2, []
    began, turn_over, second_came = threading.Event(), threading.Event(), threading.Event()

    def first(agent: ReplAgent) -> None:
        seen = wanted
        began.set()
        turn_over.wait(60)
        holding.append(seen)

    def second(agent: ReplAgent) -> None:
        holding.append(wanted)
        second_came.set()

    thread.change(first)
    began.wait(60)
    wanted = 3
    thread.change(second)
    second_came.wait(0.5)  # it must not come before the first one, which would then be the last
    turn_over.set()
    wait_for(lambda: len(holding) == 2)
    assert holding == [2, 3]


def test_model_without_a_provider_uses_the_current_one(
    open_session: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no-secret")
    it = open_session()
    with pytest.raises(ModelError, match="There is no model 'gpt-4o'"):
        it.session.set_model("gpt-4o")
    assert change_setting(it.session, "provider", "openai")
    it.session.set_model("gpt-4o")
    assert it.session.model == "openai:gpt-4o"
    assert it.session.turns.party == "gpt-4o"
    assert change_setting(it.session, "provider", None)
    it.session.renew_model()
    assert it.session.agent.agent.sees is True, "what was chosen stays what it is"
