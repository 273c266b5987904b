"""The line of keys at the bottom."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


class KeyLine(Footer):
    """Textual's, which is made anew only when its keys have changed, and of which each key has its form at once.

    Textual makes all keys anew whenever the focus moves, and each takes another form first, and is styled three times.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._made_of: list[tuple[object, ...]] | None = None

    async def recompose(self) -> None:
        keys: list[tuple[object, ...]] = [active[1:] for active in self.screen.active_bindings.values() if active.binding.show]
        if keys != self._made_of:
            self._made_of = keys
            await super().recompose()

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            if isinstance(widget, FooterKey):
                widget.set_reactive(FooterKey.compact, self.compact)
            yield widget
