"""Actions of a person who trusts a project."""

from __future__ import annotations

from mahtab_tui.settings.model import Settings
from mahtab_tui.settings.sources import all_held_back
from mahtab_tui.settings.values import allow


def trust_project() -> None:
    """Allow all that the files of the project in the working directory set."""
    for held in all_held_back(Settings):
        allow(held.path, held.values)
