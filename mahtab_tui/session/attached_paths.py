"""Resolves the paths in questions: a link in a project may lead to a file that the user did not mean."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.session.mentions import Mention


class LeadsOut(Exception):
    """A link leads out of its folder. The message says where, and how to send the file anyway."""


class MentionedPath(NamedTuple):
    """A file or folder, with all links followed."""

    path: Path
    link_to: str
    """The real location, relative to the folder, if the path contains a link; else empty."""


def followed(named: Path, projects: Iterable[Path]) -> MentionedPath:
    """Resolve an absolute path, which need not exist.

    projects: folders that links must not leave. Links outside of them must stay in their own folder. Raises `LeadsOut`.
    """
    named, real = Path(os.path.normpath(named)), Path(os.path.realpath(named))
    folder = next((project for project in projects if named.is_relative_to(project)), named.parent)
    root = Path(os.path.realpath(folder))
    if not real.is_relative_to(root):
        raise LeadsOut(f"a link to {real}, which is outside of {folder}; write {Mention('path', str(real)).label} to send it")
    inside = real.relative_to(root)
    return MentionedPath(real, "" if inside == named.relative_to(folder) else str(inside))
