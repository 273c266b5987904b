"""Opens and closes the full screen."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.app import SuspendNotSupported

from mahtab_tui import __version__
from mahtab_tui.bus import StoreError
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.session import Session
from mahtab_tui.settings.model import Settings, SettingsError, home_folder, load_settings
from mahtab_tui.store.database import History, is_corrupt
from mahtab_tui.system import Lazy
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.main_screen import UiState
from mahtab_tui.tui.terminal_app import Collector, TerminalApp
from mahtab_tui.tui.terminal_driver import SignalHandler, StdioRedirect, report_thread_failures

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import NotebookFile
    from mahtab_tui.session.info import SessionBackend
    from mahtab_tui.session.loading import DataFile
    from mahtab_tui.session.sharing import RunningSession, ShareServer

_LONGEST = 500


class Crash(NamedTuple):
    error: str
    traceback: str
    file: Path | None

    def report(self, advice: str = "") -> str:
        where = f"Its traceback, which is not saved:\n{self.traceback}"
        if self.file:
            where = f"The traceback is in {self.file}."
        crashed = f"mahtab-tui: The screen crashed: {self.error}"
        return "\n".join(filter(None, [crashed, where, advice]))


def save_crash(
    error: BaseException, mask: Callable[[str], str] = str, *, saves: bool = True
) -> Crash:
    """Write a traceback, without values of variables, to a file in the home folder."""
    text = plain(mask("".join(traceback.format_exception(error))))
    words = one_line(mask(f"{type(error).__name__}: {error}"))[:_LONGEST]
    if not saves:
        return Crash(words, text, None)
    from mahtab_tui.settings.values import write_text

    path = home_folder() / "logs" / time.strftime(f"crash-%Y%m%d-%H%M%S-{os.getpid()}.txt")
    about = f"mahtab-tui {__version__}, Python {sys.version}, {sys.platform}\n"
    try:
        write_text(path, (about + text).encode("utf-8", "replace").decode())
    except SettingsError:
        return Crash(words, text, None)
    return Crash(words, text, path)


@contextlib.contextmanager
def ignore_signal_keys() -> Iterator[None]:
    r"""Ignore Ctrl+C and Ctrl+\ while another program has the terminal; it would inherit
    `SIG_IGN`."""
    keys = (signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, lambda *_: None) for number in keys}
    wakeup = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)


def run_suspended(app: TerminalApp[Any], argv: Sequence[str], cwd: str) -> int:
    """Give the terminal to a program; returns its exit code. Raises `RuntimeError`."""
    try:
        with (
            app.suspend(),
            app.guard.suspended() if app.guard else contextlib.nullcontext(),
            ignore_signal_keys(),
        ):
            return subprocess.run(list(argv), cwd=cwd, check=False).returncode
    except SuspendNotSupported:
        raise RuntimeError("This terminal cannot be given to another program.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RuntimeError(f"{argv[0]} could not be started: {reason}.") from None


class ScreenFrontend:
    can_ask = True
    belongs_to_agent = False

    def __init__(self) -> None:
        self.app: MahtabApp | None = None

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        app = self.app
        if app is None or not app.is_running:
            raise RuntimeError("This needs a terminal, and the screen is not open.")
        done: Future[int] = Future()

        def run() -> None:
            try:
                done.set_result(run_suspended(app, argv, cwd))
            except RuntimeError as error:
                done.set_exception(error)

        app.call_later(run)
        return done.result()

    def leave(self) -> None:
        if self.app is not None:
            self.app.call_later(self.app.command_context.quit_flow.quit_from_cell)


_READ_PAUSE = 4.0

MIN_SIZE = (20, 5)


class TerminalUnavailable(Exception):
    """The screen cannot be shown; the message says what to do."""


ASK_HINT = ' Without one, use: mahtab-tui ask "question".'


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
    if columns < MIN_SIZE[0] or lines < MIN_SIZE[1]:
        least = "{} x {}".format(*MIN_SIZE)
        raise TerminalUnavailable(
            f"The terminal is too small: {columns} x {lines}; it must be at least {least}."
        )


def end_with_terminal() -> None:
    """Let a hangup end this process even under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


