"""Cuts messages so that they fit into a model's window."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.tool_calls import calls_as_text
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import ATTRIBUTES
from mahtab_tui.llm import prompts
from mahtab_tui.llm.token_estimates import estimate_message_tokens

MAX_SHORT_OUTPUT_CHARS = 600
"""Characters of an output that is shortened."""
_FIT_OUTPUT_CHARS = (
    8 * MAX_SHORT_OUTPUT_CHARS,
    MAX_SHORT_OUTPUT_CHARS,
    MAX_SHORT_OUTPUT_CHARS // 4,
)
"""Characters of each output, tried one after the other until a conversation fits."""
# All external text is escaped, so it can contain none of the tags below.
OUTPUT = re.compile(
    rf"(<((?:user|assistant)-repl-out|assistant-tool){ATTRIBUTES}>)(.*?)(</\2>)", re.DOTALL
)
"""Start tag, name, content and end tag of an output."""


def estimate_size(messages: Sequence[AnyMessage]) -> int:
    """Return about how many tokens messages have."""
    return estimate_message_tokens(str(message.text) for message in messages)


def with_short_outputs(text: str, max_chars: int = MAX_SHORT_OUTPUT_CHARS) -> str:
    """Shorten each output in a message to `max_chars`."""

    def short_element(match: re.Match[str]) -> str:
        start_tag, _name, content, end_tag = match.groups()
        return f"{start_tag}{shorten(content, max_chars)}{end_tag}"

    return OUTPUT.sub(short_element, text)


def fit(
    messages: Sequence[AnyMessage], max_tokens: int, turn: int | None = None
) -> list[AnyMessage]:
    """Reduce messages to about `max_tokens`: shorten outputs, drop the beginning, shorten what
    remains.

    Args:
        messages: The conversation.
        max_tokens: Tokens that all messages may have.
        turn: The number of the question that is being answered, which is kept with its newest
            steps; None if the last message is the question.
    """
    if estimate_size(messages) <= max_tokens:
        return list(messages)

    # As text, because a tool call must not be separated from its result.
    fitted = calls_as_text(messages)
    for max_output_chars in _FIT_OUTPUT_CHARS:
        if estimate_size(fitted) <= max_tokens:
            return fitted
        for index, message in enumerate(fitted):
            if message.type == "human":
                text = with_short_outputs(str(message.text), max_output_chars)
                fitted[index] = type(message)(text)
    if estimate_size(fitted) <= max_tokens:
        return fitted

    fitted = _drop_oldest(fitted, _question_index(fitted, turn), max_tokens)
    text = str(fitted[0].text)
    if estimate_size(fitted) > max_tokens:
        text = shorten(text, max(MAX_SHORT_OUTPUT_CHARS, 2 * max_tokens))
    fitted[0] = HumanMessage(text)
    return fitted


def _question_index(messages: Sequence[AnyMessage], turn: int | None) -> int:
    """Return the index of the question that is being answered: before the first answer of its
    turn."""
    for index, message in enumerate(messages):
        if index > 0 and (message.id or "").startswith(f"{turn}."):
            return index - 1
    return len(messages) - 1


def _drop_oldest(
    messages: Sequence[AnyMessage], question_index: int, max_tokens: int
) -> list[AnyMessage]:
    """Drop earlier questions, and then the oldest steps of the answer to the last one, until the
    messages fit. Notes say what is left out.

    Args:
        messages: The conversation, as text.
        question_index: The index of the question that is being answered.
        max_tokens: Tokens that all messages may have.
    """
    earlier_messages = list(messages[:question_index])
    last_question = messages[question_index]
    question = str(last_question.text)
    steps = list(messages[question_index + 1 :])
    notes = [prompts.BEGINNING_OMITTED, prompts.STEPS_OMITTED]
    available_tokens = max_tokens - estimate_message_tokens([question, *notes])

    # Whole questions with their answers are dropped, so that the first message is the user's.
    while earlier_messages and estimate_size([*earlier_messages, *steps]) > available_tokens:
        del earlier_messages[0]
        while earlier_messages and earlier_messages[0].type != "human":
            del earlier_messages[0]
    if not earlier_messages and question_index > 0:
        question = f"{prompts.BEGINNING_OMITTED}\n\n{question}"
    elif len(earlier_messages) < question_index:
        earlier_messages[0] = HumanMessage(
            f"{prompts.BEGINNING_OMITTED}\n\n{earlier_messages[0].text}"
        )

    # A step is an answer and its results; the newest one is kept.
    step_message_count = len(steps)
    while len(steps) > 2 and estimate_size(steps) > available_tokens:
        del steps[:2]
    if len(steps) < step_message_count:
        question = f"{question}\n\n{prompts.STEPS_OMITTED}"
    return [*earlier_messages, last_question.model_copy(update={"content": question}), *steps]
