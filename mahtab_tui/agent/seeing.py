"""The pictures that go with questions: in the conversation each is an attachment that names it, and where a model sees it is sent with that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.llm import prompts
from mahtab_tui.llm.pictures import MOST, Picture

_ATTACHED = re.compile(r'(<user-attachment(?: [\w-]+="[^"]*")*? picture="(\w+)"(?: [\w-]+="[^"]*")*>)(.*?</user-attachment>)', re.DOTALL)
"""What was printed or read cannot look like one: it is defused."""


def named(messages: Sequence[AnyMessage]) -> list[str]:
    """The ids of the pictures that messages name, in order, each once."""
    found = (found[2] for message in messages if message.type == "human" for found in _ATTACHED.finditer(str(message.text)))
    return list(dict.fromkeys(found))


def chosen(messages: Sequence[AnyMessage], pictures: Mapping[str, Picture], room: int) -> dict[str, Picture]:
    """Of the pictures that messages name those that are sent: the newest, as many as so many tokens have room for."""
    sent: dict[str, Picture] = {}
    for name in reversed(named(messages)):
        if (picture := pictures.get(name)) is None:
            continue
        room -= picture.tokens
        if len(sent) == MOST or room < 0:
            break
        sent[name] = picture
    return sent


def with_pictures(messages: Sequence[AnyMessage], sent: Mapping[str, Picture]) -> list[AnyMessage]:
    """The messages with these pictures, each where it is named first; of another one it is said that it is not shown."""
    told: list[AnyMessage] = []
    left = dict(sent)
    for message in messages:
        names = named([message])
        if not names:
            told.append(message)
            continue
        text = _ATTACHED.sub(lambda found: found[0] if found[2] in sent else f"{found[1]}{prompts.NOT_SHOWN}{found[3]}", str(message.text))
        blocks = [block for name in names if name in left for block in _blocks(name, left.pop(name))]
        told.append(HumanMessage([{"type": "text", "text": text}, *blocks] if blocks else text))
    return told


def _blocks(name: str, picture: Picture) -> Iterator[str | dict[str, str]]:
    """As LangChain names them for every provider."""
    yield {"type": "text", "text": prompts.PICTURE.format(name=name)}
    yield {"type": "image", "base64": picture.data, "mime_type": picture.mime}
