"""Estimates what fills the window of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage

from mahtab_tui.agent.fitting import OUTPUT
from mahtab_tui.agent.seeing import pictures_to_send
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.token_estimate import estimated_tokens

_TAG = re.compile(r"^<(/?)(earlier-conversation|variables|attachments)>$", re.MULTILINE)
"""Begins or ends one of the sections that precede a question. Texts from outside hold none, because they are defused."""


def sizes_of(messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], room: int) -> dict[str, int]:
    """Return tokens by kind: ``earlier-conversation`` (the summary), ``variables``, ``attachments``, ``outputs``, ``words`` and ``pictures``.

    room: tokens that the model may read; pictures beyond it are not sent.
    """
    texts: dict[str, list[str]] = {name: [] for name in ("earlier-conversation", "variables", "attachments", "outputs", "words")}
    for message in messages:
        text = str(message.text)
        if message.type == "human":
            text = _without_sections(text, texts)
            texts["outputs"] += [found[3] for found in OUTPUT.finditer(text)]
            text = OUTPUT.sub("", text)
        texts["words"].append(text)
    sizes = {name: estimated_tokens(each) for name, each in texts.items()}
    return sizes | {"pictures": sum(picture.tokens for picture in pictures_to_send(messages, pictures, room).values())}


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
