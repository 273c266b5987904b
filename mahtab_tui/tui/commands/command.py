"""A command of the whole application, and the decorators that declare one above the function that it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mahtab_tui.tui.commands.workspace import Workspace

Group = Literal["Input", "Session", "Panes", "Screen"]


def _always(work: Workspace) -> bool:
    return True


@dataclass(frozen=True)
class Command:
    """Runs by its key, from the palette, or as ``/slash argument`` in Ask mode."""

    id: str
    """The name by which a user's keymap changes its key."""
    keys: str
    """Default keys, separated by commas; empty: palette and slash only."""
    title: str
    help: str
    group: Group
    do: Callable[[Workspace, str], None]
    footer: bool = False
    slash: str = ""
    """Its name in Ask mode; empty for none."""
    argument: str = ""
    """What may follow the slash name; empty for nothing."""
    priority: bool = True
    """Whether it gets its key before the focused widget."""
    over_screens: bool = False
    """Whether it may run while a screen covers the panes."""
    over_questions: bool = False
    """Whether it may run while a dialog waits for an answer."""
    when: Callable[[Workspace], bool] = _always

    @property
    def action(self) -> str:
        """The Textual action of its binding and of the palette."""
        return f"command({self.id!r})"

    @property
    def bound(self) -> bool:
        """Whether it has a key, which a keymap may change."""
        return bool(self.keys)

    def available(self, work: Workspace) -> bool:
        """Whether it can do anything now; otherwise the footer does not show it."""
        return self.when(work)

    def run(self, work: Workspace, argument: str = "") -> None:
        """Run it. argument: what followed the slash name."""
        self.do(work, argument)


def command(
    id: str,
    keys: str,
    title: str,
    help: str,
    group: Group,
    *,
    footer: bool = False,
    slash: str = "",
    priority: bool = True,
    over_screens: bool | None = None,
    over_questions: bool = False,
    when: Callable[[Workspace], bool] = _always,
) -> Callable[[Callable[[Workspace], None]], Command]:
    """Declare the function below as a command. over_screens: by default True for the groups Session and Screen."""

    def declared(do: Callable[[Workspace], None]) -> Command:
        def run(work: Workspace, argument: str) -> None:
            do(work)

        over = group in ("Session", "Screen") if over_screens is None else over_screens
        return Command(id, keys, title, help, group, run, footer, slash, "", priority, over, over_questions, when)

    return declared


def slash_command(
    id: str, title: str, help: str, group: Group, *, slash: str, argument: str, keys: str = "", footer: bool = False
) -> Callable[[Callable[[Workspace, str], None]], Command]:
    """Declare the function below as a command with an argument, which is empty if none was given."""

    def declared(do: Callable[[Workspace, str], None]) -> Command:
        return Command(id, keys, title, help, group, do, footer, slash=slash, argument=argument, over_screens=group in ("Session", "Screen"))

    return declared
