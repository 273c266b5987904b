"""What an older list says of a newer text, while the kernel cannot answer."""

from __future__ import annotations

import re

from mahtab_tui.kernel.base import Completion, Completions
from mahtab_tui.tui.panes.editor.completer import Question

KEPT = 5_000
"""Names that are remembered."""

_NAME = re.compile(r"(?:^|[^\w.])(\w*)$")


class Remembered:
    """The last answer, and the names that answers have had."""

    def __init__(self) -> None:
        self._last: tuple[Question, Completions] | None = None
        self._names: dict[str, Completion] = {}

    def keep(self, question: Question, found: Completions) -> None:
        """Remember an answer."""
        self._last = question, found
        if _NAME.search(question.code[: question.cursor]):
            self._names.update((item.label, item) for item in found.items if item.label == item.text and len(self._names) < KEPT)

    def for_text(self, code: str, cursor: int) -> Completions:
        """What is known for a text: the last answer if it was for the same place, else names. It may be empty."""
        name = _NAME.search(code[:cursor])
        start, items = cursor - len(name[1]) if name else cursor, tuple(self._names.values()) if name and name[1] else ()
        if self._last is not None:
            question, found = self._last
            if found.start <= cursor and code[: found.start] == question.code[: found.start] and re.fullmatch(r"\w*", code[found.start : cursor]):
                start, items = found.start, found.items
        return Completions(start, _fitting(items, code[start:cursor]), 0)


def _fitting(items: tuple[Completion, ...], stem: str) -> tuple[Completion, ...]:
    beginning = [item for item in items if item.label.lower().startswith(stem.lower())]
    return tuple(sorted(beginning, key=lambda item: (item.label.startswith("_"), not item.label.startswith(stem))))
