"""Estimates how many tokens texts have."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,8}|\d|[^\w\s]{1,3}|_+")
"""About one token of text, code, output or JSON; `tests/data/token_counts.json` has counts of
OpenAI's tokenizers to compare with."""
_TOKENS_PER_TEXT = 4
"""Tokens of a message besides its text."""
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes: safe for English (four), code and Chinese (three)."""
_MAX_TOKENS_PER_TEXT = 10
"""Tokens of a message besides its text, rather too many than too few."""
_MAX_PICTURE_TOKENS = 3_400
"""Tokens of the largest picture that is sent (see `pictures.EncodedPicture.tokens`)."""


def estimated_tokens(texts: Iterable[str]) -> int:
    return sum(_TOKENS_PER_TEXT + len(_TOKEN.findall(text)) for text in texts)


def estimate_message_tokens(texts: Iterable[str], pictures: int = 0) -> int:
    """Estimate the tokens of messages, rather too high than too low.

    Args:
        texts: One for each message.
        pictures: How many pictures the messages have.
    """
    text_tokens = 0
    for text in texts:
        text_bytes = len(text.encode("utf-8", "replace"))
        text_tokens += _MAX_TOKENS_PER_TEXT + text_bytes // _BYTES_PER_TOKEN
    return pictures * _MAX_PICTURE_TOKENS + text_tokens
