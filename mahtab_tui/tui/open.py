"""Opens the full screen over a new session, and closes both."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.session import Session
from mahtab_tui.settings.model import Settings, home_folder, load_settings
from mahtab_tui.store.history import History
from mahtab_tui.system.lazy import Lazy
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.collector import Collector
from mahtab_tui.tui.frontend import ScreenFrontend
from mahtab_tui.tui.signal_handler import SignalHandler
from mahtab_tui.tui.stdio_redirect import StdioRedirect, thread_failures_told
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.ui_state import UiState

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import NotebookFile
    from mahtab_tui.session.backend import SessionBackend
    from mahtab_tui.session.loading import DataFile
    from mahtab_tui.session.share_server import ShareServer
    from mahtab_tui.session.shared_sessions import RunningSession

_PAUSE_OF_READING = 4.0
"""How much longer than each step to wait after it, while older sessions are read."""

_FILES, _FEWEST_FILES = 256, 64
"""Open files that are wanted, and those without which there is no screen."""

SMALLEST = (20, 5)
"""Columns and lines of the smallest terminal."""


class NoTerminal(Exception):
    """There is no terminal for the screen; the message says what to do."""


ASK_INSTEAD = ' Without one, use: mahtab-tui ask "question".'


def check_terminal(instead: str = "") -> None:
    """Raise `NoTerminal` if the screen cannot be shown. instead: a sentence that says what to do
    without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminal(f"This needs a terminal.{instead}")
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise NoTerminal(
            "TERM says that this terminal cannot show a screen (TERM=dumb or not set). Set TERM, as in TERM=xterm-256color."
        )
    _check_open_files()
    columns, lines = shutil.get_terminal_size()
    if columns < SMALLEST[0] or lines < SMALLEST[1]:
        raise NoTerminal(
            f"The terminal is too small: {columns} x {lines}; it must be at least {SMALLEST[0]} x {SMALLEST[1]}."
        )


def _check_open_files() -> None:
    """Raise the limit of open files as far as allowed. Raises `NoTerminal` if that is too few for
    the screen."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FILES:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(
            resource.RLIMIT_NOFILE,
            (_FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard), hard),
        )
    if (allowed := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < _FEWEST_FILES:
        raise NoTerminal(
            f"Only {allowed} files may be open here, but the screen needs {_FEWEST_FILES}: see ulimit -n."
        )


def end_with_terminal() -> None:
    """Let a hangup end this process even under `nohup`, because it has nothing to do without its
    terminal."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Closed(NamedTuple):
    """How a screen has ended."""

    code: int
    """The program's exit code."""
    next_session: str
    """The id of the session to open in its place; empty for none."""
    running_cell: int = 0
    """The cell that its kernel still runs; 0 for none."""


def open_screen(
    settings: Settings,
    ground: Lazy[SessionBackend],
    *,
    name: str = "",
    past: Sequence[Record] = (),
    collector: Collector | None = None,
    moved: str = "",
    namespace_stays: bool = False,
    no_trace: bool = False,
    files: Sequence[DataFile] = (),
    notebook: NotebookFile | None = None,
) -> Closed:
    """Show the screen until the user leaves. Raises `NoTerminal`.

    ground: made behind the first picture, unless it is made already. collector: for a process of
    our own. moved: a sentence that says that the folder was deleted, and which one is used instead.
    namespace_stays: whether the namespace outlives the screen. no_trace: write nothing of the
    session anywhere. files: become variables. notebook: its cells are shown.
    """
    check_terminal(ASK_INSTEAD)
    if collector is not None:
        end_with_terminal()
    face = ScreenFrontend()
    named = name or Path.cwd().name
    session = Session(
        settings,
        ground,
        face,
        name=named,
        past=past,
        files=files,
        notebook=notebook,
        no_trace=no_trace,
    )
    project = Path.cwd()
    sharing = Sharing(session, project)
    history = History(home_folder() / "history.db", str(project), session.mask, no_trace=no_trace)
    early: list[str] = []
    afterwards: list[str] = []

    def line_came(text: str) -> None:
        """Show a line that others wrote to the terminal: as a notice, or, once the screen is
        closed, below it."""
        if face.app is None or not face.app.is_running:
            afterwards.append(text)
        elif session.built:
            session.notice(text, "warning")
        else:  # the reader of these lines waits for nothing: whoever writes them waits for it
            early.append(text)

    def tell_early_lines() -> None:
        while early:
            session.notice(early.pop(0), "warning")

    def close(*, hurry: bool = False) -> None:
        sharing.end()
        hurry = hurry or (face.app is not None and face.app.crash is not None)
        leaves = hurry or (face.app is not None and face.app.leaves_kernel)
        session.close(hurry=hurry, leave=leaves)
        afterwards.extend(early)
        if session.built and session.keeping.behind and not leaves:
            afterwards.append(
                "The last changes to variables could not be saved in time; earlier ones are saved."
            )
        if (
            session.built
            and session.notebook is not None
            and session.notebook.problem
            and not hurry
        ):
            afterwards.append(session.notebook.problem)
        history.close()

    try:
        with StdioRedirect(line_came) as guard, thread_failures_told(line_came):
            app = MahtabApp(
                session,
                guard,
                history,
                keymap=settings.keymap,
                collector=collector,
                namespace_stays=namespace_stays,
            )
            face.app = app
            app.call_after_first_picture(tell_early_lines)
            if moved:
                app.call_after_first_picture(lambda: session.notice(moved, "warning"))
            if no_trace:
                app.call_after_first_picture(
                    lambda: session.notice(
                        "Nothing of this session is saved: no conversation, no variables, no inputs."
                    )
                )
            if settings.share:
                app.call_after_first_picture(sharing.begin)
            app.call_after_first_picture(
                threading.Thread(
                    target=_tell_of_the_past, args=(session,), name="leftovers", daemon=True
                ).start
            )
            if not no_trace:
                app.call_after_first_picture(
                    threading.Thread(
                        target=_read_sessions, args=(session,), name="digests", daemon=True
                    ).start
                )

            def last_words() -> None:
                if draft := app.editor.text.strip():
                    history.add(draft, app.editor.mode)
                session.save()
                close(hurry=True)
                if ground.made:
                    ground.get().release()

            def repaired() -> None:
                session.notice("A cell changed terminal settings; restored.", "warning")

            with SignalHandler(app, last_words, repaired):
                app.run()
            if not no_trace:
                app.choices.save()
    finally:
        close()
        if afterwards:
            print(plain("\n".join(afterwards)), file=sys.stderr)
    saved = ground.made and ground.get().store is not None and not no_trace
    advice = "mahtab-tui --continue resumes this session with its saved variables." if saved else ""
    return Closed(
        _exit_code(app, advice), app.next_session, session.cells.last if app.leaves_kernel else 0
    )


