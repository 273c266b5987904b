"""What is remembered of the screen for later sessions, in `screen.json` of the home folder."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from mahtab_tui.settings.model import SettingsError, home_folder
from mahtab_tui.tui.pane_layout import PaneLayout

MAX_REMEMBERED_NAMES = 12
"""This many models are remembered, and as many kernels."""


class UiState(BaseModel):
    """The theme, the arrangement of the panes, and the models and kernels that were used."""

    theme: str = "mahtab"
    layout: PaneLayout = Field(default_factory=PaneLayout)
    models: tuple[str, ...] = ()
    """Full names, the last used one first."""
    kernels: tuple[str, ...] = ()
    """Addresses, the last used one first."""

    @staticmethod
    def path() -> Path:
        """Return the file in which it is saved."""
        return home_folder() / "screen.json"

    @classmethod
    def load(cls) -> UiState:
        """Read the file; if that is not possible, everything is as at the first start."""
        try:
            return cls.model_validate_json(UiState.path().read_bytes())
        except (OSError, ValidationError):
            return cls()

    def save(self) -> None:
        """Write the file, if that is possible."""
        # Not needed before the first picture.
        from mahtab_tui.settings.values import write_text

        with contextlib.suppress(SettingsError):
            write_text(UiState.path(), self.model_dump_json())

    def remember_model(self, name: str) -> None:
        """Note that a model was used last.

        Args:
            name: Its full name.
        """
        self.models = _put_first(name, self.models)

    def remember_kernel(self, address: str) -> None:
        """Note that a kernel was used last."""
        self.kernels = _put_first(address, self.kernels)


def _put_first(name: str, names: Sequence[str]) -> tuple[str, ...]:
    other_names = (known_name for known_name in names if known_name != name)
    return (name, *other_names)[:MAX_REMEMBERED_NAMES]
