"""Programs on the PATH, without those that a project could put in their place."""

from __future__ import annotations

import os
import shutil


def safe_path() -> str:
    """Return the PATH without its empty and relative entries, which mean the working directory."""
    return os.pathsep.join(
        filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    )


def find_program(name: str) -> str | None:
    """Return the file of a program on the PATH, or the file that is named; None if there is
    none."""
    return shutil.which(name, path=safe_path())
