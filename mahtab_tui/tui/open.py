"""Opens and closes the full screen, and answers what a session asks of it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future

from mahtab_tui.session.open_session import Draft, InterfaceResult, OpenSession
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_app import Collector
from mahtab_tui.tui.terminal_driver import SignalHandler, StdioRedirect, report_thread_failures

MIN_COLUMNS = 20
"""The screen needs at least this many columns."""
MIN_LINES = 5
"""The screen needs at least this many lines."""
_NO_SCREEN = "This needs a terminal, and the screen is not open."


class ScreenFrontend:
    """What a session can ask of the screen: the `Frontend` of a session that is shown there."""

    can_ask = True
    belongs_to_agent = False

    def __init__(self, app: MahtabApp) -> None:
        self._app = app
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._exit_codes: set[Future[int]] = set()
        """The exit codes that callers wait for."""
        self._is_closed = False

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program, wait until it ends, and return its exit code.

        Not for the main thread.

        Args:
            argv: The program and its arguments.
            cwd: The folder in which it runs.

        Raises:
            RuntimeError: There is no screen, or it closes before the program starts; or the program
                cannot be started. The message is a sentence.
        """
        app = self._app
        exit_code: Future[int] = Future()

        def run_program() -> None:
            if not exit_code.set_running_or_notify_cancel():
                return
            try:
                exit_code.set_result(app.run_suspended(argv, cwd))
            except BaseException as error:  # the thread that waits must go on, whatever happens
                exit_code.set_exception(error)
                if not isinstance(error, Exception):
                    raise

        with self._lock:
            if self._is_closed or not app.is_running:
                raise RuntimeError(_NO_SCREEN)
            self._exit_codes.add(exit_code)
        try:
            if not app.call_later(run_program):
                raise RuntimeError(_NO_SCREEN)
            return exit_code.result()
        except CancelledError:
            raise RuntimeError(_NO_SCREEN) from None
        finally:
            with self._lock:
                self._exit_codes.discard(exit_code)

    def leave(self) -> None:
        """Leave because a cell has called `exit()`."""
        self._app.call_later(self._app.command_context.quit_flow.quit_from_cell)

    def close(self) -> None:
        """Let nobody wait for the screen any more, because it has closed."""
        with self._lock:
            self._is_closed = True
            exit_codes = list(self._exit_codes)
        for exit_code in exit_codes:
            exit_code.cancel()


class TerminalUnavailable(Exception):
    """The screen cannot be shown; the message says what to do."""


def check_terminal(hint: str = "") -> None:
    """Make sure that the screen can be shown.

    Args:
        hint: A sentence that says what to do without a terminal.

    Raises:
        TerminalUnavailable: There is no terminal, or it is too simple or too small.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TerminalUnavailable(f"This needs a terminal. {hint}".rstrip())
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise TerminalUnavailable(
            "TERM says that this terminal cannot show a screen (TERM=dumb or not set). Set TERM, as in TERM=xterm-256color."
        )
    _forget_inherited_size()
    columns, lines = shutil.get_terminal_size()
    if columns < MIN_COLUMNS or lines < MIN_LINES:
        raise TerminalUnavailable(
            f"The terminal is too small: {columns} x {lines}; it must be at least {MIN_COLUMNS} x {MIN_LINES}."
        )


def _forget_inherited_size() -> None:
    """Remove the variables of the environment that give a terminal's size.

    They may be those of another terminal, and Textual, programs and kernels would believe them.
    """
    os.environ.pop("COLUMNS", None)
    os.environ.pop("LINES", None)


def restore_hangup_default() -> None:
    """Let a hangup end this process even under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def show_screen(opened: OpenSession, collector: Collector | None = None) -> InterfaceResult:
    """Show the screen until the user leaves it.

    Args:
        opened: The session, which may have been in another interface until now.
        collector: Keeps garbage collection off until the first picture; None if the process is not
            ours, or is collected already.

    Returns:
        How the program ends, or in which interface the session goes on.
    """
    if collector is not None:
        restore_hangup_default()
    with (
        StdioRedirect(opened.add_line) as stdio_redirect,
        report_thread_failures(opened.add_line),
    ):
        app = MahtabApp(
            opened.session,
            stdio_redirect,
            opened.history,
            collector=collector,
            keeps_namespace=opened.keeps_namespace,
        )
        _show_draft(app, opened.draft)
        for step in opened.take_late_work():
            app.call_after_first_picture(step)
        frontend = ScreenFrontend(app)
        opened.frontend.current = frontend
        try:
            with SignalHandler(app, lambda: _save_for_signal(app, opened)):
                app.run()
        finally:
            opened.frontend.current = None
            frontend.close()
            _record_exit(app, opened)
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


def _show_draft(app: MahtabApp, draft: Draft) -> None:
    """Put what was typed in another interface into the editor, once it is there."""
    if draft.text:
        app.call_after_first_picture(lambda: app.editor.put(draft.mode, draft.text))


def _record_exit(app: MahtabApp, opened: OpenSession) -> None:
    """Note the draft, whether the kernel goes on, and whether the screen crashed, for the next interface
    or the end."""
    opened.draft = _read_draft(app)
    opened.leaves_kernel = app.leaves_kernel
    opened.has_crashed = app.crash is not None
    # The log is one of the components, which are built after the first picture.
    if opened.session.built:
        app.record_pump.uninstall(opened.session.log)


def _save_for_signal(app: MahtabApp, opened: OpenSession) -> None:
    """Save what is typed and the session, because a signal ends the program."""
    opened.leaves_kernel = app.leaves_kernel
    opened.save_for_signal(_read_draft(app))


def _read_draft(app: MahtabApp) -> Draft:
    """Return what is typed in the editor."""
    return Draft(app.editor.mode, app.editor.text.strip())
