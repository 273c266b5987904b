"""How the panes share the screen, and the UI state saved for the next start."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mahtab_tui.settings.model import home_folder

NARROW_COLUMNS = 100
"""Columns below which the side panes are a drawer over the transcript."""

SHORT_LINES = 30
"""Lines below which the editor has no blank lines around its text."""

LOW_LINES = 16
"""Lines below which the editor starts with one line, and its hint has only one."""

TINY_LINES = 8
"""Lines below which the editor shows no hint."""

NAMESPACE_PERCENT = 55
"""Default percent of the side's height for the namespace after the first search."""

STEP_PERCENT = 4
"""Percent by which a key moves a splitter."""

SIDE_PERCENT = 34
"""Default percent of the width for the side panes, unless the transcript leaves more."""

MAIN_COLUMNS = 126
"""Maximum columns of the transcript, with its edges and the splitter; the side panes get the
rest."""

MAX_SIDE_PERCENT = 70
"""Maximum percent of the width for the side panes."""

Resize = Literal["wider", "narrower", "taller", "shorter"]


class PaneLayout(BaseModel):
    """Sizes in percent, and which panes are hidden."""

    model_config = ConfigDict(frozen=True)

    side: int | None = Field(default=None, ge=15, le=70)
    """Width of the side panes; None if the user has not moved the splitter."""
    namespace_height: int | None = Field(default=None, ge=15, le=85)
    """Height of the namespace within the side; None if the user has not moved the splitter."""
    show_side: bool = True
    show_namespace: bool = True
    show_recursion: bool = True
    drawer: bool = False
    """Whether the drawer is open on a narrow screen. It is closed at each start."""

    def side_columns(self, width: int) -> int:
        """Return the columns of the side panes on a screen of this width."""
        if self.side is not None:
            return width * self.side // 100
        return min(
            max(width * SIDE_PERCENT // 100, width - MAIN_COLUMNS), width * MAX_SIDE_PERCENT // 100
        )

    def resized(self, how: Resize, width: int, namespace: int) -> PaneLayout:
        """Change a size by one step, on a screen of this width. namespace: the current height of
        the namespace in percent."""
        step = STEP_PERCENT if how in ("wider", "taller") else -STEP_PERCENT
        if how in ("wider", "narrower"):
            return self.with_side(
                (
                    math.ceil(100 * self.side_columns(width) / max(1, width))
                    if self.side is None
                    else self.side
                )
                + step
            )
        return self.with_namespace(
            (namespace if self.namespace_height is None else self.namespace_height) + step
        )

    def with_side(self, percent: int) -> PaneLayout:
        """Set the width of the side, within its limits."""
        return self.model_copy(update={"side": max(15, min(MAX_SIDE_PERCENT, percent))})

    def with_namespace(self, percent: int) -> PaneLayout:
        """Set the height of the namespace, within its limits."""
        return self.model_copy(update={"namespace_height": max(15, min(85, percent))})

    def toggled_side(self, width: int) -> PaneLayout:
        """Hide or show the side; on a narrow screen it is a drawer."""
        side = _side_field(width)
        if self.shows_side(width):
            return self.model_copy(update={side: False})
        everything = {} if self._has_content else {"show_namespace": True, "show_recursion": True}
        return self.model_copy(update={side: True, **everything})

    def toggled(self, pane: Literal["namespace", "recursion"], width: int) -> PaneLayout:
        """Hide or show one of the side panes; showing one also shows the side."""
        shown = self.show_namespace if pane == "namespace" else self.show_recursion
        if shown and self.shows_side(width):
            return self.model_copy(update={f"show_{pane}": False})
        return self.model_copy(update={f"show_{pane}": True, _side_field(width): True})

    def with_drawer_closed(self) -> PaneLayout:
        return self.model_copy(update={"drawer": False}) if self.drawer else self

    def shows_side(self, width: int) -> bool:
        """Whether the side is on the screen."""
        return (self.drawer if width < NARROW_COLUMNS else self.show_side) and self._has_content

    @property
    def _has_content(self) -> bool:
        return self.show_namespace or self.show_recursion


def _side_field(width: int) -> Literal["drawer", "show_side"]:
    return "drawer" if width < NARROW_COLUMNS else "show_side"


_MAX_REMEMBERED = 12
"""Maximum number of remembered models, and of kernel addresses."""


class UiState(BaseModel):
    """Saved in ``~/.mahtab/screen.json``."""

    theme: str = "mahtab"
    layout: PaneLayout = Field(default_factory=PaneLayout)
    models: tuple[str, ...] = ()
    """Names of models, most recent first."""
    kernels: tuple[str, ...] = ()
    """Addresses of kernels, most recent first."""

    @staticmethod
    def path() -> Path:
        return home_folder() / "screen.json"

    @classmethod
    def load(cls) -> UiState:
        """Read the saved state; the defaults if it cannot be read."""
        try:
            return cls.model_validate_json(cls.path().read_bytes())
        except (OSError, ValidationError):
            return cls()

    def remember_model(self, name: str) -> None:
        self.models = (name, *(other for other in self.models if other != name))[:_MAX_REMEMBERED]

    def remember_kernel(self, address: str) -> None:
        self.kernels = (address, *(other for other in self.kernels if other != address))[
            :_MAX_REMEMBERED
        ]

    def save(self) -> None:
        """Save the state, if the folder is writable."""
        path = self.path()
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text(json.dumps(self.model_dump(mode="json")), "utf-8")
            draft.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)  # the disk may be full
