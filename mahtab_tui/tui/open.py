"""Opens and closes the full screen."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.session.open_session import Draft, InterfaceResult, OpenSession
from mahtab_tui.settings.model import load_settings
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_app import Collector, TerminalApp
from mahtab_tui.tui.terminal_driver import SignalHandler, StdioRedirect, report_thread_failures
from mahtab_tui.tui.ui_state import UiState

if TYPE_CHECKING:
    from mahtab_tui.session.running_sessions import RunningSession

MIN_SCREEN_SIZE = (20, 5)
"""Columns and lines that the screen needs."""


class ScreenFrontend:
    """What a session can ask of the screen."""

    can_ask = True
    belongs_to_agent = False

    def __init__(self, app: MahtabApp) -> None:
        self._app = app

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program, wait until it ends, and return its exit code. Not for the
        main thread.

        Args:
            argv: The program and its arguments.
            cwd: The folder in which it runs.

        Raises:
            RuntimeError: There is no screen; the message is a sentence.
        """
        app = self._app
        if not app.is_running:
            raise RuntimeError("This needs a terminal, and the screen is not open.")
        done: Future[int] = Future()

        def run() -> None:
            try:
                done.set_result(app.run_suspended(argv, cwd))
            except RuntimeError as error:
                done.set_exception(error)

        app.call_later(run)
        return done.result()

    def leave(self) -> None:
        """Leave because a cell has called `exit()`."""
        self._app.call_later(self._app.command_context.quit_flow.quit_from_cell)


class TerminalUnavailable(Exception):
    """The screen cannot be shown; the message says what to do."""


def check_terminal(instead: str = "") -> None:
    """Raise `TerminalUnavailable` if the screen cannot be shown. instead: what to do then."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TerminalUnavailable(f"This needs a terminal.{instead}")
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise TerminalUnavailable(
            "TERM says that this terminal cannot show a screen (TERM=dumb or not set). Set TERM, as in TERM=xterm-256color."
        )
    # The terminal's own size counts: the variables may be those of another one.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    columns, lines = shutil.get_terminal_size()
    if columns < MIN_SCREEN_SIZE[0] or lines < MIN_SCREEN_SIZE[1]:
        minimum = "{} x {}".format(*MIN_SCREEN_SIZE)
        raise TerminalUnavailable(
            f"The terminal is too small: {columns} x {lines}; it must be at least {minimum}."
        )


def end_with_terminal() -> None:
    """Let a hangup end this process even under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def show_screen(opened: OpenSession, collector: Collector | None = None) -> InterfaceResult:
    """Show the screen until the user leaves it.

    Args:
        opened: The session, which may have been in another interface until now.
        collector: Keeps garbage collection off until the first picture; None if the process is not
            ours, or is collected already.
    """
    if collector is not None:
        end_with_terminal()
    with StdioRedirect(opened.add_line) as guard, report_thread_failures(opened.add_line):
        app = MahtabApp(
            opened.session,
            guard,
            opened.history,
            collector=collector,
            keeps_namespace=opened.keeps_namespace,
            joins=opened.session.is_started,
        )
        draft = opened.draft
        if draft.text:
            app.call_after_first_picture(lambda: app.editor.put(draft.mode, draft.text))
        for step in opened.take_late_work():
            app.call_after_first_picture(step)
        opened.frontend.current = ScreenFrontend(app)
        try:
            with SignalHandler(app, lambda: _save_for_signal(app, opened)):
                app.run()
        finally:
            opened.frontend.current = None
            opened.draft = _draft(app)
            opened.leaves_kernel = app.leaves_kernel
            opened.has_crashed = app.crash is not None
            if opened.session.built:
                app.record_pump.uninstall(opened.session.log)
        if not opened.no_trace:
            app.ui_state.save()

    crash = app.crash
    return InterfaceResult(
        exit_code=(app.return_code or 0) if crash is None else 1,
        next_session=app.next_session,
        next_interface=app.next_interface,
        running_cell=opened.session.cells.last if app.leaves_kernel else 0,
        crash_report=crash.report if crash is not None else None,
    )


def _save_for_signal(app: MahtabApp, opened: OpenSession) -> None:
    opened.leaves_kernel = app.leaves_kernel
    opened.save_for_signal(_draft(app))


def _draft(app: MahtabApp) -> Draft:
    return Draft(app.editor.mode, app.editor.text.strip())


def watch_live(session: str | None) -> int:
    """Follow a running session. session: its name; None for the one of this folder. Raises
    `TerminalUnavailable` and `SettingsError`."""
    from mahtab_tui.session.running_sessions import SharingError, find_session

    try:
        return watch_session(find_session(session, Path.cwd()))
    except SharingError as error:
        raise TerminalUnavailable(str(error)) from None


def watch_session(running: RunningSession) -> int:
    """Follow a running session, and return the exit code. Raises `TerminalUnavailable` and
    `SettingsError`."""
    from mahtab_tui.tui.watch_app import WatchApp

    check_terminal()
    theme = load_settings().theme or UiState.load().theme
    app = WatchApp(running)
    end_with_terminal()
    app.set_theme(theme)
    with SignalHandler(app):
        app.run()
    return _exit_code(app)


def _exit_code(app: TerminalApp[Any]) -> int:
    """Return the exit code of an application that has ended; report its crash."""
    if app.crash is None:
        return app.return_code or 0
    print(app.crash.report(), file=sys.stderr)
    return 1
