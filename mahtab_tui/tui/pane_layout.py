"""How the panes are arranged: the width of the side, the height of the namespace in it."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

NARROW_COLUMNS = 110
"""On a screen with fewer columns, the side panes cover the transcript while they are open."""
SIDE_PERCENT = 34
"""The least width of the side in percent of the screen, if the user has not moved its splitter."""
MIN_SIDE_PERCENT = 15
MAX_SIDE_PERCENT = 70
MAX_MAIN_COLUMNS = 126
"""On a wide screen the side gets what the transcript does not need."""
MIN_NAMESPACE_PERCENT = 15
MAX_NAMESPACE_PERCENT = 85
RESIZE_STEP_PERCENT = 4
"""How far a key moves a splitter."""

Direction = Literal["wider", "narrower", "taller", "shorter"]


class PaneLayout(BaseModel):
    """How the user has arranged the panes."""

    model_config = ConfigDict(frozen=True)

    side: int | None = Field(default=None, ge=MIN_SIDE_PERCENT, le=MAX_SIDE_PERCENT)
    """The width of the side in percent; None if the user has not moved its splitter."""
    namespace_height: int | None = Field(
        default=None, ge=MIN_NAMESPACE_PERCENT, le=MAX_NAMESPACE_PERCENT
    )
    """The height of the namespace in percent of the side; None if the user has not moved the
    splitter."""
    show_side: bool = True
    """Whether the side is visible on a screen that is not narrow."""
    drawer: bool = False
    """Whether the side is open on a narrow screen; it is closed at each start."""

    def side_columns(self, width: int) -> int:
        """Return the width of the side, on a screen of this width."""
        if self.side is not None:
            return width * self.side // 100
        columns = max(width * SIDE_PERCENT // 100, width - MAX_MAIN_COLUMNS)
        return min(columns, width * MAX_SIDE_PERCENT // 100)

    def shows_side(self, width: int) -> bool:
        """Return whether the side is visible on a screen of this width."""
        if width < NARROW_COLUMNS:
            return self.drawer
        return self.show_side

    def toggled_side(self, width: int) -> PaneLayout:
        """Return the layout with the side shown or hidden, on a screen of this width."""
        is_visible = not self.shows_side(width)
        if width < NARROW_COLUMNS:
            return self.with_drawer(is_visible)
        return self.model_copy(update={"show_side": is_visible})

    def with_drawer(self, is_open: bool) -> PaneLayout:
        """Return the layout with the side of a narrow screen open or closed."""
        return self.model_copy(update={"drawer": is_open})

    def with_side(self, percent: int) -> PaneLayout:
        """Return the layout with another width of the side, within the limits."""
        percent = max(MIN_SIDE_PERCENT, min(MAX_SIDE_PERCENT, percent))
        return self.model_copy(update={"side": percent})

    def with_namespace(self, percent: int) -> PaneLayout:
        """Return the layout with another height of the namespace, within the limits."""
        percent = max(MIN_NAMESPACE_PERCENT, min(MAX_NAMESPACE_PERCENT, percent))
        return self.model_copy(update={"namespace_height": percent})

    def resized(self, direction: Direction, width: int, namespace_percent: int) -> PaneLayout:
        """Move a splitter by one step.

        Args:
            direction: What the side or the namespace becomes.
            width: Cells of the screen.
            namespace_percent: The present height of the namespace, in percent of the side.
        """
        grows = direction in ("wider", "taller")
        step = RESIZE_STEP_PERCENT if grows else -RESIZE_STEP_PERCENT
        if direction in ("wider", "narrower"):
            side_percent = math.ceil(100 * self.side_columns(width) / max(1, width))
            return self.with_side(side_percent + step)
        if self.namespace_height is not None:
            namespace_percent = self.namespace_height
        return self.with_namespace(namespace_percent + step)
