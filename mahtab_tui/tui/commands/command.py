"""A command, and the decorator that declares one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual.binding import Binding, BindingType

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.store.database import History
    from mahtab_tui.tui.app import Interrupter, QuitFlow
    from mahtab_tui.tui.main_screen import Panes, UiState
    from mahtab_tui.tui.session_port import LiveSettings
    from mahtab_tui.tui.terminal_app import TerminalApp


@dataclass(frozen=True)
class CommandContext:
    app: TerminalApp[int]
    session: Session
    history: History
    ui_state: UiState
    panes: Panes
    interrupter: Interrupter
    quit_flow: QuitFlow
    settings: LiveSettings

    def copy_selection(self) -> bool:
        from mahtab_tui.tui.external import copy_selection

        return copy_selection(self.app, self.panes.selected_text)

    def refuse(self, why: str, entered: str) -> None:
        self.app.notify(why, "warning")
        if self.panes.editor.is_empty:
            self.panes.editor.text = entered

    def with_value(self, value: str, title: str, use: Callable[[str], None], present: str) -> None:
        from mahtab_tui.tui.screens.dialog import Prompt, ask

        if value:
            use(value)
        else:
            ask(self.app, Prompt(title, present), use)


@dataclass(frozen=True)
class PaneCommand:
    id: str
    action: str
    keys: str
    title: str
    help: str
    group: str
    footer: bool = False
    menu: bool = False
    """Whether its key works only in a menu, because letters elsewhere go to the editor."""
    confirm: bool = False
    priority: bool = False


def pane_commands(group: str, rows: Mapping[str, str]) -> tuple[PaneCommand, ...]:
    """Declare the commands of a pane: "id action keys", then flags, and "Title: help"."""
    found = []
    for names, text in rows.items():
        id, action, keys, *flags = names.split()
        title, _, help = text.partition(": ")
        set_flags = dict.fromkeys(flags, True)
        found.append(PaneCommand(id, action, keys, title, help, group, **set_flags))
    return tuple(found)


def bindings(commands: Iterable[PaneCommand], *hidden: BindingType) -> list[BindingType]:
    """Make bindings. hidden: those that the key line does not show."""
    shown = [
        Binding(
            each.keys, each.action, each.title, show=each.footer, priority=each.priority, id=each.id
        )
        for each in commands
        if each.keys and not each.menu
    ]
    return [*shown, *hidden]


Group = Literal["Input", "Session", "Panes", "Screen"]


@dataclass(frozen=True, kw_only=True)
class Command(PaneCommand):
    run: Callable[[CommandContext, str], None]
    slash: str
    argument: str
    over_screens: bool
    over_questions: bool
    available: Callable[[CommandContext], bool]


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

    names: the id, its keys and its slash name with the argument, as in "help f1 /help TOPIC".
    text: title and help. over_screens: by default for the groups Session and Screen.
    """
    names, _, slash = names.partition(" /")
    id, _, keys = names.partition(" ")
    slash, _, argument = slash.partition(" ")
    title, _, help = text.partition(": ")
    return lambda function: Command(
        *(id, f"command({id!r})", keys, title, help, group, footer),
        priority=priority,
        slash=slash,
        argument=argument,
        run=function if argument else lambda context, _: function(context),
        over_screens=group in ("Session", "Screen") if over_screens is None else over_screens,
        over_questions=over_questions,
        available=available,
    )
