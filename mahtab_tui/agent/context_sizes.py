"""Estimates what fills the window of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage

from mahtab_tui.agent.fitting import OUTPUT
from mahtab_tui.agent.seeing import pictures_to_send
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.usage import tokens_in

_SECTION = re.compile(r"<(earlier-conversation|variables|attachments)>\n.*?\n</\1>", re.DOTALL)
"""The sections that precede a question. Texts from outside cannot close or imitate one, because they are defused."""


def sizes_of(messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], room: int) -> dict[str, int]:
    """Return tokens by kind: ``earlier-conversation`` (the summary), ``variables``, ``attachments``, ``outputs``, ``words`` and ``pictures``.

    room: tokens that the model may read; pictures beyond it are not sent.
    """
    texts: dict[str, list[str]] = {name: [] for name in ("earlier-conversation", "variables", "attachments", "outputs", "words")}
    for message in messages:
        text = str(message.text)
        if message.type == "human":
            for found in _SECTION.finditer(text):
                texts[found[1]].append(found[0])
            text = _SECTION.sub("", text)
            texts["outputs"] += [found[3] for found in OUTPUT.finditer(text)]
            text = OUTPUT.sub("", text)
        texts["words"].append(text)
    sizes = {name: tokens_in(each) for name, each in texts.items()}
    return sizes | {"pictures": sum(picture.tokens for picture in pictures_to_send(messages, pictures, room).values())}
