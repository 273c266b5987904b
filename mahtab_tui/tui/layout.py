"""How the panes share the screen; pure values and functions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

NARROW = 100
"""Columns below which the side panes are a drawer over the transcript."""

SHORT = 30
"""Lines below which the editor begins with one line."""

TINY = 8
"""Lines below which the editor has room for the text alone, without its hint."""

STEP = 4
"""Percent by which a key moves a splitter."""

Resize = Literal["wider", "narrower", "taller", "shorter"]


class PaneLayout(BaseModel):
    """Sizes in percent of the room that is shared, and what is hidden."""

    model_config = ConfigDict(frozen=True)

    side: int = Field(default=34, ge=15, le=70)
    """Width of the side panes."""
    namespace: int = Field(default=55, ge=15, le=85)
    """Height of the namespace within the side."""
    show_side: bool = True
    show_namespace: bool = True
    show_recursion: bool = True
    drawer: bool = False
    """Whether the drawer is open, on a narrow screen."""

    def resized(self, how: Resize) -> PaneLayout:
        """One step wider, narrower, taller or shorter."""
        step = STEP if how in ("wider", "taller") else -STEP
        if how in ("wider", "narrower"):
            return self.with_side(self.side + step)
        return self.with_namespace(self.namespace + step)

    def with_side(self, percent: int) -> PaneLayout:
        """The side at a width, within its bounds."""
        return self.model_copy(update={"side": max(15, min(70, percent))})

    def with_namespace(self, percent: int) -> PaneLayout:
        """The namespace at a height, within its bounds."""
        return self.model_copy(update={"namespace": max(15, min(85, percent))})

    def toggled_side(self, width: int) -> PaneLayout:
        """Hide or show the side; on a narrow screen the drawer."""
        if width < NARROW:
            return self.model_copy(update={"drawer": not self.drawer})
        if self.show_side or self.show_namespace or self.show_recursion:
            return self.model_copy(update={"show_side": not self.show_side})
        return self.model_copy(update={"show_side": True, "show_namespace": True, "show_recursion": True})

    def toggled(self, pane: Literal["namespace", "recursion"], width: int) -> PaneLayout:
        """Hide or show one of the side panes; the side, or the drawer, goes with the last of them and comes back with the first."""
        names = {"namespace": self.show_namespace, "recursion": self.show_recursion}
        names[pane] = not names[pane] or not self.side_seen(width)
        side = "drawer" if width < NARROW else "show_side"
        shown = {f"show_{name}": seen for name, seen in names.items()}
        return self.model_copy(update={**shown, side: any(names.values())})

    def side_seen(self, width: int) -> bool:
        """Whether the side is on the screen."""
        return self.drawer if width < NARROW else self.show_side
