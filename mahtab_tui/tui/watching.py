"""Opens the screen that follows a session of another program, and closes it."""

from __future__ import annotations

import sys
from pathlib import Path

from mahtab_tui.session.running_sessions import RunningSession, find_session
from mahtab_tui.settings.model import load_settings
from mahtab_tui.tui.open import check_terminal, restore_hangup_default
from mahtab_tui.tui.terminal_driver import SignalHandler
from mahtab_tui.tui.ui_state import UiState
from mahtab_tui.tui.watch_app import WatchApp


def watch_live(session: str | None) -> int:
    """Follow a running session, and return the exit code.

    Args:
        session: Its name or process id; None for the one of this folder.

    Raises:
        SharingError: There is no such session.
        TerminalUnavailable: The screen cannot be shown.
        SettingsError: The settings cannot be read.
    """
    return watch_session(find_session(session, Path.cwd()))


def watch_session(running: RunningSession) -> int:
    """Follow a running session, and return the exit code.

    Args:
        running: The session.

    Raises:
        TerminalUnavailable: The screen cannot be shown.
        SettingsError: The settings cannot be read.
    """
    check_terminal()
    theme = load_settings().theme or UiState.load().theme
    app = WatchApp(running)
    restore_hangup_default()
    app.set_theme(theme)
    with SignalHandler(app):
        app.run()
    if app.crash is None:
        return app.return_code or 0
    print(app.crash.report(), file=sys.stderr)
    return 1
