"""What a model says, made whole: its text, and why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_REASONS = ("stop_reason", "finish_reason", "done_reason")
"""Where the providers say why an answer ended."""
_CUT = ("max_tokens", "length", "MAX_TOKENS")


def encodable(text: str) -> str:
    """Text that can be sent: halves of surrogate pairs are joined, lone ones become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_cut(metadata: Mapping[str, Any]) -> bool:
    """Whether an answer reached the model's limit of tokens, by its response metadata."""
    return any(metadata.get(reason) in _CUT for reason in _REASONS)
