"""A command, and the decorators that declare one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.store.history import History
    from mahtab_tui.tui.app import Interrupter, QuitFlow
    from mahtab_tui.tui.greeting import Offers
    from mahtab_tui.tui.main_screen import Panes, UiState
    from mahtab_tui.tui.terminal_app import TerminalApp


class SettingsControl(Protocol):
    """The part of `tui.session_port.LiveSettings` that commands use. It is a protocol to avoid an
    import cycle."""

    keymap: dict[str, str]

    def show(self) -> None: ...

    def choose_model(self, name: str) -> None: ...


@dataclass(frozen=True)
class CommandContext:
    """Gives commands the session, the panes, and the parts of the application that keep state
    between two commands."""

    app: TerminalApp[int]
    """Opens screens, shows notifications, and has the theme and the terminal."""
    session: Session
    history: History
    ui_state: UiState
    panes: Panes
    interrupter: Interrupter
    quit_flow: QuitFlow
    offers: Offers
    settings: SettingsControl
    commands: Sequence[SlashCommand]
    """All commands of the application."""

    def copy_selection(self) -> bool:
        """Copy what is selected on the screen; returns False if nothing is."""
        from mahtab_tui.tui.external import copy_selection

        return copy_selection(self.app, self.panes.selected_text)

    def refuse(self, why: str, entered: str) -> None:
        """Explain why an input was refused, and put it back into the editor."""
        self.app.notify(why, "warning")
        if self.panes.editor.is_empty:
            self.panes.editor.text = entered

    def with_value(self, value: str, title: str, use: Callable[[str], None], present: str) -> None:
        """Call `use` with the given value, or ask for one."""
        from mahtab_tui.tui.screens.dialog import Prompt, ask

        if value:
            use(value)
        else:
            ask(self.app, Prompt(title, present), use)


@dataclass(frozen=True)
class PaneCommand:
    """A command that acts in one pane or screen, by an action of the widget."""

    id: str
    """The name by which the user's keymap can change its key."""
    action: str
    """The widget's action: `action_…` without the prefix."""
    keys: str
    """Default keys, separated by commas."""
    title: str
    help: str
    group: str
    footer: bool = False
    menu: bool = False
    """Whether its key works only in the menu of an entry or a call, because letters elsewhere are
    typed into the editor."""
    confirm: bool = False
    """Whether its key in the menu only selects it, so that Enter is needed to run it."""
    priority: bool = False
    """Whether it gets its key before the focused widget does."""

    @property
    def has_key(self) -> bool:
        """Whether a key of its own runs it, outside of menus."""
        return bool(self.keys) and not self.menu


@dataclass(frozen=True, kw_only=True)
class SlashCommand(PaneCommand):
    """A command that may also be typed by name."""

    slash: str = ""
    """Its name after the slash; empty for none."""
    argument: str = ""
    """The argument to show after the name in help; empty for none."""


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
        if each.has_key
    ]


Group = Literal["Input", "Session", "Panes", "Screen"]


def _always_available(context: CommandContext) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Command(SlashCommand):
    """A command of the application, run by its key, from the palette, or as ``/slash argument``."""

    run: Callable[[CommandContext, str], None]
    """Called with the text after the slash name."""
    over_screens: bool = False
    """Whether it may run while a screen covers the panes."""
    over_questions: bool = False
    """Whether it may run while a dialog waits for an answer."""
    available: Callable[[CommandContext], bool] = _always_available
    """Whether it can do anything now; if not, the footer hides it."""


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
    when: Callable[[CommandContext], bool] = _always_available,
) -> Callable[[Callable[[CommandContext], None]], Command]:
    """Declare the function below as a command. over_screens: defaults to True for the groups
    Session and Screen."""

    def decorate(function: Callable[[CommandContext], None]) -> Command:
        def run(context: CommandContext, argument: str) -> None:
            function(context)

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

    return decorate


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
    """Declare the function below as a command that takes an argument; if none was typed, it is
    empty."""

    def decorate(function: Callable[[CommandContext, str], None]) -> Command:
        over = group in ("Session", "Screen")
        about = id, f"command({id!r})", keys, title, help, group, footer
        return Command(
            *about, priority=True, run=function, slash=slash, argument=argument, over_screens=over
        )

    return decorate
