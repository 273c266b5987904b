"""Messages as the `claude` CLI gets them: texts and pictures, or a whole conversation as one message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.record_xml import escape_tags
from mahtab_tui.llm.answer_metadata import message_text
from mahtab_tui.llm.prompts import STOPPED_ANSWER

_TURN_TAGS = ("conversation", "human", "assistant")
"""The tags around the turns of a conversation in one message."""

Content = str | list[dict[str, Any]]
"""The content of a message: a text, or blocks of texts and pictures."""
MessagePart = str | tuple[str, str]
"""A text, or a picture: its type and base64."""


class ClaudeMessage(NamedTuple):
    """A message of a conversation, to be compared with what a process knows."""

    type: str
    text: str
    parts: tuple[MessagePart, ...]
    """Its texts and pictures (type and base64), in order."""

    def matches(self, sent: ClaudeMessage) -> bool:
        """Return whether a process knows this message as the one that it was sent.

        It may know more of a stopped answer than has arrived.
        """
        if self == sent:
            return True
        is_stopped_answer = self.type == "ai" and self.text.endswith(STOPPED_ANSWER)
        answer = self.text.removesuffix(STOPPED_ANSWER).rstrip()
        return is_stopped_answer and sent.type == "ai" and sent.text.startswith(answer)


def to_claude_message(message: BaseMessage) -> ClaudeMessage:
    """Return the texts and pictures of a LangChain message."""
    if isinstance(message.content, str):
        return ClaudeMessage(message.type, message.content, (message.content,))
    parts: list[MessagePart] = []
    for block in message.content:
        if isinstance(block, str):
            parts.append(block)
        elif block.get("type") == "image" and "base64" in block:
            parts.append((str(block.get("mime_type", "image/png")), str(block["base64"])))
        elif block.get("type") == "text":
            parts.append(str(block["text"]))
    return ClaudeMessage(message.type, message_text(message), tuple(parts))


def write_content(parts: Sequence[MessagePart]) -> Content:
    """Return the content of a message: a text, or blocks if it has pictures."""
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if not isinstance(part, str):
            mime, data = part
            source = {"type": "base64", "media_type": mime, "data": data}
            blocks.append({"type": "image", "source": source})
        elif blocks and blocks[-1]["type"] == "text":
            blocks[-1]["text"] += part
        else:
            blocks.append({"type": "text", "text": part})
    return blocks


def flatten(messages: Sequence[ClaudeMessage]) -> Content:
    """Return a conversation as one message for a new process. No text in it can forge a turn."""
    if len(messages) == 1:
        return write_content(messages[0].parts)
    parts: list[MessagePart] = ["<conversation>"]
    for message in messages:
        escaped_parts = [
            escape_tags(escape_controls(part), *_TURN_TAGS) if isinstance(part, str) else part
            for part in message.parts
        ]
        tag = "assistant" if message.type == "ai" else "human"
        if message is messages[-1]:
            parts += ["</conversation>\n\n", *escaped_parts]
        else:
            parts += [f"<{tag}>", *escaped_parts, f"</{tag}>"]
    return write_content(parts)
