"""Commands of single panes and screens, and the key bindings of all commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True)
class PaneCommand:
    """A command that acts in one pane or screen, by an action of the widget."""

    id: str
    """The name by which a user's keymap changes its key."""
    action: str
    """The widget's action, as in ``action_…``."""
    keys: str
    """Default keys, separated by commas."""
    title: str
    help: str
    group: str
    footer: bool = False
    menu: bool = False
    """Whether its key acts only in the menu of an entry or a call, because letters elsewhere go to
    the editor."""
    confirm: bool = False
    """Whether its key in the menu only selects it, and Enter runs it."""
    priority: bool = False
    """Whether it gets its key before the focused widget."""

    @property
    def bound(self) -> bool:
        """Whether a key of its own runs it."""
        return bool(self.keys) and not self.menu


@dataclass(frozen=True, kw_only=True)
class SlashCommand(PaneCommand):
    """A command that may have a name to type."""

    slash: str = ""
    """Its name in Ask mode; empty for none."""
    argument: str = ""
    """Argument after the slash name; empty for none."""


def bindings(commands: Iterable[PaneCommand]) -> list[BindingType]:
    """Make a binding for each command that has a key of its own."""
    return [
        Binding(
            each.keys,
            each.action,
            each.title,
            show=each.footer,
            priority=each.priority,
            id=each.id,
            tooltip=each.help,
        )
        for each in commands
        if each.bound
    ]
