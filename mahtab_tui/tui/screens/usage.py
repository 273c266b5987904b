"""What the session has used and cost so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from mahtab_tui.tui.screens.dialog import Dialog

_RENEWED = 0.5
"""Seconds between two updates."""


class UsageScreen(Dialog[None]):
    """Shows a line for the session, each question and each search, and keeps them up to date."""

    asks = False
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "leave", "Close")]

    def __init__(self, table: Callable[[int], str]) -> None:
        """table: makes the current lines, for a width."""
        super().__init__()
        self._table = table

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static("Usage · Esc closes", classes="quiet", markup=False)
            with VerticalScroll():
                yield Static(id="usage-rows", markup=False)

    def on_mount(self) -> None:
        self.call_after_refresh(self._renew)
        self.set_interval(_RENEWED, self._renew)

    def _renew(self) -> None:
        rows = self.query_one("#usage-rows", Static)
        rows.update(self._table(rows.size.width))
