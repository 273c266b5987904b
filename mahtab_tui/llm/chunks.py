"""What a model says, made whole: its text, and why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_REASONS = ("stop_reason", "finish_reason", "done_reason")
"""Where the providers say why an answer ended."""
_CUT = ("max_tokens", "length", "MAX_TOKENS")
_REFUSED = ("refusal", "content_filter")
REFUSED = "The service's safeguards stopped the answer: it takes what was asked or said to be against its rules. Ask in other words, or choose another model."
ANEW = {"anew": True}
"""Response metadata of a piece with which an answer begins anew, after a connection broke off: what came before it does not count any more."""


def encodable(text: str) -> str:
    """Text that can be sent: halves of surrogate pairs are joined, lone ones become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_cut(metadata: Mapping[str, Any]) -> bool:
    """Whether an answer reached the model's limit of tokens, by its response metadata."""
    return any(metadata.get(reason) in _CUT for reason in _REASONS)


def is_refused(metadata: Mapping[str, Any]) -> bool:
    """Whether the service's safeguards ended an answer, by its response metadata; `REFUSED` says so to the person."""
    return any(metadata.get(reason) in _REFUSED for reason in _REASONS)


def begins_anew(metadata: Mapping[str, Any]) -> bool:
    """Whether an answer begins anew with the piece that has this response metadata."""
    return "anew" in metadata
