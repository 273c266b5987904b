"""The messages of a turn, as the nodes of the graph change them."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from mahtab_tui.agent.host import ToolCall
from mahtab_tui.agent.model_calls import ModelAnswer
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import to_xml
from mahtab_tui.bus.records import AssistantTool
from mahtab_tui.llm import prompts
from mahtab_tui.llm.prompt_sections import escape_sections

_MAX_UNFINISHED_CHARS = 20_000
"""Characters of an answer without an end that go back to the model."""
HINT_TITLE = "Hint: "
"""Begins the line after an error that says how to fix it (see `worker.cells.hints`)."""


def tool_message(record: AssistantTool, call: ToolCall) -> ToolMessage:
    """Return the message with the result of a tool call."""
    element = escape_sections(to_xml(record, "call", "name", "arguments", "state"))
    return ToolMessage(element, tool_call_id=call["id"], name=call["name"])


def last_exchange(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return the last answer of the model and what follows it."""
    answer_indexes = [index for index, message in enumerate(messages) if message.type == "ai"]
    if not answer_indexes:
        return []
    return messages[answer_indexes[-1] :]


def without_exchange(messages: list[AnyMessage]) -> list[AnyMessage]:
    """Return messages without the last answer of the model and what follows it."""
    return messages[: len(messages) - len(last_exchange(messages))]


def error_ending(output: str) -> str:
    """Return the end of the output of code that failed: the error, and the hint about it if there
    is one."""
    lines = output.strip().splitlines()
    has_hint = lines[-1:] != [] and lines[-1].startswith(HINT_TITLE)
    return "\n".join(lines[-2:] if has_hint else lines[-1:])


def without_answer(messages: list[AnyMessage]) -> list[AnyMessage]:
    """Return messages without the answer at their end."""
    return messages[:-1] if messages[-1].type == "ai" else messages


def append_text(messages: list[AnyMessage], addition: str) -> list[AnyMessage]:
    """Add a text to the last message, or as a message after an answer."""
    if not isinstance(messages[-1], HumanMessage):
        return [*messages, HumanMessage(addition)]
    return [*messages[:-1], HumanMessage(f"{messages[-1].text}\n\n{addition}")]


def stored_text(answer: ModelAnswer) -> str:
    """Return an answer for the conversation; never empty, which some providers reject."""
    text = answer.text if answer.is_complete else shorten(answer.text, _MAX_UNFINISHED_CHARS)
    mark = ""
    if answer.is_stopped:
        mark = prompts.STOPPED_ANSWER
    elif answer.failure:
        mark = prompts.FAILED_ANSWER
    marked_text = "\n\n".join(filter(str.strip, (text, mark)))
    return marked_text or prompts.EMPTY_ANSWER
