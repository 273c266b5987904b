"""Texts that our own tools return. As a cell's value they are shown as they stand; a text of the person's is shown quoted, as Python does it.

They are known by identity, so that each is a plain `str`: a class of its own would be refused by libraries that compare exact types (yaml).
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Literal

Form = Literal["markdown", "plain"]

_TEXTS, _CHARACTERS = 100, 10_000_000
"""What is remembered at most; the newest text always is."""


class _Returned:
    """The texts that were returned last. They are held, so that their identities stay theirs."""

    texts: ClassVar[deque[tuple[str, Form]]] = deque(maxlen=_TEXTS)


def readable(text: str, form: Form = "plain") -> str:
    """The text itself, remembered as one to be read."""
    texts = _Returned.texts
    texts.append((text, form))
    size = sum(len(each) for each, _ in list(texts))
    while len(texts) > 1 and size > _CHARACTERS:
        size -= len(texts.popleft()[0])
    return text


def form_of(value: object) -> Form | None:
    """How a text is to be read; None for all that `readable` has not returned."""
    return next((form for text, form in list(_Returned.texts) if text is value), None)


def cell_ended() -> None:
    """Forget texts of one character: Python has one object for each, so that the person's `"7"` would be taken for an answer."""
    for text, form in list(_Returned.texts):
        if len(text) < 2:
            _Returned.texts.remove((text, form))
