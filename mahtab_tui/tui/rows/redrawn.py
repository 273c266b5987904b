"""Widgets that draw their lines themselves."""

from __future__ import annotations

from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.widget import Widget

from mahtab_tui.tui.rows.palette import Palette


class Redrawn(ScrollView):
    """Looks anew whenever the width or the colours may be others."""

    def look_anew(self, palette: Palette) -> None:
        """Lay everything out for the present size, in these colours."""
        raise NotImplementedError

    def hold(self, rows: int) -> None:
        """Say how many rows there are now."""
        size = Size(self.scrollable_content_region.width, rows)
        stays = self.show_vertical_scrollbar and size.width == self.virtual_size.width and rows > self.scroll_offset.y + self.size.height
        if stays or self.styles.overflow_y == "scroll":
            # Only the scrollbar depends on it: assigned plainly, it would have the whole screen laid out anew.
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = rows
        else:
            self.virtual_size = size

    def on_resize(self, event: Resize) -> None:
        self._look_anew()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_attached and self.size:
            self._look_anew()

    def _look_anew(self) -> None:
        self.look_anew(Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables}))
