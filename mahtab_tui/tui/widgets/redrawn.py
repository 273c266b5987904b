"""Widgets that draw their lines themselves."""

from __future__ import annotations

from textual.events import Resize
from textual.scroll_view import ScrollView

from mahtab_tui.tui.panes.transcript.palette import Palette


class Redrawn(ScrollView):
    """Looks anew whenever the width or the colours may be others."""

    def look_anew(self, palette: Palette) -> None:
        """Lay everything out for the present size, in these colours."""
        raise NotImplementedError

    def on_resize(self, event: Resize) -> None:
        self._look_anew()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_attached and self.size:
            self._look_anew()

    def _look_anew(self) -> None:
        self.look_anew(Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables}))
