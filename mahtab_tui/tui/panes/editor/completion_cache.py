"""Completes text from earlier completions while the kernel cannot answer."""

from __future__ import annotations

import re

from mahtab_tui.kernel.code_help import Completion, Completions

KEPT = 5_000
"""Maximum number of remembered names."""

_NAME = re.compile(r"(?:^|[^\w.])(\w*)$")


class CompletionCache:
    """Remembers the last completions, and all names that completions had."""

    def __init__(self) -> None:
        self._last: tuple[str, Completions] | None = None
        """The code and its completions."""
        self._names: dict[str, Completion] = {}

    def keep(self, code: str, cursor: int, found: Completions) -> None:
        self._last = code, found
        if _NAME.search(code[:cursor]):
            self._names.update((item.label, item) for item in found.items if item.label == item.text and len(self._names) < KEPT)

    def for_text(self, code: str, cursor: int) -> Completions:
        """Return completions for a text: from the last ones if they were for the same place, otherwise from names."""
        name = _NAME.search(code[:cursor])
        start, items = cursor - len(name[1]) if name else cursor, tuple(self._names.values()) if name and name[1] else ()
        if self._last is not None:
            asked, found = self._last
            if found.start <= cursor and code[: found.start] == asked[: found.start] and re.fullmatch(r"\w*", code[found.start : cursor]):
                start, items = found.start, found.items
        return Completions(start, _fitting(items, code[start:cursor]), 0)


def _fitting(items: tuple[Completion, ...], stem: str) -> tuple[Completion, ...]:
    beginning = [item for item in items if item.label.lower().startswith(stem.lower())]
    return tuple(sorted(beginning, key=lambda item: (item.label.startswith("_"), not item.label.startswith(stem))))
