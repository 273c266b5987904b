"""A screen for the pictures of a cell, one at a time."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from mahtab_tui.kernel.looking import Look
from mahtab_tui.tui.commands.output import OUTPUT_COMMANDS, PICTURES_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.inspector.picture_view import PictureView
from mahtab_tui.tui.screens.inspector.viewer import Viewer
from mahtab_tui.tui.screens.output.saving import no_subject, save
from mahtab_tui.tui.textual_fixes.key_line import KeyLine


class DisplayedPicture(NamedTuple):
    """A picture that a cell has displayed."""

    mime: str
    data: str
    """base64."""


class PicturesScreen(Dialog[None]):
    """The arrows go from one picture to the next."""

    AUTO_FOCUS = ""  # else the hidden input line would get the focus, and the first keys
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(OUTPUT_COMMANDS), *bindings(PICTURES_COMMANDS)]

    def __init__(self, cell: int, pictures: Sequence[DisplayedPicture], look: Look, folder: Path) -> None:
        """folder: for a saved file whose name has none."""
        super().__init__()
        self.viewer = Viewer(id="output-body")
        self._fetcher = Fetcher(self)
        self._folder = folder
        self._cell = cell
        self._pictures = pictures
        self._look = look
        self._at = len(pictures) - 1

    def compose(self) -> ComposeResult:
        yield Static(id="output-title", markup=False)
        yield self.viewer
        yield KeyLine()

    def on_mount(self) -> None:
        self.call_later(self._show)

    async def _show(self) -> None:
        number = f"  ·  {self._at + 1} of {len(self._pictures)}" if len(self._pictures) > 1 else ""
        self.query_one("#output-title", Static).update(f"Picture of cell {self._cell}{number}")
        file = partial(base64.b64decode, self._pictures[self._at].data)
        await self.viewer.show(PictureView(no_subject(self._look, "picture"), file))

    def action_back(self) -> None:
        self.dismiss(None)

    def action_save(self) -> None:
        picture = self._pictures[self._at]
        suffix = "jpg" if picture.mime == "image/jpeg" else "png"
        number = f"-{self._at + 1}" if len(self._pictures) > 1 else ""
        save(self.viewer, self._fetcher, self._folder, f"cell-{self._cell}{number}.{suffix}", base64.b64decode(picture.data))

    async def action_step(self, step: int) -> None:
        """Show the next picture (1), or the previous one (-1)."""
        if 0 <= self._at + step < len(self._pictures):
            self._at += step
            await self._show()
