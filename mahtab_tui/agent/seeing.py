"""Sends the pictures attached to questions. In the conversation an attachment names each; models
that see get the picture too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.llm import prompts
from mahtab_tui.llm.pictures import MOST, EncodedPicture

_ATTACHED = re.compile(
    r'(<user-attachment(?: [\w-]+="[^"]*")*? picture="(\w+)"(?: [\w-]+="[^"]*")*>)(.*?</user-attachment>)',
    re.DOTALL,
)
"""Output and file contents cannot imitate one, because they are defused."""


def picture_ids(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the ids of the pictures that messages name, in order and without duplicates."""
    found = (
        found[2]
        for message in messages
        if message.type == "human"
        for found in _ATTACHED.finditer(str(message.text))
    )
    return list(dict.fromkeys(found))


def pictures_to_send(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], room: int
) -> dict[str, EncodedPicture]:
    """Choose the pictures to send: the newest that fit into `room` tokens."""
    sent: dict[str, EncodedPicture] = {}
    for name in reversed(picture_ids(messages)):
        if (picture := pictures.get(name)) is None:
            continue
        room -= picture.tokens
        if len(sent) == MOST or room < 0:
            break
        sent[name] = picture
    return sent


def with_pictures(
    messages: Sequence[AnyMessage], sent: Mapping[str, EncodedPicture]
) -> list[AnyMessage]:
    """Add each picture to the message that first names it; other attachments say that their picture
    is not shown."""
    told: list[AnyMessage] = []
    left = dict(sent)
    for message in messages:
        names = picture_ids([message])
        if not names:
            told.append(message)
            continue
        text = _ATTACHED.sub(
            lambda found: (
                found[0] if found[2] in sent else f"{found[1]}{prompts.NOT_SHOWN}{found[3]}"
            ),
            str(message.text),
        )
        blocks = [
            block for name in names if name in left for block in _blocks(name, left.pop(name))
        ]
        told.append(HumanMessage([{"type": "text", "text": text}, *blocks] if blocks else text))
    return told


def _blocks(name: str, picture: EncodedPicture) -> Iterator[str | dict[str, str]]:
    """Yield a picture as LangChain's content blocks for all providers."""
    yield {"type": "text", "text": prompts.PICTURE.format(name=name)}
    yield {"type": "image", "base64": picture.data, "mime_type": picture.mime}
