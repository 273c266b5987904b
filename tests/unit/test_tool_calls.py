"""Tool calls of a model, in the service's form and as text of an answer."""

from __future__ import annotations

import json
import queue
import threading
from collections import Counter
from concurrent.futures import CancelledError, Future
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from pydantic import BaseModel

from mahtab_tui.agent import ReplAgent
from mahtab_tui.agent.state import AgentState
from mahtab_tui.agent.tool_runs import MAX_CALLS
from mahtab_tui.agent.written_calls import parse_written_calls
from mahtab_tui.bus.answers import strip_copied_tags
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.llm.answer_metadata import RESTARTED
from mahtab_tui.llm.base import ModelError
from mahtab_tui.tools import Tool, ToolContext
from tests import tags
from tests.agents import FakeModel, RecordedSession, code, read, words
from tests.tool_calling import Answer, Caller, calling_agent, calls
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("project_files")

TOOLS = ("read_file", "search_code")


class Nothing(BaseModel):
    pass


waits = threading.Event()
released = threading.Event()


def wait(at: ToolContext, arguments: Nothing) -> str:
    """Wait, and ignore cancellation."""
    waits.set()
    released.wait(20)
    return "late"


seen: queue.SimpleQueue[bool] = queue.SimpleQueue()


def heed(at: ToolContext, arguments: Nothing) -> str:
    """Wait, then record whether it was cancelled."""
    waits.set()
    released.wait(20)
    seen.put(at.cancelled.is_set())
    return "late"


def leave(at: ToolContext, arguments: Nothing) -> str:
    """End the thread."""
    raise KeyboardInterrupt


waiting = Tool(wait, Nothing)
heeding = Tool(heed, Nothing)
leaving = Tool(leave, Nothing)


