"""The beginning of a prompt stays the same from call to call, so that a service's cache serves
it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from mahtab_tui.agent import ReplAgent
from tests.agents import Desk
from tests.skills import trust_skills, write_skill
from tests.tool_calling import Caller, calls, text_answer


@pytest.fixture
def desk(project: Path) -> Iterator[Desk]:
    (project / "app.py").write_text("x = 1\n")
    write_skill(project / "skills", "tidy", "Tidy up", "Put things away.")
    trust_skills(project)
    desk = Desk(project)
    yield desk
    desk.session.close()


def code(text: str) -> Any:
    return text_answer(f"```python\n{text}\n```")


def sent(messages: list[BaseMessage]) -> list[tuple[str, str, list[Any]]]:
    return [
        (each.type, str(each.text), each.tool_calls if isinstance(each, AIMessage) else [])
        for each in messages
    ]


def assert_each_begins_with_the_one_before(model: Caller) -> None:
    """Each request has the messages of the one before; only its last one may have grown."""
    requests = [sent(messages) for messages in model.asked]
    for before, after in pairwise(requests):
        *same, (kind, text, made) = before
        assert after[: len(same)] == same
        assert after[len(same)][0] == kind
        assert after[len(same)][1].startswith(text)
        assert after[len(same)][2] == made
    assert all(tools == model.tools[0] for tools in model.tools)


def test_prefix_is_stable_with_errors_repetitions_tools_and_closing_words(desk: Desk) -> None:
    desk.namespace["prices"] = [3, 4, 50]
    answers = [
        code("print(sum(prices))"),
        text_answer("The sum is 57."),
        calls(("read_file", {"path": "app.py"}), words="Let me see."),
        code("nonesuch"),
        code("nonesuch"),
        code("n = len(prices)"),
        code("n = len(prices)"),
        text_answer("There are 3."),
        text_answer("The largest is 99."),
        code("print(max(prices))"),
        text_answer("It is 50."),
        calls(("load_skill", {"name": "tidy"})),
        text_answer("Done."),
        text_answer("So it is."),
    ]
    model = Caller(answers=answers)
    agent = ReplAgent(desk.host, model, tools=desk.session.tools())
    agent.ask_sync("What is the sum of prices?")
    agent.ask_sync("How many prices are in app.py?")
    desk.session.run_code("prices.append(7)")
    agent.ask_sync("What is the largest of the prices?")
    agent.ask_sync("Tidy up.")
    os.mkdir("data")
    os.chdir("data")
    agent.ask_sync("Is it so?")
    assert not model.answers
    assert_each_begins_with_the_one_before(model)


def test_the_system_prompt_and_the_tools_are_short(desk: Desk, project: Path) -> None:
    """About 1,600 tokens stood before the first word of data once, and as many of tools."""
    from langchain_core.utils.function_calling import convert_to_openai_tool

    from mahtab_tui.llm.usage import estimated_tokens

    (project / "skills" / "tidy" / "SKILL.md").unlink()
    model = Caller(answers=[text_answer("Hello.")])
    agent = ReplAgent(desk.host, model, tools=desk.session.tools())
    agent.ask_sync("Hello")
    tools = [json.dumps(convert_to_openai_tool(tool)) for tool in desk.session.tools().offered]
    assert [tool["function"]["name"] for tool in map(json.loads, tools)] == [
        "search_code",
        "read_file",
    ]
    assert estimated_tokens([str(model.asked[0][0].text), *tools]) <= 500
