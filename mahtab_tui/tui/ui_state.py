"""State of the screen for the next start: theme, sizes of panes, models, kernels elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from mahtab_tui.settings.model import home_folder
from mahtab_tui.tui.layout import PaneLayout

_REMEMBERED = 12
"""Models, and addresses of kernels, that are remembered."""


class UiState(BaseModel):
    """Kept in ``~/.mahtab/screen.json``."""

    theme: str = "mahtab"
    layout: PaneLayout = Field(default_factory=PaneLayout)
    models: tuple[str, ...] = ()
    """Names, the most recent first."""
    kernels: tuple[str, ...] = ()
    """Addresses, the most recent first."""

    @staticmethod
    def path() -> Path:
        return home_folder() / "screen.json"

    @classmethod
    def load(cls) -> UiState:
        """Read the saved choices; the defaults if there are none that can be read."""
        try:
            return cls.model_validate_json(cls.path().read_bytes())
        except (OSError, ValidationError):
            return cls()

    def remember_model(self, name: str) -> None:
        self.models = (name, *(other for other in self.models if other != name))[:_REMEMBERED]

    def remember_kernel(self, address: str) -> None:
        self.kernels = (address, *(other for other in self.kernels if other != address))[
            :_REMEMBERED
        ]

    def save(self) -> None:
        """Save them, unless the folder cannot be written to."""
        path = self.path()
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text(json.dumps(self.model_dump(mode="json")), "utf-8")
            draft.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)  # the disk may be full
