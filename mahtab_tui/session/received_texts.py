"""Texts that a kernel on another machine sends, so that searches can read them here."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

MAX_RECEIVED_CHARS = 500_000_000
"""Characters of all texts together."""
MAX_RECEIVED_TEXTS = 20
"""Texts that wait for their search."""

_TEXT_DROPPED = (
    "The text of this search is unknown, or was dropped: texts from another machine may have at"
    f" most {MAX_RECEIVED_CHARS:,} characters together, and at most {MAX_RECEIVED_TEXTS} may wait."
)


@dataclass(eq=False)
class ReceivedText:
    """A text as far as it has arrived."""

    pieces: list[str] = field(default_factory=list)
    char_count: int = 0


class ReceivedTexts:
    """Keeps texts until their searches begin. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, ReceivedText] = {}
        """The texts by the ids of their searches, oldest first."""

    def add(self, tree: str, piece: str, start: int | None) -> None:
        """Store the next piece of a text.

        Args:
            tree: The id of the search.
            piece: The next characters of its text.
            start: Characters of the text before them; None from a kernel of an earlier version.

        Raises:
            RuntimeError: The text is too long, or its beginning was dropped.
        """
        with self._lock:
            text = self._texts.get(tree) or ReceivedText()
            # Without its beginning, another text than the user's would be searched.
            if start is not None and start != text.char_count:
                self._texts.pop(tree, None)
                raise RuntimeError(_TEXT_DROPPED)
            text.pieces.append(piece)
            text.char_count += len(piece)
            self._texts[tree] = text
            self._drop_oldest(tree)
            if tree not in self._texts:
                raise RuntimeError(_TEXT_DROPPED)

    def take(self, tree: str) -> str:
        """Return the text of a search, which is then forgotten.

        Raises `ValueError` if there is none.
        """
        with self._lock:
            text = self._texts.pop(tree, None)
        if text is None:
            raise ValueError(_TEXT_DROPPED)
        return "".join(text.pieces)

    def _drop_oldest(self, newest_tree: str) -> None:
        """Drop texts until the limits are kept: those of cells that were interrupted wait for
        nobody. The newest one goes last."""
        char_count = sum(text.char_count for text in self._texts.values())
        while char_count > MAX_RECEIVED_CHARS or len(self._texts) > MAX_RECEIVED_TEXTS:
            older_trees = (tree for tree in self._texts if tree != newest_tree)
            dropped_text = self._texts.pop(next(older_trees, newest_tree))
            char_count -= dropped_text.char_count
