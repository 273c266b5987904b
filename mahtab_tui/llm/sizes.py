"""How many tokens something is, without asking the model."""

from __future__ import annotations

from collections.abc import Iterable

_BYTES_A_TOKEN = 3
"""Of UTF-8: on the safe side for English (four), code and Chinese (three)."""
_FRAME = 10
"""Tokens around each message."""


def tokens_in(texts: Iterable[str]) -> int:
    """About how many tokens messages of these texts are, rather too many than too few."""
    return sum(_FRAME + len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN for text in texts)
