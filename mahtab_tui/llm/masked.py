"""Masks the session's secrets, and texts of private variables, in messages to models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.bus.masking import Secrets

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    Message = TypeVar("Message", bound=BaseMessage)


def masked_messages(messages: Sequence[Message], secrets: Secrets) -> list[Message]:
    """Return the messages; those with secrets or private texts are replaced by masked copies."""
    if not secrets.hides_something:
        return list(messages)
    return [_masked(message, secrets) for message in messages]


def _masked(message: Message, secrets: Secrets) -> Message:
    content = _content(message.content, secrets)
    return (
        message if content == message.content else message.model_copy(update={"content": content})
    )


def _content(content: Any, secrets: Secrets) -> Any:
    """Mask a text, or the text blocks of a list; other blocks are pictures, and calls, which the
    model wrote itself."""
    if isinstance(content, str):
        return secrets.told(content)
    if isinstance(content, list):
        return [_content(block, secrets) for block in content]
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return {**content, "text": secrets.told(content["text"])}
    return content
