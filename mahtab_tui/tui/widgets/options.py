"""The list of options in menus, palettes and other lists to choose from."""

from __future__ import annotations

from typing import Literal

from textual.events import Click
from textual.strip import Strip
from textual.widgets import OptionList

from mahtab_tui.tui.theme import get_palette, unmute


class Options(OptionList):
    """Shows one line for each option.

    Muted text is not muted in the highlighted option, whose background would make it hard to read.
    """

    DEFAULT_CSS = "Options { text-wrap: nowrap; text-overflow: ellipsis; }"

    async def _on_click(self, event: Click) -> None:
        """Ignore a click on an option that was removed and is still drawn.

        Textual (8.2.8) raises `IndexError`.
        """
        option_index = event.style.meta.get("option")
        if option_index is not None and option_index >= self.option_count:
            # Textual's own handler follows otherwise.
            event.prevent_default()

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        """Stay where there is no space for any line. Textual (8.2.8) raises `KeyError`."""
        if self._index_to_line:
            super()._move_page(direction)

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        line_index = self.scroll_offset.y + y
        if not 0 <= line_index < len(self._lines):
            return strip
        option_index = self._lines[line_index][0]
        if option_index != self.highlighted:
            return strip
        selected = self.get_component_rich_style("option-list--option-highlighted")
        return unmute(strip, get_palette(self.app), selected)
