"""Suggestions and help at the cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import Offset
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.completion import CompletionList
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Explanation

PAUSE = 0.7
"""Seconds without a key press before a suggestion is requested."""

Suggest = Callable[[str, bool, Callable[[], bool]], str]
"""Suggests the rest of a line, or an empty text; waits for the model. The arguments are the text,
whether it is Python, and a function that returns whether the suggestion is still wanted."""


class InlineSuggester:
    """Requests and shows inline suggestions. Right or Tab inserts one."""

    def __init__(self, area: CodeArea, completions: CompletionList, suggest: Suggest) -> None:
        self._area = area
        self._completions = completions
        self._suggest = suggest
        self._fetcher = Fetcher(area, at_once=1)
        self._request_number = 0
        """The number of the newest request; older ones are cancelled and dropped."""

    def ask(self, *, at_once: bool) -> None:
        """Request a suggestion if the cursor is at the end of the text. at_once: do not wait for a
        pause."""
        self.cancel()
        area, number = self._area, self._request_number
        text, python = area.whole_text, area.python
        if area.text.strip() and area.selection.is_empty and area.cursor_at_end_of_text:
            self._fetcher.ask(
                "suggestion",
                lambda: self._suggest(text, python, lambda: number == self._request_number),
                self._show,
                pause=0 if at_once else PAUSE,
            )

    def cancel(self) -> None:
        """Cancel a pending request."""
        self._request_number += 1
        self._fetcher.forget("suggestion")

    def clear(self) -> None:
        """Remove the suggestion, and cancel a pending request."""
        self.cancel()
        self._area.suggestion = ""

    def accept(self) -> bool:
        """Insert the suggestion; returns False if there is none, or if the completion list is
        open."""
        if not self._area.suggestion or self._completions.is_open:
            return False
        self._area.insert(self._area.suggestion)
        return True

    def _show(self, text: str) -> None:
        if self._area.cursor_at_end_of_text and not self._completions.is_open:
            self._area.suggestion = text


Explain = Callable[[str, int], "Explanation | None"]
"""Explains the name at a cursor; raises `KernelError`."""

_WIDEST_CARD, _HIGHEST = 90, 16
"""Maximum columns and lines, including the border."""


class HelpCard(Static):
    """Shows an explanation. It never gets the focus; typing or moving the cursor closes it."""

    can_focus = False

    def __init__(self, explain: Explain | None) -> None:
        super().__init__(markup=False)
        self.display = False
        self._explain = explain
        self._fetcher = Fetcher(self)

    def ask(self, code: str, cursor: int, at: Offset) -> None:
        """Explain the name at a character offset; asks the kernel on a thread. at: the cursor's
        cell on the screen."""
        if (explain := self._explain) is None:
            return
        self._fetcher.ask(
            "help",
            lambda: explain(code, cursor),
            lambda about: self._show(_content(about), at),
            lambda error: self._show(Content(error), at),
        )

    def close(self) -> None:
        """Close the card, and drop a pending request."""
        self._fetcher.forget("help")
        self.display = False

    def _show(self, content: Content, at: Offset) -> None:
        screen = self.screen.size
        width = min(screen.width, _WIDEST_CARD)
        lines = content.wrap(width - 4)
        height = min(len(lines) + 2, _HIGHEST, max(3, at.y))
        if len(lines) > height - 2:
            lines = [
                *lines[: height - 3],
                Content.styled("… name? in a cell shows all of it", "$muted"),
            ]
        self.update(Content("\n").join(lines))
        self.styles.width, self.styles.height = width, height
        self.absolute_offset = Offset(
            max(0, min(at.x - 2, screen.width - width)), max(0, at.y - height)
        )
        self.display = True


def _content(about: Explanation | None) -> Content:
    from textual.highlight import highlight  # loaded late, for a fast start

    if about is None:
        return Content("No help for the code at the cursor.")
    parts = [highlight(plain(about.signature), language="python")]
    if about.doc:
        parts.append(Content(plain(about.doc)))
    if about.where:
        parts.append(Content.styled(plain(about.where), "$muted"))
    return Content("\n\n").join(parts)
