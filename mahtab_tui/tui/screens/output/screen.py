"""Common base of the screens of a cell's output; they save their content to a file."""

from __future__ import annotations

import os
from pathlib import Path

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectedObject, InspectorClient, ViewKind
from mahtab_tui.tui.commands.on_screens import OUTPUT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.dialog import Dialog, ask
from mahtab_tui.tui.screens.inspector.view import Subject
from mahtab_tui.tui.screens.inspector.viewer import Viewer
from mahtab_tui.tui.screens.prompt import Prompt
from mahtab_tui.tui.widgets.key_line import KeyLine


def no_subject(look: InspectorClient, kind: ViewKind) -> Subject:
    """Make a subject for a view of something that is no object of the kernel: the view asks the
    kernel nothing."""
    return Subject(look, (), InspectedObject((), "", "", "data", (kind,), "", 0, 0, 0))


class OutputScreen(Dialog[None]):
    """A title, a viewer, and the keys that they share."""

    AUTO_FOCUS = ""  # else the hidden input line would get the focus, and the first keys
    BINDINGS = bindings(OUTPUT_COMMANDS)

    def __init__(self, look: InspectorClient, folder: Path) -> None:
        """folder: for a saved file whose name has none."""
        super().__init__()
        self.viewer = Viewer(id="output-body")
        self.fetcher = Fetcher(self)
        self.look = look
        self._folder = folder

    def compose(self) -> ComposeResult:
        yield Static(id="output-title", markup=False)
        yield self.viewer
        yield KeyLine()

    def set_title(self, title: str) -> None:
        self.query_one("#output-title", Static).update(title)

    def action_back(self) -> None:
        if not self.viewer.close_line():
            self.dismiss(None)

    def save(self, name: str, content: bytes) -> None:
        """Ask for a file, write the content on a thread, and show the outcome. name: the
        suggestion."""

        def chosen(entered: str) -> None:
            path, viewer = self._folder / os.path.expanduser(entered), self.viewer
            self.fetcher.ask(
                "save",
                lambda: written(path, content),
                lambda path: viewer.say(Content(plain(f"Saved to {path}"))),
                viewer.fail,
            )

        ask(self.app, Prompt("Save to the file", name), chosen)


def written(path: Path, content: bytes) -> Path:
    """Write a new file. Raises `KernelError` with a sentence if it exists, or cannot be written."""
    try:
        file = path.open("xb")
    except FileExistsError:
        raise KernelError(f"{path} exists already and was not changed.") from None
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        raise KernelError(
            f"{path} cannot be written: {getattr(error, 'strerror', error)}."
        ) from None
    try:
        with file:
            file.write(content)
    except OSError as error:
        path.unlink()
        raise KernelError(f"{path} cannot be written: {error.strerror}.") from None
    return path