@pytest.fixture
def own_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the tools above; must be requested before `recorded_session`."""
    names = ("waiting", "heeding", "leaving")
    entry_points = EntryPoints(
        EntryPoint(name, f"{__name__}:{name}", "mahtab_tui.tools") for name in names
    )
    monkeypatch.setattr("mahtab_tui.tools.loading.entry_points", lambda group: entry_points)


def run(
    recorded_session: RecordedSession, *answers: Answer, max_turns: int = 5, **options: Any
) -> tuple[AgentState, Caller]:
    model = Caller(answers=list(answers), **options)
    tools = recorded_session.session.tools()
    return recorded_session.run(
        llm=model, max_turns=max_turns, tools=tools, reflection="never"
    ), model


def tool_events(recorded_session: RecordedSession) -> list[tuple[str, str, str]]:
    return [
        (record.attrs["call"], record.attrs["name"], record.attrs["state"])
        for record in recorded_session.of(tags.ASSISTANT_TOOL)
    ]


def results(messages: list[BaseMessage]) -> list[str]:
    return [str(message.text) for message in messages if isinstance(message, ToolMessage)]


def test_call_result_reaches_the_model_the_user_and_the_state(
    recorded_session: RecordedSession,
) -> None:
    arguments = {"path": "app.py", "end": 1}
    call = calls(("read_file", arguments), words="Let me see.")
    state, model = run(recorded_session, call, "x is 1.")
    assert state["current_response"] == "x is 1."
    assert recorded_session.agent_states() == ["thinking", "thinking", "done"]
    assert tool_events(recorded_session) == [
        ("1.0.0", "read_file", "running"),
        ("1.0.0", "read_file", "ok"),
    ]
    record = recorded_session.of(tags.ASSISTANT_TOOL)[-1]
    assert record.text == "     1  x = 1"
    assert {"turn": 1, "step": 0, "party": "replay"}.items() <= record.attrs.items()
    assert [record.text for record in recorded_session.of(tags.ASSISTANT_CHAT)] == [
        "Let me see.",
        "x is 1.",
    ]
    _, (question, message, result) = model.asked
    assert question.type == "human"
    assert isinstance(message, AIMessage)
    sent = {"id": "id-0", "name": "read_file", "args": arguments, "type": "tool_call"}
    assert message.tool_calls == [sent]
    assert isinstance(result, ToolMessage)
    assert result.tool_call_id == "id-0"
    assert "     1  x = 1</assistant-tool>" in result.text
    assert model.tools[0] == ["search_skills", "load_skill", "search_code", "read_file"]


def test_several_calls_of_one_answer_run_in_order_with_a_result_each(
    recorded_session: RecordedSession,
) -> None:
    code = ("search_code", {"pattern": "y"})
    skill = ("load_skill", {"name": "tidy"})
    state, model = run(
        recorded_session, calls(code, skill, ("search_skills", {"query": "tidy"})), "Done."
    )
    completed_calls = [
        call for call, _, outcome in tool_events(recorded_session) if outcome == "ok"
    ]
    assert completed_calls == ["1.0.0", "1.0.1", "1.0.2"]
    sent = [message.tool_call_id for message in model.asked[1] if isinstance(message, ToolMessage)]
    assert sent == ["id-0", "id-1", "id-2"]
    assert state["tool_count"] == 3


def test_shown_arguments_are_the_ones_that_run(
    recorded_session: RecordedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown_arguments: list[str] = []
    recorded_session.when(
        tags.ASSISTANT_TOOL,
        lambda record: shown_arguments.append(record.attrs["arguments"]),
        state="running",
    )
    tools = recorded_session.session.tools()
    ran: list[Any] = []
    run_tool = tools.run

    def noting(name: str, arguments: Any, cancelled: Any) -> str:
        ran.append(arguments)
        assert len(shown_arguments) == len(ran), "it is shown before it runs"
        return run_tool(name, arguments, cancelled)

    monkeypatch.setattr(tools, "run", noting)
    requested_arguments: list[dict[str, Any]] = [
        {"pattern": 'a"b\\n\u202e', "limit": 3},
        {"pattern": "\ud800"},
    ]
    run(
        recorded_session,
        calls(*(("search_code", arguments) for arguments in requested_arguments)),
        "Done.",
    )
    assert (
        [json.loads(text) for text in shown_arguments]
        == ran
        == [requested_arguments[0], {"pattern": "\ufffd"}]
    )
    assert shown_arguments[1] == '{"pattern": "\ufffd"}'


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ('{"path": "app', "The arguments cannot be read as JSON: "),
        ('{"path": "app.py"', "The arguments cannot be read as JSON: "),
        ("[1]", "The arguments cannot be read as JSON: not an object."),
        ("[" * 100_000, "The arguments cannot be read as JSON: "),
        ('{"path": 3}', "read_file was not called: path: Input should be a valid string."),
        ('{"paht": "app.py"}', "read_file was not called: path: Field required"),
        ("", "read_file was not called: path: Field required."),
        ('{"path": "xyz.cbl"}', "File not found: xyz.cbl"),
    ],
)
def test_impossible_call_gives_one_sentence_and_the_model_continues(
    recorded_session: RecordedSession, arguments: str, sentence: str
) -> None:
    state, model = run(recorded_session, calls(("read_file", arguments)), "I see.")
    assert state["current_response"] == "I see."
    assert recorded_session.of(tags.ASSISTANT_TOOL)[-1].attrs["state"] == "error"
    assert sentence in recorded_session.of(tags.ASSISTANT_TOOL)[-1].text
    assert sentence in results(model.asked[1])[0]


def test_unknown_tool_error_lists_the_tools(recorded_session: RecordedSession) -> None:
    _, model = run(recorded_session, calls(("read_fiel", {})), "I see.")
    names = "search_skills, load_skill, search_code, read_file"
    assert f"There is no tool 'read_fiel'. Tools: {names}." in results(model.asked[1])[0]


def test_raising_tool_gives_one_sentence(
    own_tools: None, recorded_session: RecordedSession
) -> None:
    _, model = run(recorded_session, calls(("leave", {})), "I see.")
    assert ">leave failed: KeyboardInterrupt.</" in results(model.asked[1])[0]


def test_call_limit_ends_calls_but_tools_stay_in_the_prompt(
    recorded_session: RecordedSession,
) -> None:
    read_calls = [("read_file", {"path": "app.py", "end": end}) for end in range(1, MAX_CALLS + 3)]
    state, model = run(recorded_session, calls(*read_calls), "That is enough.")
    outcomes = Counter(outcome for _, _, outcome in tool_events(recorded_session))
    assert outcomes == {"ok": MAX_CALLS, "refused": 2, "running": MAX_CALLS}
    assert state["tool_count"] == MAX_CALLS, "refused calls do not count"
    assert (model.tools[1], model.forbidden) == (model.tools[0], [False, True])
    sent = "".join(results(model.asked[1]))
    assert sent.count("Not called: one question may make 25 tool calls.") == 2
    assert state["current_response"] == "That is enough."


@pytest.mark.parametrize("max_turns", [5, 1])
def test_calls_and_code_of_one_answer_run_and_the_closing_answer_may_not_call(
    recorded_session: RecordedSession, max_turns: int
) -> None:
    both = calls(("read_file", {"path": "app.py"}), words="Both.\n\n```python\nz = 3\n```\n")
    state, model = run(recorded_session, both, "So it is.", max_turns=max_turns)
    assert (recorded_session.namespace["z"], state["current_response"]) == (3, "So it is.")
    assert (model.tools[1], model.forbidden) == (model.tools[0], [False, max_turns == 1])
    assert [message.type for message in model.asked[1]] == ["human", "ai", "tool", "human"]
    assert (state["step_count"], state["tool_count"]) == (1, 1)


def stopped_while_it_waits(agent: ReplAgent) -> None:
    waits.clear()
    released.clear()

    def stop() -> None:
        assert waits.wait(20)
        agent.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        agent.ask_sync("what is it?")
    finally:
        stopper.join()


def test_stopped_tool_is_cancelled_even_after_the_next_question_begins(
    own_tools: None, recorded_session: RecordedSession
) -> None:
    agent, _ = calling_agent(recorded_session, calls(("heed", {})), "I see.")
    try:
        stopped_while_it_waits(agent)
        assert agent.ask_sync("and now?") == "I see."
    finally:
        released.set()
    assert seen.get(timeout=60)


def test_stop_during_a_call_abandons_it_and_ends_the_turn(
    own_tools: None, recorded_session: RecordedSession
) -> None:
    agent, model = calling_agent(
        recorded_session, calls(("wait", {}), ("read_file", {"path": "app.py"}))
    )
    try:
        stopped_while_it_waits(agent)
    finally:
        released.set()
    assert tool_events(recorded_session) == [
        ("1.0.0", "wait", "running"),
        ("1.0.0", "wait", "stopped"),
    ]
    assert recorded_session.agent_states()[-1] == "stopped"
    assert len(model.asked) == 1
    assert "The user stopped the turn before this had ended." in agent.messages[-1].text


def test_cancelling_a_question_that_waits_leaves_the_running_one(
    own_tools: None, recorded_session: RecordedSession
) -> None:
    agent, model = calling_agent(recorded_session, calls(("wait", {})), "I see.")
    waits.clear()
    released.clear()
    running: Future[str] = Future()
    waiting: Future[str] = Future()
    cancellation = Cancellation()

    def ask(answer: Future[str], question: str, cancellation: Cancellation | None = None) -> None:
        try:
            answer.set_result(agent.ask_sync(question, cancellation=cancellation))
        except CancelledError as error:
            answer.set_exception(error)

    threading.Thread(target=ask, args=(running, "what is it?")).start()
    try:
        assert waits.wait(20)
        threading.Thread(target=ask, args=(waiting, "and now?", cancellation)).start()
        cancellation.cancel()
        with pytest.raises(CancelledError):
            waiting.result(60)
    finally:
        released.set()
    assert running.result(60) == "I see."
    assert len(model.asked) == 2


def test_a_question_that_ends_while_it_is_cancelled_leaves_the_next_one(
    own_tools: None, recorded_session: RecordedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, model = calling_agent(recorded_session, calls(("wait", {})), "I see.", "So it is.")
    waits.clear()
    released.clear()
    cancellation = Cancellation()
    answers: list[Future[str]] = [Future(), Future()]

    def ask(answer: Future[str], question: str, cancellation: Cancellation | None = None) -> None:
        answer.set_result(agent.ask_sync(question, cancellation=cancellation))

    second_is_asked = threading.Event()
    is_stopped = threading.Event()
    stop = agent.stop

    def stop_late() -> None:
        released.set()
        wait_for(lambda: agent.messages[-1].text == "I see.")
        second_is_asked.wait(0.5)
        stop()
        is_stopped.set()

    def wait_for_stop(number: int) -> None:
        if number == 3:
            second_is_asked.set()
            assert is_stopped.wait(20)

    monkeypatch.setattr(agent, "stop", stop_late)
    model.before = wait_for_stop
    threading.Thread(target=ask, args=(answers[0], "what is it?", cancellation)).start()
    try:
        assert waits.wait(20)
        threading.Thread(target=ask, args=(answers[1], "and now?")).start()
        cancellation.cancel()
    finally:
        released.set()
    assert answers[0].result(60) == "I see."
    assert answers[1].result(60) == "So it is."


def test_stopped_answer_calls_nothing(recorded_session: RecordedSession) -> None:
    def stop(number: int) -> None:
        recorded_session.host.cancelled.set()

    state, _ = run(
        recorded_session, calls(("read_file", {"path": "app.py"}), words="Let me"), before=stop
    )
    assert state["stopped"]
    assert tool_events(recorded_session) == []


@pytest.mark.parametrize("ends", ["stopped", "failed"])
def test_calls_of_a_truncated_answer_are_ignored(ends: str) -> None:
    cancelled = threading.Event()

    def on_token(token: str | None) -> None:
        if ends == "stopped":
            cancelled.set()
        else:
            raise ModelError("The line is dead.")

    model = FakeModel(script=[*calls(("read_file", {"path": "app.py"})), "And then"])
    options = {"tools": ["read_file"]}
    answer = read(model, cancelled=cancelled, on_token=on_token, options=options)
    expected_end = (True, "") if ends == "stopped" else (False, "The line is dead.")
    assert (answer.is_stopped, answer.failure) == expected_end
    assert (answer.message, list(answer.calls)) == (None, [])


def test_calls_before_an_answer_starts_again_are_dropped() -> None:
    dropped_pieces = calls(("read_file", {"path": "old.py"}), ("read_file", {"path": "older.py"}))
    restart = AIMessageChunk(content="", response_metadata=RESTARTED)
    new_pieces = calls(("read_file", {"path": "new.py"}))
    model = FakeModel(script=[*dropped_pieces, restart, *new_pieces])
    answer = read(model, options={"tools": ["read_file"]})
    assert [call["arguments"] for call in answer.calls] == [{"path": "new.py"}]


# Tool calls that a model writes as text are made or refused, and never run as Python; copied tags
# are removed.


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "read_file", "arguments": {"path": "app.py"}}',
        '```json\n{"name": "read_file", "arguments": {"path": "app.py"}}\n```',
        "```python\n{'name': 'read_file', 'arguments': {'path': 'app.py'}}\n```",
        "```\n[{'tool': 'read_file', 'args': {'path': 'app.py'}}]\n```",
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "app.py"}}\n</tool_call>',
        '<tool_call>{"name": "read_file", "arguments": "{\\"path\\": \\"app.py\\"}"}',
        '{"type": "function", "function": {"name": "read_file", "parameters": {"path": "app.py"}}}',
    ],
)
def test_written_call_is_parsed(text: str) -> None:
    introduction = "Let me see.\n\n" if text[0] in "`<" else ""
    prose, (call,) = parse_written_calls(introduction + text, TOOLS)
    arguments = {"path": "app.py"}
    assert (call["name"], call["arguments"], call["problem"]) == ("read_file", arguments, "")
    assert prose in ("", "Let me see.")


def test_written_calls_have_different_ids() -> None:
    call = '{"name": "read_file", "arguments": {}}'
    text = f"```json\n[{call}, {call}]\n```\n```json\n{call}\n```"
    _, written_calls = parse_written_calls(text, TOOLS)
    assert [call["id"] for call in written_calls] == ["written_0", "written_1", "written_2"]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nconfig = {'name': 'read_file', 'arguments': {}}\n```",
        "```python\n{'name': 'Ann', 'age': 3}\n```",
        '```json\n{"rows": [1, 2]}\n```',
        'A call looks like {"name": "read_file", "arguments": {}}.',
        "```json\n" + "[" * 10_000 + "\n```",
        "{" * 50_000,
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert parse_written_calls(text, TOOLS) == (text, [])


@given(st.text(alphabet="`{}[]<>_tol/c ='\"name\n:,python", max_size=200))
def test_any_text_is_accepted(text: str) -> None:
    parse_written_calls(text, TOOLS)


def test_a_written_call_runs_the_tool_and_not_the_code(recorded_session: RecordedSession) -> None:
    written = "```python\n{'name': 'read_file', 'arguments': {'path': 'app.py'}}\n```"
    agent, model = calling_agent(recorded_session, written, "x is one.")
    assert agent.ask_sync("what is x?") == "x is one."
    assert recorded_session.of(tags.ASSISTANT_REPL_IN) == []
    assert recorded_session.of(tags.ASSISTANT_TOOL)[-1].text.startswith("     1  x = 1\n")
    call, result = model.asked[1][-2:]
    assert isinstance(call, AIMessage)
    assert call.tool_calls[0]["name"] == "read_file"
    assert "x = 1" in result.text


def test_a_written_call_of_an_unknown_tool_is_refused_with_a_sentence(
    recorded_session: RecordedSession,
) -> None:
    text = words("```python\n{'name': 'run_sql', 'arguments': {'q': 'drop'}}\n```")
    answer = words("I see.", match="There is no tool 'run_sql'")
    agent = recorded_session.agent(text, answer, tools=recorded_session.session.tools())
    assert agent.ask_sync("what is x?") == "I see."
    assert recorded_session.of(tags.ASSISTANT_REPL_IN) == []


def test_copied_tags_are_removed_before_code_runs(recorded_session: RecordedSession) -> None:
    copied = code("print(6 * 7)</assistant-repl-out>")
    agent = recorded_session.agent(
        copied, words('<assistant-repl-out cell="1">42</assistant-repl-out>')
    )
    assert agent.ask_sync("what is it?") == "42"
    assert recorded_session.of(tags.ASSISTANT_REPL_OUT)[0].attrs["status"] == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "x = '</assistant-repl-out>' + y",
        "<assistant-repl-in>\nx = 1\n</assistant-repl-in>",
        "a < b > c",
        "<b>bold</b>",
    ],
)
def test_other_tags_stay_in_the_text(text: str) -> None:
    assert strip_copied_tags(text) == text
