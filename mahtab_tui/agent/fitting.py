"""Fits a conversation into a model's context window: shortens outputs first, then leaves out its beginning."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.tool_messages import in_words
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.llm import prompts
from mahtab_tui.llm.usage import tokens_in

SHORT = 600
"""Characters of a shortened output."""
OUTPUT = re.compile(r"(<((?:user|assistant)-repl-out|assistant-tool)(?: [\w-]+=\"[^\"]*\")*>)(.*?)(</\2>)", re.DOTALL)
"""A cell's output or a tool's result. It cannot contain its own end tag, because it is defused."""


def size(messages: Sequence[AnyMessage]) -> int:
    """Estimate the tokens of messages."""
    return tokens_in(str(message.text) for message in messages)


def with_short_outputs(text: str, limit: int = SHORT) -> str:
    """Shorten each output in a text to its head and tail."""
    return OUTPUT.sub(lambda found: f"{found[1]}{shorten(found[3], limit)}{found[4]}", text)


def fit(messages: Sequence[AnyMessage], room: int) -> list[AnyMessage]:
    """Reduce messages to about `room` tokens if needed: shorten outputs, then drop the beginning, then shorten what is left."""
    if size(messages) <= room:
        return list(messages)
    fitted = in_words(messages)  # a tool call must not be separated from its result
    for limit in (8 * SHORT, SHORT, SHORT // 4):
        if size(fitted) <= room:
            return fitted
        fitted = [type(message)(with_short_outputs(str(message.text), limit)) if message.type == "human" else message for message in fitted]
    if size(fitted) <= room:
        return fitted
    while len(fitted) > 1 and size(fitted) + tokens_in([prompts.BEGINNING_LEFT_OUT]) > room:
        del fitted[0]
        while len(fitted) > 1 and fitted[0].type != "human":
            del fitted[0]
    text = f"{prompts.BEGINNING_LEFT_OUT}\n\n{fitted[0].text}" if len(fitted) < len(messages) else str(fitted[0].text)
    fitted[0] = HumanMessage(shorten(text, max(SHORT, 2 * room)) if size(fitted) > room else text)
    return fitted
