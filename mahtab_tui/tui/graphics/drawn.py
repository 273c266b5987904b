"""The application over whose pictures the terminal's own graphics are drawn."""

from __future__ import annotations

from typing import Any, TypeVar

from rich.console import RenderableType
from textual.app import App
from textual.screen import Screen

from mahtab_tui.tui.graphics.overlay import Overlay, Terminal
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.typed_ahead import TypedAheadDriver

T = TypeVar("T")


class Drawn(TerminalApp[T]):
    """Tells the overlay before each update of the screen."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._overlay = Overlay(self, lambda: self.terminal)

    @property
    def terminal(self) -> Terminal | None:
        """None: one that cannot be asked."""
        return self._driver if isinstance(self._driver, TypedAheadDriver) else None

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if renderable is not None:
            self._overlay.before(screen, renderable)
        super()._display(screen, renderable)


def cell_size(app: App[Any]) -> tuple[int, int]:
    """Pixels of a cell, width and height; where the terminal does not say, about their proportion."""
    terminal = app.terminal if isinstance(app, Drawn) else None
    return (terminal and terminal.cell_size) or (1, 2)
