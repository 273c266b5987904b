"""Reads and masks LangChain's messages and chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.bus.masking import Secrets

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    Message = TypeVar("Message", bound=BaseMessage)

REASONS = ("stop_reason", "finish_reason", "done_reason")
"""Fields in which providers say why an answer ended."""
_CUT = ("max_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded")
_REFUSED = ("refusal", "content_filter")
REFUSED = "The service's safeguards stopped the answer, because the question or the answer seemed to break its rules. Ask in other words, or choose another model."
RESTARTED = {"anew": True}
"""Response metadata of the chunk with which an answer starts again after a broken connection;
earlier chunks no longer count."""


def message_text(message: BaseMessage) -> str:
    """Return a message's text, without pictures and calls."""
    return str(message.text)


def message_reasoning(message: BaseMessage) -> str:
    """Return what a service sends of its model's thinking beside the answer, of which it is no
    part."""
    thought = message.additional_kwargs.get("reasoning_content")
    texts = [thought] if isinstance(thought, str) else []
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("thinking", "reasoning"):
            texts.append(str(block.get("thinking") or block.get("reasoning") or ""))
    return "".join(texts)


def make_encodable(text: str) -> str:
    """Return text that can be encoded: surrogate pairs are joined, lone surrogates become
    U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_cut(metadata: Mapping[str, Any]) -> bool:
    """Tell from its response metadata whether an answer reached the model's token limit."""
    return any(metadata.get(reason) in _CUT for reason in REASONS)


def is_refused(metadata: Mapping[str, Any]) -> bool:
    """Tell from its response metadata whether the service's safeguards ended an answer; `REFUSED`
    is the message for the user."""
    return any(metadata.get(reason) in _REFUSED for reason in REASONS)


def has_restarted(metadata: Mapping[str, Any]) -> bool:
    """Tell from its response metadata whether an answer starts again with a chunk."""
    return "anew" in metadata


def masked_messages(messages: Sequence[Message], secrets: Secrets) -> list[Message]:
    """Return the messages; those with secrets or private texts are replaced by masked copies."""
    if not secrets.may_redact:
        return list(messages)
    masked = []
    for message in messages:
        content = _content(message.content, secrets)
        is_same = content == message.content
        masked.append(message if is_same else message.model_copy(update={"content": content}))
    return masked


def _content(content: Any, secrets: Secrets) -> Any:
    """Mask a text, or the text blocks of a list; other blocks are pictures, and calls, which the
    model wrote itself."""
    if isinstance(content, str):
        return secrets.redact_for_model(content)
    if isinstance(content, list):
        return [_content(block, secrets) for block in content]
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return {**content, "text": secrets.redact_for_model(content["text"])}
    return content
