"""The pictures of a cell, one at a time."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.kernel.looking import Look
from mahtab_tui.tui.commands.output import PICTURES_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.picture_view import PictureView
from mahtab_tui.tui.screens.inspector.view import Place
from mahtab_tui.tui.screens.output.screen import OutputScreen, no_place


class Picture(NamedTuple):
    """One picture as a cell has shown it."""

    mime: str
    data: str
    """base64."""


class HeldPicture(PictureView):
    """A picture that is here."""

    def __init__(self, place: Place, file: Callable[[], bytes]) -> None:
        super().__init__(place)
        self._file = file

    def look_again(self) -> None:
        self._get(self._file)


class PicturesScreen(OutputScreen):
    """Fitted to the screen; the arrows go from one to the next."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(PICTURES_COMMANDS)]

    def __init__(self, cell: int, pictures: Sequence[Picture], look: Look, folder: Path) -> None:
        super().__init__(f"Picture of cell {cell}", folder)
        self._cell = cell
        self._pictures = pictures
        self._look = look
        self._at = len(pictures) - 1

    def on_mount(self) -> None:
        self.call_later(self._show)

    async def _show(self) -> None:
        of = f"  ·  {self._at + 1} of {len(self._pictures)}" if len(self._pictures) > 1 else ""
        self.query_one("#output-title", Static).update(Content(self._title + of))
        body = self.query_one("#output-body")
        await body.remove_children()
        view = HeldPicture(no_place(self._look, "picture"), partial(base64.b64decode, self._pictures[self._at].data))
        await body.mount(view)
        view.take_focus()

    def content(self) -> bytes:
        return base64.b64decode(self._pictures[self._at].data)

    @property
    def file_name(self) -> str:
        suffix = "jpg" if self._pictures[self._at].mime == "image/jpeg" else "png"
        number = f"-{self._at + 1}" if len(self._pictures) > 1 else ""
        return f"cell-{self._cell}{number}.{suffix}"

    async def action_step(self, step: int) -> None:
        """The next picture, or the one before."""
        if 0 <= self._at + step < len(self._pictures):
            self._at += step
            await self._show()
