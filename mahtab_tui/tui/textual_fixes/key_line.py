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
        if self.is_attached and self._keys() != self._made_of:
            await super().recompose()

    def _keys(self) -> list[tuple[object, ...]]:
        return [active[1:] for active in self.screen.active_bindings.values() if active.binding.show]

    def compose(self) -> ComposeResult:
        self._made_of = self._keys() if self._bindings_ready else None
        for widget in super().compose():
            if isinstance(widget, FooterKey):
                widget.set_reactive(FooterKey.compact, self.compact)
            yield widget
