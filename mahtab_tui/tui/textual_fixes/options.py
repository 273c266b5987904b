"""An option list that changes between the press and the click."""

from __future__ import annotations

from textual.events import Click
from textual.widgets import OptionList


class Options(OptionList):
    """Ignores a click on an option that is still drawn but has been removed; Textual would look it up."""

    async def _on_click(self, event: Click) -> None:
        place = event.style.meta.get("option")
        if place is not None and place >= self.option_count:
            event.prevent_default()
