"""Completes file names in strings."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .candidates import Candidate, fixed

MOST = 20_000
"""Entries of a folder that are examined."""


def split(stem: str) -> tuple[str, str]:
    """Split typed text into the folder and the start of the name."""
    folder, separator, name = stem.rpartition("/")
    return folder + separator, name


def files(stem: str) -> Iterator[Candidate]:
    """Yield the contents of the folder that a string names; nothing if it cannot be read."""
    folder, name = split(stem)
    try:
        entries = os.scandir(os.path.expanduser(folder) or ".")
    except (OSError, ValueError):
        return
    with entries:
        for count, entry in enumerate(entries):
            if count >= MOST:
                return
            if entry.name.startswith(".") and not name.startswith("."):
                continue
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            label = entry.name + ("/" if is_folder else "")
            if label.isprintable() and not set(label) & set("\"'\\"):
                yield Candidate(label, fixed("folder" if is_folder else "file"))
