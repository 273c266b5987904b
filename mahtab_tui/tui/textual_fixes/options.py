"""A list of options that may change while one is being clicked."""

from __future__ import annotations

from textual.events import Click
from textual.widgets import OptionList


class Options(OptionList):
    """A click on an option that is still drawn and already gone does nothing; Textual would look it up all the same."""

    async def _on_click(self, event: Click) -> None:
        place = event.style.meta.get("option")
        if place is not None and place >= self.option_count:
            event.prevent_default()
