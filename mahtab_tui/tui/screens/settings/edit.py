"""An editor for the value of a setting."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.values import SettingEntry, written
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.settings.checks import check
from mahtab_tui.tui.widgets.line_input import LineInput


class EditSetting(Dialog[str | None]):
    """Returns a valid text, an empty one to remove the setting from the file, or None after
    Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, entry: SettingEntry, value: str, *, secret: bool) -> None:
        super().__init__()
        self._entry = entry
        self._value = value
        self._secret = secret

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._entry.key, markup=False)
            yield Static(f"{self._entry.description}.", classes="setting-about", markup=False)
            yield LineInput(self._value, compact=True, password=self._secret)
            yield Static(classes="setting-wrong", markup=False)
            yield Static(
                "Enter saves · empty unsets it · Esc cancels", classes="quiet", markup=False
            )

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(".setting-wrong", Static).update("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take(event.value.strip())

    @work(exclusive=True)
    async def _take(self, text: str) -> None:
        """Check the text on a thread, because folders and programs are looked up; return it if it
        is valid."""
        try:
            if text:
                await asyncio.to_thread(written, self._entry.key, text)
                await asyncio.to_thread(check, self._entry.key, text)
        except SettingsError as error:
            if self.is_current:
                self.query_one(".setting-wrong", Static).update(
                    Content.styled(plain(str(error)), "$bad")
                )
        else:
            if self.is_current:
                self.dismiss(text)
