"""Trust in the files of a project."""

from __future__ import annotations

from mahtab_tui.settings.model import Settings
from mahtab_tui.settings.sources import all_untrusted_settings
from mahtab_tui.settings.values import trust_values


def trust_project() -> None:
    """Allow all that the files of the project in the working directory set."""
    trust_values({withheld.path: withheld.values for withheld in all_untrusted_settings(Settings)})
