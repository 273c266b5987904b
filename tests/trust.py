"""What a person does who trusts a project."""

from __future__ import annotations

from mahtab_tui.configuration.files import allow
from mahtab_tui.setting_sources import all_held_back
from mahtab_tui.settings import Settings


def trust_project() -> None:
    """Allow all that the files of the project in the working directory set."""
    for held in all_held_back(Settings):
        allow(held.path, held.values)
