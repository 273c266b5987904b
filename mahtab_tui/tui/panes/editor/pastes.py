"""Large pasted texts, which stand in the editor as one word each."""

from __future__ import annotations

import re

from mahtab_tui.session.mentions import is_large


class Pastes:
    """The folded texts by the words that stand for them."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """The word that stands for a text from now on; the text itself where it is not large."""
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

    def unfold(self, text: str) -> str:
        """The text with all that was pasted."""
        # In one pass: a pasted text may have the word of another one in it.
        words = "|".join(map(re.escape, self._texts))
        return re.sub(words, lambda word: self._texts[word[0]], text) if words else text

    def word_before(self, text: str) -> str:
        """The word with which a text ends; empty where it ends with none."""
        return next((word for word in self._texts if text.endswith(word)), "")

    def word_after(self, text: str) -> str:
        """The word with which a text begins; empty where it begins with none."""
        return next((word for word in self._texts if text.startswith(word)), "")

    def forget(self) -> None:
        """The editor is empty, and what was in it cannot come back."""
        self._texts.clear()
