"""The command palette over the registry."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.errors import NoWidget
from textual.events import Click

from mahtab_tui.tui.commands import COMMANDS, Command


class Palette(CommandPalette):
    """Textual's palette, for keys and clicks in a bunch: it closes once, and what reaches it afterwards finds it empty."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        done: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return done

    def _on_click(self, event: Click) -> None:  # type: ignore[override]
        event.prevent_default()  # else Textual's own handler would follow
        with suppress(NoWidget):  # beside a screen that has just become smaller
            super()._on_click(event)

    def _action_command_list(self, action: str) -> None:
        if action.startswith("page") and not self.query_one(CommandList).size:
            return  # a page of a list that was not laid out yet, or for which there is no room, would be an error
        super()._action_command_list(action)

    def _watch__list_visible(self) -> None:
        if self.query(CommandList):
            super()._watch__list_visible()

    async def _watch__show_busy(self) -> None:
        if self.query(CommandList):
            await super()._watch__show_busy()


class CommandProvider(Provider):
    """Every command of the registry, with its key."""

    async def discover(self) -> Hits:
        for command in COMMANDS:
            yield DiscoveryHit(self._title(command), self._run(command), text=command.title, help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS:
            text = f"{command.title} {command.help}"
            if (score := matcher.match(text)) > 0:
                yield Hit(score, self._title(command), self._run(command), text=command.title, help=command.help)

    def _title(self, command: Command) -> Content:
        key = self.app.keymap_given.get(command.id, command.keys)  # type: ignore[attr-defined]
        return Content.assemble(command.title, "  ", (key, "$accent")) if key else Content(command.title)

    def _run(self, command: Command) -> partial[Coroutine[Any, Any, bool]]:
        return partial(self.app.run_action, command.action)
