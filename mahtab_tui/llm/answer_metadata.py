"""What messages of models say besides their words: thinking, why they end, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_REASON_FIELDS = ("stop_reason", "finish_reason", "done_reason")
"""Where services say why an answer has ended."""
UNFINISHED = "unfinished"
"""The reason of an answer whose service did not say why it ended."""
_READ_SHARE = "read_share"
"""Key of a chunk's metadata: how much of a long prompt has been read, from 0 to 1."""
_CUT_REASONS = ("max_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded", UNFINISHED)
_REFUSED_REASONS = ("refusal", "content_filter")
REFUSED = "The service's safeguards stopped the answer, because the question or the answer seemed to break its rules. Ask in other words, or choose another model."
RESTARTED = {"anew": True}
"""Response metadata of the chunk with which an answer starts again; earlier chunks no longer
count."""


def message_text(message: BaseMessage) -> str:
    """Return a message's words."""
    return str(message.text)


def message_reasoning(message: BaseMessage) -> str:
    """Return a model's thinking, which is not part of its answer."""
    thought = message.additional_kwargs.get("reasoning_content")
    texts = [thought] if isinstance(thought, str) else []
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("thinking", "reasoning"):
            texts.append(str(block.get("thinking") or block.get("reasoning") or ""))
    return "".join(texts)


def read_share_metadata(share: float) -> dict[str, str]:
    """Return the metadata of a message that says how much of the prompt has been read.

    It is text, because LangChain joins the metadata of messages.
    """
    return {_READ_SHARE: str(share)}


def read_share(metadata: Mapping[str, Any]) -> float | None:
    """Return the share of the prompt that has been read; None if a message does not say."""
    share = metadata.get(_READ_SHARE)
    return None if share is None else float(share)


def is_cut(metadata: Mapping[str, Any]) -> bool:
    """Return whether an answer has ended too early, or may have."""
    return any(metadata.get(reason) in _CUT_REASONS for reason in _REASON_FIELDS)


def cut_note(metadata: Mapping[str, Any]) -> str:
    """Return a sentence for an answer that is cut off, or may be; empty for others."""
    if any(metadata.get(reason) == UNFINISHED for reason in _REASON_FIELDS):
        return "The answer may be cut off: the service did not say that it is complete."
    if is_cut(metadata):
        return "The answer was cut off: it reached the model's token limit."
    return ""


def is_refused(metadata: Mapping[str, Any]) -> bool:
    """Return whether the service's safeguards have stopped an answer."""
    return any(metadata.get(reason) in _REFUSED_REASONS for reason in _REASON_FIELDS)


def has_restarted(metadata: Mapping[str, Any]) -> bool:
    """Return whether an answer starts again with a chunk; see `RESTARTED`."""
    return "anew" in metadata
