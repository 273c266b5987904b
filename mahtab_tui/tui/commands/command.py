"""A command of the application, and the decorator that declares the function below as one.

Commands are declared in `panes` and `session`. Keys, footer, help, palette and slash names follow from the
declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mahtab_tui.tui.commands.declarations import PaneCommand

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.store.input_history import History
    from mahtab_tui.tui.interrupting import Interrupter
    from mahtab_tui.tui.leaving import QuitFlow
    from mahtab_tui.tui.live_settings import LiveSettings
    from mahtab_tui.tui.main_screen import Panes
    from mahtab_tui.tui.navigation import Navigation
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.ui_state import UiState


@dataclass(frozen=True)
class CommandContext:
    """What commands act on."""

    app: TerminalApp[int]
    session: Session
    history: History
    """The inputs of all sessions."""
    ui_state: UiState
    """What is remembered from one start to the next."""
    panes: Panes
    navigation: Navigation
    """Opens screens."""
    settings: LiveSettings
    keeps_namespace: bool
    """Whether the variables are saved with the session."""
    forget_draft: Callable[[], None]
    """Removes the saved copy of the text in the editor."""

    @cached_property
    def quit_flow(self) -> QuitFlow:
        """Leaves the program. Loaded at the first key, because the first picture does not need it."""
        from mahtab_tui.tui.leaving import QuitFlow

        return QuitFlow(
            self.app,
            self.session,
            self.panes,
            self.navigation,
            keeps_namespace=self.keeps_namespace,
            forget_draft=self.forget_draft,
        )

    @cached_property
    def interrupter(self) -> Interrupter:
        """Stops what runs. Loaded when it is needed, because the first picture does not need it."""
        from mahtab_tui.tui.interrupting import Interrupter

        return Interrupter(self.app, self.session, self.navigation)

    def copy_selection(self) -> bool:
        """Copy what is selected; return False if nothing is."""
        from mahtab_tui.tui.external import copy_selection

        return copy_selection(self.app, self.panes.selected_text)

    def refuse(self, reason: str, entered: str) -> None:
        """Say why a command cannot run, and put what was entered back into an empty editor."""
        self.app.notify(reason, "warning")
        if self.panes.editor.is_empty:
            self.panes.editor.text = entered

    def with_value(self, value: str, title: str, use: Callable[[str], None], current: str) -> None:
        """Use a value that was typed with a command, or ask for one.

        Args:
            value: The value; empty to ask for it.
            title: The question.
            use: Called with the value.
            current: The text with which the answer begins.
        """
        if value:
            use(value)
        else:
            self.navigation.prompt(title, current, use)


Group = Literal["Input", "Session", "Panes", "Screen"]


@dataclass(frozen=True, kw_only=True)
class Command(PaneCommand):
    """A command of the application, which also has a slash name."""

    run: Callable[[CommandContext, str], None]
    """Called with what is typed after the slash name."""
    over_screens: bool
    """Whether it can be used while a screen covers the panes."""
    over_questions: bool
    """Whether it can be used while a screen asks something."""
    available: Callable[[CommandContext], bool]
    """Returns whether it can be used now."""


def command(
    names: str,
    text: str,
    *,
    group: Group,
    footer: bool = False,
    priority: bool = True,
    over_screens: bool | None = None,
    over_questions: bool = False,
    available: Callable[[CommandContext], bool] = lambda context: True,
) -> Callable[[Callable[..., None]], Command]:
    """Declare the function below as a command; with an argument, it also gets the typed text.

    A declaration is two texts, which are easier to read below each other than their seven parts.

    Args:
        names: The id, its keys and its slash name with the argument, as in "help f1 /help TOPIC".
        text: Title and help, as in "Help: Show all keys".
        group: The heading under which help lists it.
        footer: Whether the line of keys shows it.
        priority: Whether its keys act before those of the focused widget.
        over_screens: Whether it can be used while a screen covers the panes; by default in the
            groups Session and Screen.
        over_questions: Whether it can be used while a screen asks something.
        available: Whether it can be used now.
    """
    names, _, slash = names.partition(" /")
    id, _, keys = names.partition(" ")
    slash, _, argument = slash.partition(" ")
    title, _, help = text.partition(": ")
    if over_screens is None:
        over_screens = group in ("Session", "Screen")

    def declare(function: Callable[..., None]) -> Command:
        """Return the command that calls a function."""

        def run(context: CommandContext, typed: str) -> None:
            if argument:
                function(context, typed)
            else:
                function(context)

        return Command(
            id=id,
            action=f"command({id!r})",
            keys=keys,
            title=title,
            help=help,
            group=group,
            footer=footer,
            priority=priority,
            slash=slash,
            argument=argument,
            run=run,
            over_screens=over_screens,
            over_questions=over_questions,
            available=available,
        )

    return declare
