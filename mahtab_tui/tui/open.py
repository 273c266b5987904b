"""Opens and closes the full screen."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.session import Session
from mahtab_tui.settings.model import Settings, home_folder, load_settings
from mahtab_tui.store.database import is_corrupt
from mahtab_tui.store.input_history import History
from mahtab_tui.system import Lazy
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_app import Collector, TerminalApp
from mahtab_tui.tui.terminal_driver import SignalHandler, StdioRedirect, report_thread_failures
from mahtab_tui.tui.ui_state import UiState

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import LoadedNotebook
    from mahtab_tui.session.backend import SessionBackend
    from mahtab_tui.session.data_files import DataFile
    from mahtab_tui.session.running_sessions import RunningSession
    from mahtab_tui.session.sharing import ShareServer

INDEXING_PAUSE_S = 4.0
"""Seconds before the records of sessions are read for searches."""
MIN_SCREEN_SIZE = (20, 5)
"""Columns and lines that the screen needs."""
ASK_HINT = ' Without one, use: mahtab-tui ask "question".'


class ScreenFrontend:
    """What a session can ask of the screen."""

    can_ask = True
    belongs_to_agent = False

    def __init__(self) -> None:
        self.app: MahtabApp | None = None
        """The application; None before it is made."""

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program, wait until it ends, and return its exit code. Not for the
        main thread.

        Args:
            argv: The program and its arguments.
            cwd: The folder in which it runs.

        Raises:
            RuntimeError: There is no screen; the message is a sentence.
        """
        app = self.app
        if app is None or not app.is_running:
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
        if self.app is not None:
            self.app.call_later(self.app.command_context.quit_flow.quit_from_cell)


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


class ScreenResult(NamedTuple):
    """How the screen was left."""

    exit_code: int
    next_session: str
    """The session to open next; empty to end."""
    running_cell: int = 0
    """The cell that continues without a screen; 0 for none."""


class _SessionOnScreen:
    """A session, its screen, and what is opened and closed with them."""

    def __init__(
        self, session: Session, frontend: ScreenFrontend, *, kernel_notice: str, no_trace: bool
    ) -> None:
        project = Path.cwd()
        self.session = session
        self.history = History(
            home_folder() / "history.db", str(project), session.mask, no_trace=no_trace
        )
        self.closing_lines: list[str] = []
        """What is printed once the screen is closed."""
        self._frontend = frontend
        self._kernel_notice = kernel_notice
        self._no_trace = no_trace
        self._early_lines: list[str] = []
        """What was written before the session could show notices."""
        self._servers: list[ShareServer] = []
        share = partial(_share, session, project, self._servers)
        self._sharing = threading.Thread(target=share, name="share", daemon=True)

    def add_line(self, text: str) -> None:
        """Show what a library or a child process has written. Any thread may call it."""
        app = self._frontend.app
        if app is None or not app.is_running:
            self.closing_lines.append(text)
        elif self.session.built:
            self.session.notice(text, "warning")
        else:
            # This must not wait for the session, because whoever writes the line waits.
            self._early_lines.append(text)

    def start_late_work(self, app: MahtabApp, *, share: bool) -> None:
        """Do what can wait until the first picture is drawn."""
        app.call_after_first_picture(self._report_first_notices)
        if share:
            app.call_after_first_picture(self._sharing.start)
        jobs = (("leftovers", _report_leftovers), ("digests", _index_sessions))
        for name, work in jobs:
            thread = threading.Thread(target=work, args=(self.session,), name=name, daemon=True)
            app.call_after_first_picture(thread.start)

    def _report_first_notices(self) -> None:
        """Show what had to wait until the session could show notices."""
        while self._early_lines:
            self.session.notice(self._early_lines.pop(0), "warning")
        if self._kernel_notice:
            self.session.notice(self._kernel_notice, "warning")
        if self._no_trace:
            self.session.notice(
                "Nothing of this session is saved: no conversation, no variables, no inputs."
            )

    def save_for_signal(self, app: MahtabApp, backend: Lazy[SessionBackend]) -> None:
        """Save what can be saved in a few seconds, because a signal ends the program."""
        draft = app.editor.text.strip()
        if draft:
            self.history.add(draft, app.editor.mode)
        self.session.save()
        self.close(hurry=True)
        if backend.made:
            backend.get().release()

    def close(self, *, hurry: bool = False) -> None:
        """Close the session, and note what could not be saved. hurry: save nothing that takes long,
        because the program is about to be killed."""
        # Only a thread that was started can be joined.
        if self._sharing.ident is not None:
            self._sharing.join()
        for server in self._servers:
            server.close()

        session = self.session
        app = self._frontend.app
        hurry = hurry or (app is not None and app.crash is not None)
        leaves_kernel = hurry or (app is not None and app.leaves_kernel)
        session.close(hurry=hurry, leave=leaves_kernel)

        self.closing_lines.extend(self._early_lines)
        if session.built and session.namespace_store.has_unwritten_changes and not leaves_kernel:
            problem = "The last changes to variables could not be saved in time"
            self.closing_lines.append(f"{problem}; earlier ones are saved.")
        notebook = session.notebook if session.built else None
        if notebook is not None and notebook.problem and not hurry:
            self.closing_lines.append(notebook.problem)
        self.history.close()


