"""A key that acts in one pane or screen, and the bindings that Textual makes of commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from textual.binding import Binding


class PaneCommand(NamedTuple):
    """Something that a key does in the pane or screen that has the focus, by an action of its own."""

    id: str
    """Under this name a user's keymap changes its key."""
    action: str
    """The widget's action, as in ``action_…``."""
    keys: str
    """Default keys, separated by commas."""
    title: str
    help: str
    group: str
    footer: bool = False
    menu: bool = False
    """Its key acts in the menu of an entry or a call only. Elsewhere letters go to the editor."""
    confirm: bool = False
    """In the menu its key only selects it, and Enter runs it."""

    @property
    def priority(self) -> bool:
        """Never ahead of what has the focus."""
        return False

    @property
    def bound(self) -> bool:
        """Whether a key of its own runs it."""
        return bool(self.keys) and not self.menu


class Bound(Protocol):
    """What a binding is made of."""

    @property
    def id(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def keys(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def footer(self) -> bool: ...
    @property
    def priority(self) -> bool: ...
    @property
    def bound(self) -> bool: ...


def bindings(commands: Iterable[Bound]) -> list[Binding]:
    """A binding for each command that has a key of its own."""
    return [
        Binding(command.keys, command.action, command.title, show=command.footer, priority=command.priority, id=command.id, tooltip=command.help)
        for command in commands
        if command.bound
    ]
