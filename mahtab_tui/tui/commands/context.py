"""Access of a command to the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from mahtab_tui.session import Session
    from mahtab_tui.store.history import History
    from mahtab_tui.tui.commands.pane_command import SlashCommand
    from mahtab_tui.tui.interrupter import Interrupter
    from mahtab_tui.tui.offers import Offers
    from mahtab_tui.tui.panes.screen import Panes
    from mahtab_tui.tui.quit_flow import QuitFlow
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.ui_state import UiState


class SettingsControl(Protocol):
    """The part of `tui.live_settings.LiveSettings` that commands use; a protocol, because its
    screens import all commands."""

    keymap: dict[str, str]

    def show(self) -> None: ...

    def choose_model(self, name: str) -> None: ...


@dataclass(frozen=True)
class CommandContext:
    """The session, the panes over it, and the parts of the application that keep state between two
    commands."""

    app: TerminalApp[int]
    """Opens screens, shows notifications, has the theme and the terminal."""
    session: Session
    history: History
    choices: UiState
    panes: Panes
    stopping: Interrupter
    leaving: QuitFlow
    offers: Offers
    settings: SettingsControl
    commands: Sequence[SlashCommand]
    """All commands of the application."""

    def tell(self, text: str, severity: SeverityLevel = "information") -> None:
        self.app.tell(text, severity)

    def copy_selection(self) -> bool:
        """Copy what is selected on the screen; returns False if nothing is."""
        from mahtab_tui.tui.clipboard import copy_selection

        return copy_selection(self.app, self.panes.selected_text)

    def refuse(self, why: str, entered: str) -> None:
        """Say why what the user entered cannot be done, and put it back into the editor."""
        self.tell(why, "warning")
        if self.panes.editor.is_empty:
            self.panes.editor.text = entered

    def with_value(self, value: str, title: str, use: Callable[[str], None], present: str) -> None:
        """Use the given value, or ask for one."""
        from mahtab_tui.tui.screens.dialog import ask
        from mahtab_tui.tui.screens.prompt import Prompt

        if value:
            use(value)
        else:
            ask(self.app, Prompt(title, present), use)
