"""The card with help for the name at the cursor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import Offset
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Explanation
    from mahtab_tui.tui.editor.input_help import InputHelp

MAX_CARD_WIDTH = 90
"""In cells, with the border."""
MAX_CARD_HEIGHT = 16
"""The maximum height in lines, with the border."""
_BORDER_LINES = 2
_BORDER_AND_PADDING = 4
"""Cells of a line that hold no text."""


class HelpCard(Static):
    """Shows the signature and docstring of the name at the cursor, above it."""

    can_focus = False

    def __init__(self, input_help: InputHelp | None) -> None:
        super().__init__(markup=False)
        self.display = False
        self._input_help = input_help
        self._fetcher = Fetcher(self)
        self.asked_position: tuple[str, int] | None = None
        """The code and the cursor that were asked about; None when the card is closed."""

    def ask(self, code: str, cursor: int, anchor: Offset) -> None:
        """Explain the name at the cursor, as soon as there is an answer. On the main thread only.

        Args:
            code: The text of the editor.
            cursor: The cursor's offset in characters.
            anchor: The cursor's cell on the screen.
        """
        if self._input_help is None:
            return
        self.asked_position = (code, cursor)
        self._fetcher.run(
            "help",
            partial(self._input_help.explain, code, cursor),
            lambda explanation: self._show(_content(explanation), anchor),
            lambda error: self._show(Content(error), anchor),
        )

    def close(self) -> None:
        """Hide the card, and forget what was asked. On the main thread only."""
        self._fetcher.forget("help")
        self.display = False
        self.asked_position = None

    def _show(self, content: Content, anchor: Offset) -> None:
        """Show a text above the screen's cell `anchor`, or as much of it as fits there."""
        screen = self.screen.size
        width = min(screen.width, MAX_CARD_WIDTH)
        lines = content.wrap(width - _BORDER_AND_PADDING)
        lines_above = max(_BORDER_LINES + 1, anchor.y)
        height = min(len(lines) + _BORDER_LINES, MAX_CARD_HEIGHT, lines_above)
        max_lines = height - _BORDER_LINES
        if len(lines) > max_lines:
            hint = Content.styled("… name? in a cell shows all of it", "$muted")
            lines = [*lines[: max_lines - 1], hint]

        self.update(Content("\n").join(lines))
        self.styles.width = width
        self.styles.height = height
        x = max(0, min(anchor.x - 2, screen.width - width))
        self.absolute_offset = Offset(x, max(0, anchor.y - height))
        self.display = True


def _content(explanation: Explanation | None) -> Content:
    # Loaded late, for a fast start.
    from textual.highlight import highlight

    if explanation is None:
        return Content("No help for the code at the cursor.")
    sections = [highlight(plain(explanation.signature), language="python")]
    if explanation.doc:
        sections.append(Content(plain(explanation.doc)))
    if explanation.where:
        sections.append(Content.styled(plain(explanation.where), "$muted"))
    return Content("\n\n").join(sections)
