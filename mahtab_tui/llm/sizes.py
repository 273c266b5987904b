"""How many tokens something is, without asking the model."""

from __future__ import annotations

from collections.abc import Iterable

_BYTES_A_TOKEN = 3
"""Of UTF-8: on the safe side for English (four), code and Chinese (three)."""
_FRAME = 10
"""Tokens around each message."""


PICTURE = 3_400
"""Tokens of the largest picture that is sent (see `pictures.Picture.tokens`)."""


def tokens_in(texts: Iterable[str], pictures: int = 0) -> int:
    """About how many tokens messages of these texts, and so many pictures in them, are; rather too many than too few."""
    return pictures * PICTURE + sum(_FRAME + len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN for text in texts)
