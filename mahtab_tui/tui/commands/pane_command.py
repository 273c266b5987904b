"""Commands of single panes and screens, and the key bindings of all commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from textual.binding import Binding


class PaneCommand(NamedTuple):
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
    """Whether its key acts only in the menu of an entry or a call, because letters elsewhere go to the editor."""
    confirm: bool = False
    """Whether its key in the menu only selects it, and Enter runs it."""
    priority: bool = False
    """Whether it gets its key before the focused widget."""

    @property
    def bound(self) -> bool:
        """Whether a key of its own runs it."""
        return bool(self.keys) and not self.menu


class BindableCommand(Protocol):
    """What a binding needs to know of a command."""

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


def bindings(commands: Iterable[BindableCommand]) -> list[Binding]:
    """Make a binding for each command that has a key of its own."""
    return [
        Binding(command.keys, command.action, command.title, show=command.footer, priority=command.priority, id=command.id, tooltip=command.help)
        for command in commands
        if command.bound
    ]


VARIABLE_COMMANDS: tuple[PaneCommand, ...] = (
    PaneCommand("variable-open", "open", "enter", "Look inside", "Look inside the variable", "Namespace", True),
    PaneCommand("variable-filter", "filter", "ctrl+f", "Filter", "Filter by name; Escape ends it", "Namespace", True),
    PaneCommand("variable-watch", "watch_variable", "space", "Watch", "Keep the variable at the top, or no longer", "Namespace", True),
    PaneCommand("variable-rename", "rename", "ctrl+n", "Rename", "Give the variable another name", "Namespace"),
    PaneCommand("variable-private", "mark_private", "alt+p", "Private", "Tell no model what is in the variable, or tell it again", "Namespace"),
    PaneCommand("variable-delete", "delete", "delete", "Delete", "Delete the variable, after a confirmation", "Namespace"),
    PaneCommand("variable-copy", "copy_name", "ctrl+y", "Copy name", "Copy the variable's name", "Namespace"),
)
"""Commands on the chosen variable of the namespace."""
