"""Walking through the input history with Up and Down."""

from __future__ import annotations

from collections.abc import Callable


class Recall:
    """A place in the history, with the unsent draft at its near end."""

    def __init__(self, load: Callable[[], list[str]]) -> None:
        self._load = load
        self._entries: list[str] | None = None
        self._place = -1
        self._draft = ""

    def older(self, present: str) -> str | None:
        """The entry before; None where there is none."""
        if self._entries is None:
            self._entries = self._load()
            self._draft = present
        if self._place + 1 >= len(self._entries):
            return None
        self._place += 1
        return self._entries[self._place]

    def newer(self) -> str | None:
        """The entry after, in the end the draft; None where the draft is what is shown."""
        if self._entries is None or self._place < 0:
            return None
        self._place -= 1
        return self._draft if self._place < 0 else self._entries[self._place]

    def reset(self) -> None:
        """What is shown is a new draft."""
        self._entries, self._place, self._draft = None, -1, ""
