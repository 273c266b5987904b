"""How many tokens the parts of a conversation have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage

from mahtab_tui.agent.message_fitting import OUTPUT
from mahtab_tui.agent.message_pictures import pictures_to_send
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.token_estimates import estimated_tokens

_SECTIONS = (
    "instructions",
    "skills",
    "loaded-skills",
    "mcp-servers",
    "earlier-conversation",
    "attachments",
)
_SECTION_TAG = re.compile(rf"^<(/?)({'|'.join(_SECTIONS)})>$", re.MULTILINE)


def section_sizes(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], max_tokens: int
) -> dict[str, int]:
    """Return tokens by section, and those of ``outputs``, ``words`` and ``pictures``.

    Args:
        messages: The messages.
        pictures: All pictures by their ids.
        max_tokens: What pictures may use.
    """
    texts: dict[str, list[str]] = {name: [] for name in (*_SECTIONS, "outputs", "words")}
    for message in messages:
        text = str(message.text)
        if message.type == "human":
            text = _move_sections(text, texts)
            texts["outputs"] += [match[3] for match in OUTPUT.finditer(text)]
            text = OUTPUT.sub("", text)
        texts["words"].append(text)
    sizes = {name: estimated_tokens(section_texts) for name, section_texts in texts.items()}
    sent_pictures = pictures_to_send(messages, pictures, max_tokens).values()
    return sizes | {"pictures": sum(picture.tokens for picture in sent_pictures)}


def _move_sections(text: str, texts: dict[str, list[str]]) -> str:
    """Return a message without its sections, which are added to `texts` by their names."""
    other_texts: list[str] = []
    start = 0
    open_name = ""
    for tag in _SECTION_TAG.finditer(text):
        is_end = bool(tag[1])
        if not open_name and not is_end:
            other_texts.append(text[start : tag.start()])
            start = tag.start()
            open_name = tag[2]
        elif is_end and tag[2] == open_name:
            texts[open_name].append(text[start : tag.end()])
            start = tag.end()
            open_name = ""
    return "".join((*other_texts, text[start:]))
