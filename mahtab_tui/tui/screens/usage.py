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

    def __init__(self, table: Callable[[], str]) -> None:
        """table: makes the current lines."""
        super().__init__()
        self._table = table

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static("Usage · Esc closes", classes="quiet", markup=False)
            with VerticalScroll():
                yield Static(self._table(), id="usage-rows", markup=False)

    def on_mount(self) -> None:
        self.set_interval(_RENEWED, self._renew)

    def _renew(self) -> None:
        self.query_one("#usage-rows", Static).update(self._table())
