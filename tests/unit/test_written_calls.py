"""Tool calls that a model writes as text are made or refused, and never run as Python; tags that it
copies are taken off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from mahtab_tui.agent import ReplAgent
from mahtab_tui.agent.tool_calls import parse_written_calls
from mahtab_tui.bus.answers import strip_copied_tags
from tests import tags
from tests.agents import Desk, code, words
from tests.tool_calling import Caller, text_answer

TOOLS = ("read_file", "search_code")


@pytest.fixture
def desk(project: Path) -> Iterator[Desk]:
    (project / "app.py").write_text("x = 1\n")
    desk = Desk(project)
    yield desk
    desk.session.close()


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
    rest, (call,) = parse_written_calls(
        f"Let me see.\n\n{text}" if text[0] in "`<" else text, TOOLS
    )
    assert (call["name"], call["arguments"], call["problem"]) == (
        "read_file",
        {"path": "app.py"},
        "",
    )
    assert rest in ("", "Let me see.")


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


def test_a_written_call_runs_the_tool_and_not_the_code(desk: Desk) -> None:
    model = Caller(
        answers=[
            text_answer("```python\n{'name': 'read_file', 'arguments': {'path': 'app.py'}}\n```"),
            text_answer("x is one."),
        ]
    )
    agent = ReplAgent(desk.host, model, tools=desk.session.tools())
    assert agent.ask_sync("what is x?") == "x is one."
    assert desk.of(tags.ASSISTANT_REPL_IN) == []
    assert desk.of(tags.ASSISTANT_TOOL)[-1].text == "     1  x = 1"
    call, result = model.asked[1][-2:]
    assert isinstance(call, AIMessage)
    assert call.tool_calls[0]["name"] == "read_file"
    assert "x = 1" in result.text


def test_a_written_call_of_an_unknown_tool_is_refused_with_a_sentence(desk: Desk) -> None:
    text = "```python\n{'name': 'run_sql', 'arguments': {'q': 'drop'}}\n```"
    agent = ReplAgent(
        desk.host,
        desk.replay(words(text), words("I see.", match="There is no tool 'run_sql'")),
        tools=desk.session.tools(),
    )
    assert agent.ask_sync("what is x?") == "I see."
    assert desk.of(tags.ASSISTANT_REPL_IN) == []


def test_copied_tags_are_removed_before_code_runs(desk: Desk) -> None:
    copied = code("print(6 * 7)</assistant-repl-out>")
    agent = ReplAgent(
        desk.host,
        desk.replay(copied, words('<assistant-repl-out cell="1">42</assistant-repl-out>')),
    )
    assert agent.ask_sync("what is it?") == "42"
    assert desk.of(tags.ASSISTANT_REPL_OUT)[0].attrs["status"] == "ok"


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
