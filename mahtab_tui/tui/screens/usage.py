"""Usage and cost of the session so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType

from mahtab_tui.tui.screens.dialog import TextDialog

_RENEWED = 0.5
"""Seconds between two updates."""


class UsageScreen(TextDialog):
    """Shows a line for the session, each question and each search, and keeps them up to date."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "leave", "Close")]

    def __init__(self, table: Callable[[int], str]) -> None:
        """table: makes the current lines, for a width."""
        super().__init__("Usage · Esc closes", id="usage-rows")
        self._table = table

    def on_mount(self) -> None:
        self.call_after_refresh(self._renew)
        self.set_interval(_RENEWED, self._renew)

    def _renew(self) -> None:
        self.text.update(self._table(self.text.size.width))
