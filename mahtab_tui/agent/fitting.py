"""Fits a conversation into a model's context window: shortens outputs first, then leaves out its
beginning. Estimates what fills it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.seeing import pictures_to_send
from mahtab_tui.agent.tool_messages import in_words
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.llm import prompts
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.token_estimate import estimated_tokens
from mahtab_tui.llm.usage import tokens_in

SHORT = 600
"""Characters of a shortened output."""
OUTPUT = re.compile(
    r"(<((?:user|assistant)-repl-out|assistant-tool)(?: [\w-]+=\"[^\"]*\")*>)(.*?)(</\2>)",
    re.DOTALL,
)
"""A cell's output or a tool's result. It cannot contain its own end tag, because it is defused."""
_SECTIONS = (
    "instructions",
    "skills",
    "loaded-skills",
    "mcp-servers",
    "earlier-conversation",
    "attachments",
)
_TAG = re.compile(rf"^<(/?)({'|'.join(_SECTIONS)})>$", re.MULTILINE)
"""Begins or ends one of the sections that precede a question. Texts from outside hold none, because
they are defused."""


def size(messages: Sequence[AnyMessage]) -> int:
    """Estimate the tokens of messages."""
    return tokens_in(str(message.text) for message in messages)


def with_short_outputs(text: str, limit: int = SHORT) -> str:
    """Shorten each output in a text to its head and tail."""
    return OUTPUT.sub(lambda found: f"{found[1]}{shorten(found[3], limit)}{found[4]}", text)


def fit(messages: Sequence[AnyMessage], room: int) -> list[AnyMessage]:
    """Reduce messages to about `room` tokens if needed: shorten outputs, then drop the beginning,
    then shorten what is left."""
    if size(messages) <= room:
        return list(messages)
    fitted = in_words(messages)  # a tool call must not be separated from its result
    for limit in (8 * SHORT, SHORT, SHORT // 4):
        if size(fitted) <= room:
            return fitted
        fitted = [
            type(message)(with_short_outputs(str(message.text), limit))
            if message.type == "human"
            else message
            for message in fitted
        ]
    if size(fitted) <= room:
        return fitted
    while len(fitted) > 1 and size(fitted) + tokens_in([prompts.BEGINNING_LEFT_OUT]) > room:
        del fitted[0]
        while len(fitted) > 1 and fitted[0].type != "human":
            del fitted[0]
    text = (
        f"{prompts.BEGINNING_LEFT_OUT}\n\n{fitted[0].text}"
        if len(fitted) < len(messages)
        else str(fitted[0].text)
    )
    fitted[0] = HumanMessage(shorten(text, max(SHORT, 2 * room)) if size(fitted) > room else text)
    return fitted


def sizes_of(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], room: int
) -> dict[str, int]:
    """Return tokens by kind: sections by name (``earlier-conversation`` is the summary),
    ``outputs``, ``words`` and ``pictures``.

    room: tokens that the model may read; pictures beyond it are not sent.
    """
    texts: dict[str, list[str]] = {name: [] for name in (*_SECTIONS, "outputs", "words")}
    for message in messages:
        text = str(message.text)
        if message.type == "human":
            text = _without_sections(text, texts)
            texts["outputs"] += [found[3] for found in OUTPUT.finditer(text)]
            text = OUTPUT.sub("", text)
        texts["words"].append(text)
    sizes = {name: estimated_tokens(each) for name, each in texts.items()}
    return sizes | {
        "pictures": sum(
            picture.tokens for picture in pictures_to_send(messages, pictures, room).values()
        )
    }


def _without_sections(text: str, sections: dict[str, list[str]]) -> str:
    """Take the sections out of a text, and add each to those of its name."""
    rest, start, name = list[str](), 0, ""
    for tag in _TAG.finditer(text):
        if not name and not tag[1]:
            rest.append(text[start : tag.start()])
            start, name = tag.start(), tag[2]
        elif tag[1] and tag[2] == name:
            sections[name].append(text[start : tag.end()])
            start, name = tag.end(), ""
    return "".join((*rest, text[start:]))
