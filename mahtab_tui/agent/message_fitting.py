"""Cuts messages so that they fit into a model's window."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.message_sizes import _drop_oldest, _question_index
from mahtab_tui.agent.tool_calls import calls_as_text
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import ATTRIBUTES
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
        start_tag, _, content, end_tag = match.groups()
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
