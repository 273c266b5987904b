"""Saving what an output screen shows to a file."""

from __future__ import annotations

import os
from pathlib import Path

from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import InspectedObject, Look, ViewKind
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.inspector.view import Subject
from mahtab_tui.tui.screens.inspector.viewer import Viewer
from mahtab_tui.tui.screens.prompt import Prompt


def no_subject(look: Look, kind: ViewKind) -> Subject:
    """Make a subject for a view of something that is no object of the kernel: the view asks the kernel nothing."""
    return Subject(look, (), InspectedObject((), "", "", "data", (kind,), "", 0, 0, 0))


def save(viewer: Viewer, fetcher: Fetcher, folder: Path, name: str, content: bytes) -> None:
    """Ask for a file, write the content on a thread, and show the outcome. folder: for a name without one. name: the suggestion."""

    def chosen(entered: str | None) -> None:
        if entered:
            path = folder / os.path.expanduser(entered)
            fetcher.ask("save", lambda: written(path, content), lambda path: viewer.say(Content(plain(f"Saved to {path}"))), viewer.fail)

    viewer.app.push_screen(Prompt("Save to the file", name), chosen)


def written(path: Path, content: bytes) -> Path:
    """Write a new file. Raises `KernelError` with a sentence if it exists, or cannot be written."""
    try:
        file = path.open("xb")
    except FileExistsError:
        raise KernelError(f"{path} exists already and was not changed.") from None
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        raise KernelError(f"{path} cannot be written: {getattr(error, 'strerror', error)}.") from None
    try:
        with file:
            file.write(content)
    except OSError as error:
        path.unlink()
        raise KernelError(f"{path} cannot be written: {error.strerror}.") from None
    return path
