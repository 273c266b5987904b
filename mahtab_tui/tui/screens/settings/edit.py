"""One setting's value as text."""

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
    """The text, checked; empty to take the setting out of the file; None after Escape."""

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
            yield Static("Enter takes it · empty unsets it · Esc leaves all as it is", classes="quiet", markup=False)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(".setting-wrong", Static).update("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take(event.value.strip())

    def action_leave(self) -> None:
        self.dismiss(None)

    @work(exclusive=True)
    async def _take(self, text: str) -> None:
        """Take what is right, and say what is wrong with the rest; on a thread, since folders and programs are looked for."""
        try:
            if text:
                await asyncio.to_thread(written, self._entry.key, text)
                await asyncio.to_thread(check, self._entry.key, text)
        except SettingsError as error:
            if self.is_current:
                self.query_one(".setting-wrong", Static).update(Content.styled(plain(str(error)), "$bad"))
        else:
            if self.is_current:
                self.dismiss(text)
