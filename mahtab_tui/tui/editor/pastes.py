"""Large pasted texts, which the editor shows as a few words. Loaded at the first paste."""

from __future__ import annotations

import re

from mahtab_tui.session.mentions import is_large


class Pastes:
    """Large pasted texts, by the words that stand for them in the editor."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        """The pasted texts by their words."""

    def collapse(self, text: str) -> str:
        """Return the words for a pasted text; a small one unchanged."""
        if not is_large(text):
            return text
        line_count = text.count("\n") + 1
        size = f"{len(text):,} characters"
        if line_count > 1:
            size = f"{line_count:,} lines"
        word = f"[Pasted {size}]"
        # Another text may have the same size.
        number = 1
        while self._texts.get(word, text) != text:
            number += 1
            word = f"[Pasted {size}, {number}]"
        self._texts[word] = text
        return word

    def expand(self, text: str) -> str:
        """Return a text with the pasted texts instead of their words."""
        if not self._texts:
            return text
        # In one pass, because a pasted text may contain the word of another one.
        words = "|".join(map(re.escape, self._texts))
        return re.sub(words, lambda match: self._texts[match[0]], text)

    def word_at_end(self, text: str) -> str:
        """Return the word of a pasted text that is at the end of a text, or nothing."""
        for word in self._texts:
            if text.endswith(word):
                return word
        return ""
