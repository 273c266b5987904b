"""The commands in the command palette."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from mahtab_tui.tui.commands.command import Command
from mahtab_tui.tui.commands.registry import COMMANDS


class CommandProvider(Provider):
    """Finds every command of the registry, and shows its key."""

    async def discover(self) -> Hits:
        for command in COMMANDS:
            yield DiscoveryHit(
                self._title(command), self._run(command), text=command.title, help=command.help
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS:
            text = f"{command.title} {command.help}"
            if (score := matcher.match(text)) > 0:
                yield Hit(
                    score,
                    self._title(command),
                    self._run(command),
                    text=command.title,
                    help=command.help,
                )

    def _title(self, command: Command) -> Content:
        key = self.app._keymap.get(command.id, command.keys)
        return (
            Content.assemble(command.title, "  ", (key, "$accent"))
            if key
            else Content(command.title)
        )

    def _run(self, command: Command) -> partial[Coroutine[Any, Any, bool]]:
        return partial(self.app.run_action, command.action)
