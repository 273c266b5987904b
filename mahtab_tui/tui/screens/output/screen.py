"""What the screens of a cell's output have in common: a heading, a view, a line below it, saving to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import InspectedObject, Look, ViewKind
from mahtab_tui.tui.commands.output import OUTPUT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.view import Place, View
from mahtab_tui.tui.screens.inspector.viewing_screen import ViewingScreen
from mahtab_tui.tui.screens.prompt import Prompt


def no_place(look: Look, kind: ViewKind) -> Place:
    """For a view of something that is no object in the kernel: it asks the kernel nothing."""
    return Place(look, (), InspectedObject((), "", "", "data", (kind,), "", 0, 0, 0))


class OutputScreen(ViewingScreen):
    """Closes by Escape; Ctrl+S saves what is seen."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(OUTPUT_COMMANDS)]

    def __init__(self, title: str, folder: Path) -> None:
        """`folder`: where a file is saved whose name has none."""
        super().__init__()
        self._title = title
        self._folder = folder

    def compose(self) -> ComposeResult:
        yield Static(Content(plain(self._title)), id="output-title", markup=False)
        yield Vertical(id="output-body")
        yield from self.below()

    @property
    def view(self) -> View | None:
        return next(iter(self.query_one("#output-body").query(View)), None)

    def content(self) -> bytes | None:
        """What is saved; None as long as nothing has come."""
        raise NotImplementedError

    @property
    def file_name(self) -> str:
        """What is proposed as the file's name."""
        raise NotImplementedError

    # What the person does

    def action_save(self) -> None:
        content = self.content()
        if content is None:
            return

        def chosen(name: str | None) -> None:
            if name:
                path = self._folder / os.path.expanduser(name)  # of no user, it is a name like any other
                self._fetcher.ask("save", lambda: saved(path, content), lambda path: self.say(Content(plain(f"Saved to {path}"))), self.fail)

        self.app.push_screen(Prompt("Save to the file", self.file_name), chosen)


def saved(path: Path, content: bytes) -> Path:
    """Write a new file. Raises `KernelError` with a sentence where that cannot be; one that is there already stays as it is."""
    try:
        file = path.open("xb")
    except FileExistsError:
        raise KernelError(f"There is a file {path} already; it was left as it is.") from None
    except (OSError, ValueError) as error:  # also a name that no file can have
        raise KernelError(f"{path} cannot be written: {getattr(error, 'strerror', error)}.") from None
    try:
        with file:
            file.write(content)
    except OSError as error:
        path.unlink()
        raise KernelError(f"{path} cannot be written: {error.strerror}.") from None
    return path