def watch_live(what: str | None) -> int:
    """Follow a log file or a running session until the user leaves; returns the exit code. Raises
    `OSError`, `NoTerminal`."""
    from mahtab_tui.session.shared_sessions import SharingError, session_for
    from mahtab_tui.tui.watch_app import WatchApp, WatchedFile

    settings = _prepared()
    path = home_folder() / "logs" / "repl.log" if what is None else Path(what)
    if path.is_file():
        return _shown(WatchApp(WatchedFile(path), theme=_theme(settings)))
    try:
        running = session_for(what, Path.cwd())
    except SharingError as error:
        raise NoTerminal(f"There is no log {path}. {error}") from None
    return watch_session(running)


def watch_session(running: RunningSession) -> int:
    """Follow a running session until the user leaves; returns the exit code. Raises
    `NoTerminal`."""
    from mahtab_tui.tui.watch_app import WatchApp, WatchedSession

    settings = _prepared()
    return _shown(WatchApp(WatchedSession(running), theme=_theme(settings)))


class Sharing:
    """Lets agents into a session. A thread opens the socket, so that nothing waits for it."""

    def __init__(self, session: Session, project: Path) -> None:
        self._session = session
        self._project = project
        self._server: ShareServer | None = None
        self._thread = threading.Thread(target=self._open, name="share", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Close the socket, and disconnect the agents."""
        if self._thread.ident is not None:
            self._thread.join()
        if self._server is not None:
            self._server.close()

    def _open(self) -> None:
        from mahtab_tui.session.share_server import ShareServer
        from mahtab_tui.session.shared_sessions import SharingError

        try:
            self._server = ShareServer(self._session, self._project)
        except SharingError as error:
            self._session.notice(f"Agents cannot join this session: {error}", "warning")


def _prepared() -> Settings:
    """The settings, once it is certain that the screen can be shown. Raises `NoTerminal`."""
    check_terminal()
    end_with_terminal()
    return load_settings()


def _theme(settings: Settings) -> str:
    return settings.theme or UiState.load().theme


def _shown(app: TerminalApp[Any]) -> int:
    """Show an application until the user leaves; returns the exit code."""
    with SignalHandler(app):
        app.run()
    return _exit_code(app)


def _tell_of_the_past(session: Session) -> None:
    from mahtab_tui.bus.store_handler import StoreError
    from mahtab_tui.session.cleanup import remove_leftovers
    from mahtab_tui.session.detached_kernels import (
        end_surplus_kernels,
        sentences_about_waiting_kernels,
    )

    try:
        remove_leftovers()
        end_surplus_kernels()
        for sentence in [] if session.no_trace else sentences_about_waiting_kernels():
            session.notice(sentence, "warning")
    except StoreError as error:
        session.notice(str(error), "warning")


def _read_sessions(session: Session) -> None:
    """Read the sessions of older versions into the index, slowly, so that nothing has to wait."""
    from mahtab_tui.bus.store_handler import StoreError
    from mahtab_tui.store.corruption import is_damage
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.session_index import catch_up

    try:
        catch_up(database(), math.inf, pause=_PAUSE_OF_READING)
    except StoreError as error:
        if is_damage(error.__cause__):  # what else may hinder it, a search tells
            session.notice(str(error), "warning")


def _exit_code(app: TerminalApp[Any], advice: str = "") -> int:
    """The exit code: 1 after an error of the application, which this reports. advice: a sentence
    that says how to go on then."""
    if app.crash is None:
        return app.return_code or 0
    print(app.crash.report(advice), file=sys.stderr)
    return 1
