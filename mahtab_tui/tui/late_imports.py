"""Imports some modules after the first picture, on the main thread, one between two messages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from textual.widget import Widget

from mahtab_tui.system.imports import IMPORTS

MODULES = (
    "pygments.lexers.python",
    "markdown_it",
    "mahtab_tui.tui.panes.transcript.layout.cell",
    "mahtab_tui.tui.panes.transcript.layout.words",
)
"""The modules that the first cell and the first answer need."""


class LateImports:
    """Imports `MODULES` while a widget is on the screen."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._left: Iterator[str] = iter(MODULES)

    def begin(self) -> None:
        """Begin; call it when the widget is mounted, before threads start."""
        IMPORTS.screen_begins()
        self._widget.call_after_refresh(self._step)

    def end(self) -> None:
        """End; call it when the widget is unmounted, at the latest."""
        IMPORTS.screen_ends()

    def _step(self) -> None:
        if (name := next(self._left, None)) is None:
            self.end()
        else:
            import_module(name)
            self._widget.call_later(self._step)
