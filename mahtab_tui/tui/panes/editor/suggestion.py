"""A grey suggestion behind the cursor, from a model that the user chose for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.completion_list import CompletionList
from mahtab_tui.tui.rows.newest import NewestOnly

PAUSE = 0.7
"""Seconds without a key after which a suggestion is asked for."""

Suggest = Callable[[str, bool, Callable[[], bool]], str]
"""How a text (of Python, or of a question) may go on in its line, empty where nothing comes to mind; the last argument says whether it is
still wanted. Waits for the model."""


class Wish(NamedTuple):
    """A text that may go on."""

    number: int
    text: str
    python: bool


class Suggesting:
    """Right, or Tab, takes the suggestion; whatever else is typed is never in its way."""

    def __init__(self, area: CodeArea, completions: CompletionList, suggest: Suggest) -> None:
        self._area = area
        self._completions = completions
        self._suggest = suggest
        self._thread: NewestOnly[Wish] = NewestOnly(self._ask_model, "suggestion", PAUSE)
        self._wished = 0
        """The number of the newest wish; answers to others are dropped, and their models stopped."""

    def end(self) -> None:
        """The area is gone."""
        self._wished += 1
        self._thread.close()

    def ask(self, *, at_once: bool) -> None:
        """Ask for a suggestion, if the cursor stands at the end. at_once: else after a pause."""
        self._wished += 1
        if self._area.text.strip() and self._at_end:
            self._thread.ask(Wish(self._wished, self._area.whole_text, self._area.python), at_once=at_once)

    def forget(self) -> None:
        """Take the suggestion away, and drop the answer that is still to come."""
        self._wished += 1
        self._area.suggestion = ""

    def take(self) -> bool:
        """Put the suggestion in; False where there is none, or the list of completions is open."""
        if not self._area.suggestion or self._completions.is_open:
            return False
        self._area.insert(self._area.suggestion)
        return True

    @property
    def _at_end(self) -> bool:
        return self._area.selection.is_empty and self._area.cursor_at_end_of_text

    def _ask_model(self, wish: Wish) -> None:
        """Answer a wish, on the thread."""
        if wish.number == self._wished:
            text = self._suggest(wish.text, wish.python, lambda: wish.number == self._wished)
            self._area.call_later(self._answered, wish, text)

    def _answered(self, wish: Wish, text: str) -> None:
        if wish.number == self._wished and self._area.cursor_at_end_of_text and not self._completions.is_open:
            self._area.suggestion = text
