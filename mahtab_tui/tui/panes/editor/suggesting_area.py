"""The completing area with a grey suggestion behind the cursor, from a model that the person chose for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual.document._document import Selection
from textual.message import Message

from mahtab_tui.tui.panes.editor.completer import Complete
from mahtab_tui.tui.panes.editor.completing_area import CompletingArea
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


class SuggestingArea(CompletingArea):
    """Right, or Tab, takes the suggestion; whatever else is typed is never in its way. Without `suggest` there is none."""

    class Suggested(Message):
        """The model has answered."""

        def __init__(self, wish: Wish, text: str) -> None:
            super().__init__()
            self.wish = wish
            self.text = text

    _suggester: NewestOnly[Wish] | None = None
    _wished = 0
    """The number of the newest wish; answers to others are dropped, and their models stopped."""

    def __init__(
        self,
        completions: CompletionList,
        complete: Complete | None,
        complete_question: Complete | None,
        suggest: Suggest | None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(completions, complete, complete_question, id=id)
        self._suggest = suggest
        if suggest is not None:
            self._suggester = NewestOnly(self._ask_model, "suggestion", PAUSE)

    def on_unmount(self) -> None:
        if self._suggester is not None:
            self._wished += 1
            self._suggester.close()

    def action_indent(self) -> None:
        if self.suggestion and not self.completions.is_open:
            self.insert(self.suggestion)
        else:
            super().action_indent()

    def update_suggestion(self) -> None:
        """The text has changed: what the person types themselves stays, else there is something new to ask for after a pause."""
        if not self.suggestion:
            self.wish(at_once=False)

    def watch_selection(self, selection: Selection) -> None:
        super().watch_selection(selection)
        if self._suggester is not None and not self._typing:
            self._wished += 1
            self.suggestion = ""

    def wish(self, *, at_once: bool) -> None:
        """Ask for a suggestion, if the cursor stands at the end."""
        if self._suggester is None:
            return
        self._wished += 1
        if self.text.strip() and self.selection.is_empty and self.cursor_at_end_of_text:
            self._suggester.ask(Wish(self._wished, self.whole_text, self.python), at_once=at_once)

    def _ask_model(self, wish: Wish) -> None:
        assert self._suggest is not None
        if wish.number == self._wished:
            text = self._suggest(wish.text, wish.python, lambda: wish.number == self._wished)
            self.post_message(self.Suggested(wish, text))

    def on_suggesting_area_suggested(self, message: Suggested) -> None:
        """Show it, if it is still wanted."""
        message.stop()
        if message.wish.number == self._wished and self.cursor_at_end_of_text and not self.completions.is_open:
            self.suggestion = message.text
