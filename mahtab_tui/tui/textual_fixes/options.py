"""An option list that changes between the press and the click, and whose row at the cursor stays
readable."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.strip import Strip
from textual.widgets import OptionList

from mahtab_tui.tui.rows.palette import palette_of


class Options(OptionList):
    """Ignores a click on an option that is still drawn but has been removed; Textual would look it
    up."""

    async def _on_click(self, event: Click) -> None:
        place = event.style.meta.get("option")
        if place is not None and place >= self.option_count:
            event.prevent_default()

    def render_line(self, y: int) -> Strip:
        """Draw quiet text of the row at the cursor in the colour of the row: grey is not readable
        on its background."""
        strip = super().render_line(y)
        lines, at = self._lines, self.scroll_offset.y + y
        if not 0 <= at < len(lines) or lines[at][0] != self.highlighted:
            return strip
        muted = palette_of(self.app).muted.color
        plain = Style(color=self.get_component_rich_style("option-list--option-highlighted").color)
        quiet = (style is not None and style.color == muted for _, style, _ in strip)
        return Strip(
            [
                Segment(text, (style or Style.null()) + plain) if is_quiet else Segment(text, style)
                for (text, style, _), is_quiet in zip(strip, quiet, strict=True)
            ],
            strip.cell_length,
        )
