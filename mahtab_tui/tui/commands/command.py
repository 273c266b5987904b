"""A command of the whole application, and the decorators that declare one above the function that
it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mahtab_tui.tui.commands.pane_command import SlashCommand

if TYPE_CHECKING:
    from mahtab_tui.tui.commands.context import CommandContext

Group = Literal["Input", "Session", "Panes", "Screen"]


def _always(work: CommandContext) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Command(SlashCommand):
    """Runs by its key, from the palette, or as ``/slash argument`` in Ask mode."""

    run: Callable[[CommandContext, str], None]
    """Called with what followed the slash name."""
    over_screens: bool = False
    """Whether it may run while a screen covers the panes."""
    over_questions: bool = False
    """Whether it may run while a dialog waits for an answer."""
    available: Callable[[CommandContext], bool] = _always
    """Whether it can do anything now; otherwise the footer does not show it."""


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
    when: Callable[[CommandContext], bool] = _always,
) -> Callable[[Callable[[CommandContext], None]], Command]:
    """Declare the function below as a command. over_screens: by default True for the groups Session
    and Screen."""

    def declared(do: Callable[[CommandContext], None]) -> Command:
        def run(work: CommandContext, argument: str) -> None:
            do(work)

        over = group in ("Session", "Screen") if over_screens is None else over_screens
        about = id, f"command({id!r})", keys, title, help, group, footer
        return Command(
            *about,
            priority=priority,
            run=run,
            slash=slash,
            over_screens=over,
            over_questions=over_questions,
            available=when,
        )

    return declared


def slash_command(
    id: str,
    title: str,
    help: str,
    group: Group,
    *,
    slash: str,
    argument: str,
    keys: str = "",
    footer: bool = False,
) -> Callable[[Callable[[CommandContext, str], None]], Command]:
    """Declare the function below as a command with an argument, which is empty if none was
    given."""

    def declared(do: Callable[[CommandContext, str], None]) -> Command:
        over = group in ("Session", "Screen")
        about = id, f"command({id!r})", keys, title, help, group, footer
        return Command(
            *about, priority=True, run=do, slash=slash, argument=argument, over_screens=over
        )

    return declared
