"""Textual's command palette, made robust against bursts of keys and clicks."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.errors import NoWidget
from textual.events import Click


class SafeCommandPalette(CommandPalette):
    """Closes once, and ignores keys and clicks that arrive afterwards."""

    asks: ClassVar[bool] = True
    """As `Dialog.asks`."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        done: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return done

    def _on_click(self, event: Click) -> None:  # type: ignore[override]
        event.prevent_default()  # Textual's own handler is called below
        with suppress(NoWidget):  # outside a screen that has just become smaller
            super()._on_click(event)

    def _action_command_list(self, action: str) -> None:
        if action.startswith("page") and not self.query_one(CommandList).size:
            return  # Textual raises for a list that has no size
        super()._action_command_list(action)

    def _watch__list_visible(self) -> None:
        if self.query(CommandList):
            super()._watch__list_visible()

    async def _watch__show_busy(self) -> None:
        if self.query(CommandList):
            await super()._watch__show_busy()