class ScreenResult(NamedTuple):
    code: int
    next_session: str
    running_cell: int = 0


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
    notebook: NotebookFile | None = None,
) -> ScreenResult:
    """Show the screen until the user quits. Raises `TerminalUnavailable`.

    backend: created after the first picture. collector: None if the process is not ours.
    """
    check_terminal(ASK_HINT)
    if collector is not None:
        end_with_terminal()
    frontend = ScreenFrontend()
    project = Path.cwd()
    session = Session(
        settings,
        backend,
        frontend,
        name=name or project.name,
        past=past,
        files=files,
        notebook=notebook,
        no_trace=no_trace,
    )
    servers: list[ShareServer] = []
    share = partial(_share, session, project, servers)
    sharing = threading.Thread(target=share, name="share", daemon=True)
    history = History(home_folder() / "history.db", str(project), session.mask, no_trace=no_trace)
    early: list[str] = []
    afterwards: list[str] = []

    def on_line(text: str) -> None:
        if frontend.app is None or not frontend.app.is_running:
            afterwards.append(text)
        elif session.built:
            session.notice(text, "warning")
        else:  # must not wait for the session, because whoever writes the line waits
            early.append(text)

    def report_first_notices() -> None:
        while early:
            session.notice(early.pop(0), "warning")
        if kernel_notice:
            session.notice(kernel_notice, "warning")
        if no_trace:
            nothing = "Nothing of this session is saved: no conversation, no variables, no inputs."
            session.notice(nothing)

    def close(*, hurry: bool = False) -> None:
        if sharing.ident is not None:
            sharing.join()
        for server in servers:
            server.close()
        app = frontend.app
        hurry = hurry or (app is not None and app.crash is not None)
        leaves = hurry or (app is not None and app.leaves_kernel)
        session.close(hurry=hurry, leave=leaves)
        afterwards.extend(early)
        if session.built and session.namespace_store.has_unwritten_changes and not leaves:
            late = "The last changes to variables could not be saved in time"
            afterwards.append(f"{late}; earlier ones are saved.")
        notebook = session.notebook if session.built else None
        if notebook is not None and notebook.problem and not hurry:
            afterwards.append(notebook.problem)
        history.close()

    try:
        with StdioRedirect(on_line) as guard, report_thread_failures(on_line):
            frontend.app = app = MahtabApp(
                session, guard, history, collector=collector, keeps_namespace=keeps_namespace
            )
            app.call_after_first_picture(report_first_notices)
            if settings.share:
                app.call_after_first_picture(sharing.start)
            for name, work in (("leftovers", _report_leftovers), ("digests", _read_sessions)):
                thread = threading.Thread(target=work, args=(session,), name=name, daemon=True)
                app.call_after_first_picture(thread.start)

            def on_shutdown() -> None:
                if draft := app.editor.text.strip():
                    history.add(draft, app.editor.mode)
                session.save()
                close(hurry=True)
                if backend.made:
                    backend.get().release()

            with SignalHandler(app, on_shutdown):
                app.run()
            if not no_trace:
                app.ui_state.save()
    finally:
        close()
        if afterwards:
            print(plain("\n".join(afterwards)), file=sys.stderr)
    saved = backend.made and backend.get().store is not None and not no_trace
    advice = "mahtab-tui --continue resumes this session with its saved variables." if saved else ""
    running_cell = session.cells.last if app.leaves_kernel else 0
    return ScreenResult(_exit_code(app, advice), app.next_session, running_cell)


def watch_live(what: str | None) -> int:
    """Follow a running session. Raises `TerminalUnavailable`."""
    from mahtab_tui.session.sharing import SharingError, find_session

    try:
        return watch_session(find_session(what, Path.cwd()))
    except SharingError as error:
        raise TerminalUnavailable(str(error)) from None


def watch_session(running: RunningSession) -> int:
    from mahtab_tui.tui.watch_app import WatchApp

    check_terminal()
    app = WatchApp(running)
    end_with_terminal()
    app.set_theme(load_settings().theme or UiState.load().theme)
    with SignalHandler(app):
        app.run()
    return _exit_code(app)


def _share(session: Session, project: Path, servers: list[ShareServer]) -> None:
    from mahtab_tui.session.sharing import ShareServer, SharingError

    try:
        servers.append(ShareServer(session, project))
    except SharingError as error:
        session.notice(f"Agents cannot join this session: {error}", "warning")


def _report_leftovers(session: Session) -> None:
    from mahtab_tui.session.components import remove_leftovers
    from mahtab_tui.session.kernel import describe_detached_kernels, stop_surplus_kernels

    try:
        remove_leftovers()
        stop_surplus_kernels()
        for sentence in [] if session.no_trace else describe_detached_kernels():
            session.notice(sentence, "warning")
    except StoreError as error:
        session.notice(str(error), "warning")


def _read_sessions(session: Session) -> None:
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.session_index import catch_up

    if session.no_trace:
        return
    try:
        catch_up(database(), math.inf, pause=_READ_PAUSE)
    except StoreError as error:
        if is_corrupt(error.__cause__):  # a search reports any other problem
            session.notice(str(error), "warning")


def _exit_code(app: TerminalApp[Any], advice: str = "") -> int:
    if app.crash is None:
        return app.return_code or 0
    print(app.crash.report(advice), file=sys.stderr)
    return 1
