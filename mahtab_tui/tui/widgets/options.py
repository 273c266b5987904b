"""A list of options."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.strip import Strip
from textual.widgets import OptionList

from mahtab_tui.tui.theme import get_palette


class Options(OptionList):
    """One line for each option. Ignores clicks on a removed option that is still drawn."""

    DEFAULT_CSS = "Options { text-wrap: nowrap; text-overflow: ellipsis; }"

    async def _on_click(self, event: Click) -> None:
        option = event.style.meta.get("option")
        if option is not None and option >= self.option_count:
            event.prevent_default()

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        lines = self._lines
        index = self.scroll_offset.y + y
        if not 0 <= index < len(lines) or lines[index][0] != self.highlighted:
            return strip
        # Muted text would be hard to read on the background of the highlighted option.
        muted = get_palette(self.app).muted.color
        highlighted = self.get_component_rich_style("option-list--option-highlighted")
        text_style = Style(color=highlighted.color)
        segments = []
        for text, style, _ in strip:
            if style is not None and style.color == muted:
                style += text_style
            segments.append(Segment(text, style))
        return Strip(segments, strip.cell_length)
