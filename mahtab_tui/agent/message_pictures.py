"""The pictures that messages to a model name: which are sent, and where."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.bus.record_xml import ATTRIBUTES
from mahtab_tui.llm import prompts
from mahtab_tui.llm.pictures import MAX_PICTURES, EncodedPicture

_ATTACHED = re.compile(
    rf'(<user-attachment{ATTRIBUTES}? picture="(\w+)"{ATTRIBUTES}>)(.*?</user-attachment>)',
    re.DOTALL,
)
"""Start tag, id of the picture, and what follows. Output and files are escaped, so they cannot
imitate a picture."""
_DRAWN = re.compile(rf'<assistant-repl-out{ATTRIBUTES}? pictures="([\w ]+)"{ATTRIBUTES}>')
"""The figures that a cell drew."""


def attached_picture_ids(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the pictures that the user attached, in order."""
    texts = (str(message.text) for message in messages if message.type == "human")
    return list(dict.fromkeys(match[2] for text in texts for match in _ATTACHED.finditer(text)))


def picture_ids(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the pictures that the user attached and that cells drew, in order."""
    ids: list[str] = []
    for message in messages:
        if message.type == "human":
            text = str(message.text)
            matches = [*_ATTACHED.finditer(text), *_DRAWN.finditer(text)]
            matches.sort(key=lambda match: match.start())
            for match in matches:
                ids += [match[2]] if match.re is _ATTACHED else match[1].split()
    return list(dict.fromkeys(ids))


def pictures_to_send(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], max_tokens: int
) -> dict[str, EncodedPicture]:
    """Choose the newest pictures that are named in messages and fit.

    Args:
        messages: The messages.
        pictures: All pictures by their ids.
        max_tokens: Tokens that they may take altogether.

    Returns:
        The chosen pictures by their ids.
    """
    sent: dict[str, EncodedPicture] = {}
    remaining_tokens = max_tokens
    for name in reversed(picture_ids(messages)):
        picture = pictures.get(name)
        if picture is None:
            continue
        remaining_tokens -= picture.tokens
        if len(sent) == MAX_PICTURES or remaining_tokens < 0:
            break
        sent[name] = picture
    return sent


def with_pictures(
    messages: Sequence[AnyMessage], sent: Mapping[str, EncodedPicture]
) -> list[AnyMessage]:
    """Add each picture to the first message that names it, and a note where one is not sent.

    Args:
        messages: The messages.
        sent: The pictures by their ids.
    """
    result: list[AnyMessage] = []
    pictures_to_add = dict(sent)
    for message in messages:
        names = picture_ids([message])
        if not names:
            result.append(message)
            continue
        text = _note_missing_pictures(str(message.text), sent)
        # Content blocks of LangChain, which all providers accept.
        blocks: list[str | dict[str, str]] = [{"type": "text", "text": text}]
        for name in names:
            if picture := pictures_to_add.pop(name, None):
                blocks += [
                    {"type": "text", "text": prompts.PICTURE.format(name=name)},
                    {"type": "image", "base64": picture.data, "mime_type": picture.mime},
                ]
        result.append(HumanMessage(blocks if len(blocks) > 1 else text))
    return result


def _note_missing_pictures(text: str, sent: Collection[str]) -> str:
    """Add a note to each attached picture of a message that is not sent."""

    def with_note(attachment: re.Match[str]) -> str:
        start_tag, name, content = attachment.groups()
        if name in sent:
            return attachment[0]
        return f"{start_tag}{prompts.NOT_SHOWN}{content}"

    return _ATTACHED.sub(with_note, text)
