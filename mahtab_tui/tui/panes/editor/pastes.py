"""Large pasted texts, each collapsed to one word in the editor."""

from __future__ import annotations

import re

from mahtab_tui.session.mentions import is_large


class Pastes:
    """The collapsed texts, by their words."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """Return a new word for a text; the text itself if it is not large."""
        if not is_large(text):
            return text
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        word, number = f"[Pasted {size}]", 1
        while self._texts.get(word, text) != text:
            number += 1
            word = f"[Pasted {size}, {number}]"
        self._texts[word] = text
        return word

    def expand(self, text: str) -> str:
        """Replace all words by their texts."""
        # In one pass: a pasted text may contain the word of another one.
        words = "|".join(map(re.escape, self._texts))
        return re.sub(words, lambda word: self._texts[word[0]], text) if words else text

    def word_before(self, text: str) -> str:
        """Return the word with which a text ends; empty if none."""
        return next((word for word in self._texts if text.endswith(word)), "")

    def word_after(self, text: str) -> str:
        """Return the word with which a text starts; empty if none."""
        return next((word for word in self._texts if text.startswith(word)), "")

    def forget(self) -> None:
        """Forget all texts: the editor is empty, and its text cannot come back."""
        self._texts.clear()
