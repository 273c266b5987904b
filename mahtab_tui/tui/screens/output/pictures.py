"""A screen for the pictures of a cell, one at a time."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.tui.commands.on_screens import PICTURES_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.picture_view import PictureView
from mahtab_tui.tui.screens.output.screen import OutputScreen, no_subject


class DisplayedPicture(NamedTuple):
    """A picture that a cell has displayed."""

    mime: str
    data: str
    """base64."""


class PicturesScreen(OutputScreen):
    """The arrows go from one picture to the next."""

    BINDINGS = bindings(PICTURES_COMMANDS)

    def __init__(
        self, cell: int, pictures: Sequence[DisplayedPicture], look: InspectorClient, folder: Path
    ) -> None:
        super().__init__(look, folder)
        self._cell = cell
        self._pictures = pictures
        self._at = len(pictures) - 1

    def on_mount(self) -> None:
        self.call_later(self._show)

    async def _show(self) -> None:
        number = f"  ·  {self._at + 1} of {len(self._pictures)}" if len(self._pictures) > 1 else ""
        self.set_title(f"Picture of cell {self._cell}{number}")
        file = partial(base64.b64decode, self._pictures[self._at].data)
        await self.viewer.show(PictureView(no_subject(self.look, "picture"), file))

    def action_save(self) -> None:
        picture = self._pictures[self._at]
        suffix = "jpg" if picture.mime == "image/jpeg" else "png"
        number = f"-{self._at + 1}" if len(self._pictures) > 1 else ""
        self.save(f"cell-{self._cell}{number}.{suffix}", base64.b64decode(picture.data))

    async def action_step(self, step: int) -> None:
        if 0 <= self._at + step < len(self._pictures):
            self._at += step
            await self._show()
