"""Widgets that never hear that they were laid out."""

from __future__ import annotations

from textual._compositor import Compositor, ReflowResult
from textual.geometry import Size
from textual.widget import Widget


class LayoutEvents(Compositor):
    """A compositor that finds new and resized widgets by what they were last told.

    Textual compares a layout with the map of all widgets, which a look at some widget's `region`
    brings up to date between two layouts: a widget that was mounted in between is not new any more,
    gets neither `Resize` nor `Show`, and stays blank.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[Widget, Size] = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        hidden = super().reflow(parent, size).hidden
        told, self._told = (
            self._told,
            {widget: geometry.region.size for widget, geometry in self._full_map.items()},
        )
        shown = self._told.keys() - told.keys()
        return ReflowResult(
            hidden,
            shown,
            {
                widget
                for widget, now in self._told.items()
                if widget not in shown and told[widget] != now
            },
        )