def open_screen(
    settings: Settings,
    backend: Lazy[SessionBackend],
    *,
    name: str = "",
    past: Sequence[Record] = (),
    collector: Collector | None = None,
    kernel_notice: str = "",
    keeps_namespace: bool = False,
    no_trace: bool = False,
    files: Sequence[DataFile] = (),
    notebook: LoadedNotebook | None = None,
) -> ScreenResult:
    """Show the screen until the user quits.

    Args:
        settings: The settings of the session.
        backend: The kernel and the store, created after the first picture.
        name: The name of the session; by default that of the folder.
        past: The records of a session that is resumed.
        collector: Keeps garbage collection off until the first picture; None if the process is not
            ours.
        kernel_notice: What to say about the kernel at first.
        keeps_namespace: Whether the variables are saved with the session.
        no_trace: Whether nothing is saved.
        files: Data to load into variables.
        notebook: A notebook to open.

    Raises:
        TerminalUnavailable: The terminal cannot show a screen.
    """
    check_terminal(ASK_HINT)
    if collector is not None:
        end_with_terminal()
    frontend = ScreenFrontend()
    session = Session(
        settings,
        backend,
        frontend,
        name=name or Path.cwd().name,
        past=past,
        files=files,
        notebook=notebook,
        no_trace=no_trace,
    )
    shown_session = _SessionOnScreen(
        session, frontend, kernel_notice=kernel_notice, no_trace=no_trace
    )
    try:
        with (
            StdioRedirect(shown_session.add_line) as guard,
            report_thread_failures(shown_session.add_line),
        ):
            app = MahtabApp(
                session,
                guard,
                shown_session.history,
                collector=collector,
                keeps_namespace=keeps_namespace,
            )
            frontend.app = app
            shown_session.start_late_work(app, share=settings.share)
            with SignalHandler(app, partial(shown_session.save_for_signal, app, backend)):
                app.run()
            if not no_trace:
                app.ui_state.save()
    finally:
        shown_session.close()
        if shown_session.closing_lines:
            print(plain("\n".join(shown_session.closing_lines)), file=sys.stderr)

    advice = ""
    is_saved = backend.made and backend.get().store is not None and not no_trace
    if is_saved:
        advice = "mahtab-tui --continue resumes this session with its saved variables."
    running_cell = session.cells.last if app.leaves_kernel else 0
    return ScreenResult(_exit_code(app, advice), app.next_session, running_cell)


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


def _share(session: Session, project: Path, servers: list[ShareServer]) -> None:
    """Let agents join the session. servers: gets the server that they join by."""
    from mahtab_tui.session.running_sessions import SharingError
    from mahtab_tui.session.sharing import ShareServer

    try:
        servers.append(ShareServer(session, project))
    except SharingError as error:
        session.notice(f"Agents cannot join this session: {error}", "warning")


def _report_leftovers(session: Session) -> None:
    """Remove what ended programs have left, and report kernels that wait in the background."""
    from mahtab_tui.session.background_kernels import (
        describe_detached_kernels,
        stop_surplus_kernels,
    )
    from mahtab_tui.session.running_sessions import remove_leftovers

    try:
        remove_leftovers()
        stop_surplus_kernels()
        if not session.no_trace:
            sentence = describe_detached_kernels()
            if sentence:
                session.notice(sentence, "warning")
    except StoreError as error:
        session.notice(str(error), "warning")


def _index_sessions(session: Session) -> None:
    """Read new records of all sessions for searches, slowly."""
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.session_index import catch_up

    if session.no_trace:
        return
    try:
        catch_up(database(), math.inf, pause=INDEXING_PAUSE_S)
    except StoreError as error:
        # A search reports any other problem.
        if is_corrupt(error.__cause__):
            session.notice(str(error), "warning")


def _exit_code(app: TerminalApp[Any], advice: str = "") -> int:
    """Return the exit code of an application that has ended; report its crash. advice: what to do
    after a crash."""
    if app.crash is None:
        return app.return_code or 0
    print(app.crash.report(advice), file=sys.stderr)
    return 1
