"""Inline suggestions after the cursor, from the model that the user has set for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.completion_list import CompletionList
from mahtab_tui.tui.rows.latest_worker import LatestWorker

PAUSE = 0.7
"""Seconds without a key before a suggestion is requested."""

Suggest = Callable[[str, bool, Callable[[], bool]], str]
"""Suggests the rest of a line, given the text, whether it is Python, and a function that returns
whether the suggestion is still wanted. Waits for the model. Empty if there is no suggestion."""


class SuggestionRequest(NamedTuple):
    number: int
    text: str
    python: bool


class InlineSuggester:
    """Requests and shows suggestions. Right or Tab inserts one."""

    def __init__(self, area: CodeArea, completions: CompletionList, suggest: Suggest) -> None:
        self._area = area
        self._completions = completions
        self._suggest = suggest
        self._thread: LatestWorker[SuggestionRequest] = LatestWorker(
            self._ask_model, "suggestion", PAUSE
        )
        self._requested = 0
        """The number of the newest request; older ones are stopped and dropped."""

    def end(self) -> None:
        """Stop the thread: the area is gone."""
        self._requested += 1
        self._thread.close()

    def ask(self, *, at_once: bool) -> None:
        """Request a suggestion if the cursor is at the end of the text. at_once: without a
        pause."""
        self._requested += 1
        if (
            self._area.text.strip()
            and self._area.selection.is_empty
            and self._area.cursor_at_end_of_text
        ):
            self._thread.ask(
                SuggestionRequest(self._requested, self._area.whole_text, self._area.python),
                at_once=at_once,
            )

    def forget(self) -> None:
        """Remove the suggestion, and drop a pending one."""
        self._requested += 1
        self._area.suggestion = ""

    def take(self) -> bool:
        """Insert the suggestion; returns False if there is none, or the list of completions is
        open."""
        if not self._area.suggestion or self._completions.is_open:
            return False
        self._area.insert(self._area.suggestion)
        return True

    def _ask_model(self, request: SuggestionRequest) -> None:
        """Serve a request, on the thread."""
        if request.number == self._requested:
            text = self._suggest(
                request.text, request.python, lambda: request.number == self._requested
            )
            self._area.call_later(self._answered, request, text)

    def _answered(self, request: SuggestionRequest, text: str) -> None:
        if (
            request.number == self._requested
            and self._area.cursor_at_end_of_text
            and not self._completions.is_open
        ):
            self._area.suggestion = text
