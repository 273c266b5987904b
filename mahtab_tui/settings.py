"""Where things are on disk, and the one model of all settings."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource_folder(name: str) -> Path:
    """A folder that ships with the program (`styles`, `skills`): inside the package when installed, beside it in a checkout."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def home_folder() -> Path:
    """Where sessions, history and configuration are kept: ``~/.mahtab``."""
    return Path.home() / ".mahtab"
