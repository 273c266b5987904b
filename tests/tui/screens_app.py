"""An application without panes, which starts twenty times as fast."""

from __future__ import annotations

from mahtab_tui.session import Session
from mahtab_tui.tui.app import style_sheets
from mahtab_tui.tui.messages import RunCode
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.theme import MAHTAB, OUR_THEMES, role_variables


class ScreensApp(TerminalApp[int]):
    def __init__(self) -> None:
        super().__init__(css_path=list(style_sheets()))
        for theme in OUR_THEMES:
            self.register_theme(theme)
        self.theme = MAHTAB.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)


class SessionScreensApp(ScreensApp):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.requested_cells: list[str] = []
        """Code that screens have asked to run."""

    def on_run_code(self, message: RunCode) -> None:
        self.requested_cells.append(message.code)
