"""How the panes share the screen: values and functions without side effects."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

NARROW = 100
"""Columns below which the side panes are a drawer over the transcript."""

SHORT = 30
"""Lines below which the editor has one line at first."""

TINY = 8
"""Lines below which the editor shows no hint."""

STEP = 4
"""Percent by which a key moves a splitter."""

SIDE = 34
"""Percent of the width that the side panes take by default, unless the transcript leaves more."""

MAIN = 126
"""Columns of the transcript at most, with its edges and the splitter; the side panes take the rest."""

WIDEST = 70
"""Percent of the width that the side panes take at most."""

Resize = Literal["wider", "narrower", "taller", "shorter"]


class PaneLayout(BaseModel):
    """Sizes in percent, and which panes are hidden."""

    model_config = ConfigDict(frozen=True)

    side: int | None = Field(default=None, ge=15, le=70)
    """Width of the side panes; None if the user has not moved the splitter."""
    namespace: int = Field(default=55, ge=15, le=85)
    """Height of the namespace within the side."""
    show_side: bool = True
    show_namespace: bool = True
    show_recursion: bool = True
    """Takes effect with the first search; before it the pane has no room."""
    drawer: bool = False
    """Whether the drawer is open, on a narrow screen."""

    def side_columns(self, width: int) -> int:
        """The columns of the side panes on a screen of this width."""
        if self.side is not None:
            return width * self.side // 100
        return min(max(width * SIDE // 100, width - MAIN), width * WIDEST // 100)

    def resized(self, how: Resize, width: int) -> PaneLayout:
        """Change a size by one step, on a screen of this width."""
        step = STEP if how in ("wider", "taller") else -STEP
        if how in ("wider", "narrower"):
            return self.with_side((math.ceil(100 * self.side_columns(width) / max(1, width)) if self.side is None else self.side) + step)
        return self.with_namespace(self.namespace + step)

    def with_side(self, percent: int) -> PaneLayout:
        """Set the width of the side, within its bounds."""
        return self.model_copy(update={"side": max(15, min(WIDEST, percent))})

    def with_namespace(self, percent: int) -> PaneLayout:
        """Set the height of the namespace, within its bounds."""
        return self.model_copy(update={"namespace": max(15, min(85, percent))})

    def toggled_side(self, width: int, searched: bool) -> PaneLayout:
        """Hide or show the side, which is a drawer on a narrow screen."""
        side = _side_of(width)
        if self.side_seen(width, searched):
            return self.model_copy(update={side: False})
        everything = {} if self._holds_something(searched) else {"show_namespace": True, "show_recursion": True}
        return self.model_copy(update={side: True, **everything})

    def toggled(self, pane: Literal["namespace", "recursion"], width: int, searched: bool) -> PaneLayout:
        """Hide or show one of the side panes; showing one also shows the side."""
        shown = self.show_namespace if pane == "namespace" else self.recursion_seen(searched)
        if shown and self.side_seen(width, searched):
            return self.model_copy(update={f"show_{pane}": False})
        return self.model_copy(update={f"show_{pane}": True, _side_of(width): True})

    def recursion_seen(self, searched: bool) -> bool:
        """Whether the recursion pane has a place in the side. searched: whether there was a search, or the user asked for the pane."""
        return self.show_recursion and searched

    def side_seen(self, width: int, searched: bool) -> bool:
        """Whether the side is on the screen."""
        return (self.drawer if width < NARROW else self.show_side) and self._holds_something(searched)

    def _holds_something(self, searched: bool) -> bool:
        return self.show_namespace or self.recursion_seen(searched)


def _side_of(width: int) -> Literal["drawer", "show_side"]:
    return "drawer" if width < NARROW else "show_side"
