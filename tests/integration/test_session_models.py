"""The models of a session: the first one, changed settings, and the window's use."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from mahtab_tui.agent.repl_agent import ReplAgent
from mahtab_tui.bus import records
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.llm import local_servers
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.pictures import accepts_pictures
from mahtab_tui.llm.token_estimates import estimated_tokens
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.session_commands import SESSION_COMMANDS
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.agents import without_surroundings
from tests.fake_claude import FakeClaude, InstallClaude
from tests.integration.kernels import Cells
from tests.integration.sessions import Opened, OpenSession, Watched, texts
from tests.services import OPENAI, Protocol, Reply, Service
from tests.waiting import alive, wait_for

# Settings that change while a session runs.

CODE = [
    {"text": f"```python\nprint({number})\n```", "match": "^(?!.*is_complete)"} for number in (1, 2)
]


def test_the_model_changes_and_the_conversation_stays(
    open_session: OpenSession, install_claude: InstallClaude
) -> None:
    fake = install_claude("answers", answers=["Two."])
    it = open_session("One.")
    it.session.submit("ask", "first?")
    it.store.wait(tags.ASSISTANT_CHAT, turn=1)
    assert it.session.change_setting("model", "claude")
    assert (it.session.model, it.session.settings.model) == ("claude", "claude")
    agent = it.session.agent.agent
    wait_for(lambda: "claude" in type(agent._nodes.llm).__name__.lower())
    it.session.submit("ask", "second?")
    assert it.store.wait(tags.ASSISTANT_CHAT, turn=2).text.strip() == "Two."
    (prompt,) = map(without_surroundings, fake.prompts)
    assert prompt.startswith("<conversation><human>first?</human><assistant>One.</assistant></")


def test_unavailable_model_changes_nothing(open_session: OpenSession) -> None:
    it = open_session()
    previous_model = it.session.model
    for key in ("model", "sub_model", "reflection_model"):
        with pytest.raises(ModelError):
            it.session.change_setting(key, "nonsense")
    settings = it.session.settings
    assert (it.session.model, settings.sub_model, settings.reflection_model) == (
        previous_model,
        None,
        None,
    )


def test_turn_limit_and_reflection_change_during_a_session(open_session: OpenSession) -> None:
    check = {"text": "x", "match": "is_complete"}
    end = {"text": "The end.", "repeat": True}
    it = open_session(*CODE, check, end, approval="auto")
    _ = it.session.agent.agent
    assert it.session.change_setting("reflection", "never")
    assert it.session.change_setting("max_turns", 2)
    wait_for(lambda: it.session.agent.agent._nodes.max_turns == 2)
    it.session.submit("ask", "go")
    it.store.wait(tags.ASSISTANT_CHAT, step=2)
    assert len(texts(it, tags.ASSISTANT_REPL_IN)) == 2
    states = [record.attrs["state"] for record in it.store.records if record.tag == tags.AGENT]
    assert "reflecting" not in states


def test_autoreload_is_switched_on_and_off_in_a_running_kernel(project: Path, cells: Cells) -> None:
    module = project / "mine.py"
    module.write_text("value = 1\n")
    kernel = cells.kernel
    assert isinstance(kernel, ProcessKernel)

    def reloads(value: int) -> bool:
        """Import the module, change it a second later, and read its value again."""
        cells.run("import mine")
        moment = module.stat().st_mtime + 1
        module.write_text(f"value = {value}\n")
        os.utime(module, (moment, moment))
        return str(value) in cells.run("mine.value").output

    kernel.set_reload(True)
    assert reloads(2)
    kernel.set_reload(False)
    assert not reloads(3)
    kernel.set_reload(True)
    kernel.reset()
    assert reloads(4)


def test_cost_limit_and_history_length_change_during_a_session(open_session: OpenSession) -> None:
    cost = {"usage": {"cost": 0.4}, "repeat": True}
    summary = {"match": "keep the memory", "text": "Little.", **cost}
    it = open_session(summary, {"text": "Yes.", **cost})
    for question in ("first?", "second?", "third?"):
        it.ask_and_wait(question)
    assert it.session.change_setting("max_history", 2)
    wait_for(lambda: it.session.agent.agent._history.max_history == 2)
    it.ask_and_wait("fourth?")
    assert "Little." in it.store.wait(tags.SUMMARY, turn=3).text
    assert it.session.change_setting("max_usd", 1.0)
    it.session.submit("ask", "fifth?")
    assert "(max_usd)" in it.store.wait(tags.NOTICE, level="error").text
    assert it.session.change_setting("max_usd", None)
    it.ask_and_wait("sixth?")


@pytest.mark.parametrize(("key", "value"), [("max_usd", 2.0), ("model_timeout", 7.0)])
def test_both_models_are_recreated(open_session: OpenSession, key: str, value: float) -> None:
    it = open_session(reflection_model="demo")
    agent = it.session.agent.agent
    nodes = agent._nodes
    answering = nodes.llm
    checking = nodes.reflection_llm
    assert checking is not None
    assert it.session.change_setting(key, value)
    wait_for(lambda: nodes.llm is not answering and nodes.reflection_llm is not checking)
    assert nodes.reflection_llm is not None


def test_newest_of_two_pending_changes_wins(open_session: OpenSession) -> None:
    it = open_session()
    thread = it.session.agent
    _ = thread.agent
    setting = 2
    holding = []
    began = threading.Event()
    turn_over = threading.Event()
    second_came = threading.Event()

    def first(agent: ReplAgent) -> None:
        setting_at_start = setting
        began.set()
        turn_over.wait(60)
        holding.append(setting_at_start)

    def second(agent: ReplAgent) -> None:
        holding.append(setting)
        second_came.set()

    thread.change(first)
    began.wait(60)
    setting = 3
    thread.change(second)
    second_came.wait(0.5)  # it must not come before the first one
    turn_over.set()
    wait_for(lambda: len(holding) == 2)
    assert holding == [2, 3]


def test_model_without_a_provider_uses_the_current_one(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no-secret")
    it = open_session()
    with pytest.raises(ModelError, match="There is no model 'gpt-4o'"):
        it.session.set_model("gpt-4o")
    assert it.session.change_setting("provider", "openai")
    it.session.set_model("gpt-4o")
    assert it.session.model == "openai:gpt-4o"
    assert it.session.agent.party == "gpt-4o"
    assert it.session.change_setting("provider", None)
    it.session.renew_model()
    assert accepts_pictures(it.session.models.make()), "the chosen model stays"


def test_the_command_says_how_the_model_is_led(service: Service, open_session: OpenSession) -> None:
    it = open_session(model="openai:coder-1.5b")
    assert SESSION_COMMANDS["model"].run(it.session, "") == (
        "openai:coder-1.5b answers (loop: single, because it has 1.5 billion parameters,"
        " as its name says). /model NAME chooses another model."
    )


# The model of a session for which none is set.


def test_model_of_a_local_server_answers_and_is_named(
    service: Service, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.setattr(local_servers, "_DISCOVERY_TIMEOUT_S", 30.0)
    service.documents = {"/v1/models": {"data": [{"id": "qwen"}]}}
    service.replies = [OPENAI.reply("A model.")]
    store = Watched()
    session = Session(
        load_settings(), ProcessKernel(), HeadlessFrontend(), store=store, name="test"
    )
    try:
        session.start()
        assert session.model == "llamacpp:qwen"
        notice = f"No model is set, so the one found at {service.url} answers: llamacpp:qwen."
        assert store.wait(tags.NOTICE).text == f"{notice} /model chooses another one."
        session.submit("ask", "who answers?")
        usage = store.wait(tags.USAGE)
        assert (usage.attrs["cost"], usage.attrs["input_tokens"]) == (0, 1000)
        assert "tools" not in service.asked[0], "models on this machine write code instead"
    finally:
        session.close()


def test_a_session_starts_although_no_model_can_be_looked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(local_servers, "start_thread", refuse)
    store = Watched()
    session = Session(
        load_settings(), ProcessKernel(), HeadlessFrontend(), store=store, name="test"
    )
    try:
        session.start()
        assert session.model == "demo"
        assert store.wait(tags.NOTICE).text == (
            "The search for a model on this machine failed (RuntimeError: can't start new thread),"
            " so demo answers. /model chooses a model."
        )
    finally:
        session.close()


@pytest.fixture
def fake(project: Path, install_claude: InstallClaude) -> FakeClaude:
    return install_claude("answers", answers=["One.", "Two."])


def test_process_starts_while_a_question_is_typed_and_answers_it(
    fake: FakeClaude, open_session: OpenSession
) -> None:
    it = open_session(model="claude", reflection="never")
    it.session.agent.warm_up()
    wait_for(lambda: fake.starts)
    assert fake.prompts == []
    it.session.agent.warm_up()
    for turn, question in enumerate(("first?", "second?"), 1):
        it.session.submit("ask", question)
        it.store.wait(tags.ASSISTANT_CHAT, turn=turn)
    assert len(fake.starts) == 1
    # Nothing is prepared while a turn ends.
    wait_for(lambda: not it.session.agent.in_turn)
    os.kill(fake.starts[0]["pid"], 9)
    wait_for(lambda: not alive(fake.starts[0]["pid"]))
    it.session.agent.warm_up()
    wait_for(lambda: len(fake.starts) == 2)


# The record of the window's use after each request: the provider's count, or an estimate.


class Windows(logging.Handler):
    def __init__(self, it: Opened) -> None:
        super().__init__()
        self.reported: list[records.Window] = []
        it.session.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(typed_record := records.get_record(record), records.Window):
            self.reported.append(typed_record)


def test_token_count_of_the_provider_is_used(
    open_session: OpenSession, service: Service, protocol: Protocol
) -> None:
    it = open_session(model=protocol.spec, reflection="never")
    windows = Windows(it)
    service.replies = [protocol.reply("Yes.")]
    it.session.agent.ask("one?")
    (window,) = windows.reported
    assert (window.tokens, window.estimated) == (1_000, False)
    assert window.size > 8_000


def test_missing_count_is_estimated(open_session: OpenSession, service: Service) -> None:
    it = open_session(model=OPENAI.spec, reflection="never")
    windows = Windows(it)
    end = [piece for piece in OPENAI.end if b"usage" not in piece]
    service.replies = [OPENAI.sending([OPENAI.words("Yes."), *end])]
    it.session.agent.ask("one? " * 2_000)
    (window,) = windows.reported
    assert window.estimated
    sent = [str(message["content"]) for message in service.asked[-1]["messages"]]
    tools = str(service.asked[-1].get("tools", ""))
    assert abs(window.tokens / estimated_tokens([*sent, tools]) - 1) < 0.1


def test_no_window_is_reported_for_an_unknown_size_or_after_a_failure(
    open_session: OpenSession, service: Service
) -> None:
    it = open_session(model="openai:our-own-model", reflection="never")
    windows = Windows(it)
    service.replies = [OPENAI.reply("Yes.")]
    it.session.agent.ask("one?")
    assert not windows.reported
    it = open_session(model=OPENAI.spec, reflection="never")
    windows = Windows(it)
    service.replies = [Reply([b"no"], 400)]
    with pytest.raises(Exception, match=r"."):
        it.session.agent.ask("one?")
    assert not windows.reported


def test_summary_makes_the_window_use_smaller(open_session: OpenSession, service: Service) -> None:
    it = open_session(model=OPENAI.spec, reflection="never")
    windows = Windows(it)
    service.replies = [OPENAI.reply("All about pears. " * 500)]
    it.session.agent.ask("one?")
    it.session.agent.ask("two?")
    service.replies = [OPENAI.reply("Pears.")]
    it.session.compact("")
    wait_for(lambda: len(windows.reported) == 3)
    assert windows.reported[-1].estimated
    wait_for(lambda: not it.session.agent.in_turn)
