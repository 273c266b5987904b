"""Remembers texts that our tools return. As a cell's value they are shown as text, while other
strings are shown quoted, as in Python.

They are recognised by identity and remain plain `str`, because libraries that compare exact types
(yaml) reject subclasses.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Literal

Form = Literal["markdown", "plain"]

_TEXTS, _CHARACTERS = 100, 10_000_000
"""How much is remembered at most; the newest text always is."""


class _ReturnedTexts:
    """The newest returned texts. They are kept alive, so that no other object gets their
    identity."""

    texts: ClassVar[deque[tuple[str, Form]]] = deque(maxlen=_TEXTS)


def mark_as_text(text: str, form: Form = "plain") -> str:
    """Remember a text and return it."""
    texts = _ReturnedTexts.texts
    texts.append((text, form))
    size = sum(len(each) for each, _ in list(texts))
    while len(texts) > 1 and size > _CHARACTERS:
        size -= len(texts.popleft()[0])
    return text


def form_of(value: object) -> Form | None:
    """Return the form of a text that `mark_as_text` has returned; None for all other values."""
    return next((form for text, form in list(_ReturnedTexts.texts) if text is value), None)


def cell_ended() -> None:
    """Forget texts of one character, because Python shares such objects, and the user's `"7"` would
    be taken for a tool's."""
    for text, form in list(_ReturnedTexts.texts):
        if len(text) < 2:
            _ReturnedTexts.texts.remove((text, form))
