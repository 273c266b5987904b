"""Opens one session after another in the interface that suits the terminal, as `mahtab-tui` without a
command does."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.cli.options import (
    LATEST_SESSION,
    check_reachable,
    enter_folder_and_inspect_files,
    fail,
    fail_on,
    load_checked_settings,
    names_kernel,
    require_working_folder,
)
from mahtab_tui.settings.sources import COMMAND_LINE
from mahtab_tui.system import Lazy

# `session_setup` is imported when it is needed, because most of it is not before the first picture.
if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import LoadedNotebook
    from mahtab_tui.session.backend import SessionBackend
    from mahtab_tui.session.data_files import DataFile
    from mahtab_tui.session.open_session import Interface, InterfaceResult, OpenSession
    from mahtab_tui.settings.model import Settings
    from mahtab_tui.tui.terminal_app import Collector

ASK_HINT = 'Without one, use: mahtab-tui ask "question".'


@dataclass(frozen=True)
class ScreenOptions:
    """The options with which the screen opens, after those that contradict each other are refused."""

    model: str | None
    approval: str | None
    python: str | None
    kernel: str | None
    theme: str | None
    linear: Interface | None
    """The interface that was asked for; None for the one that suits the terminal."""
    resume: str | None
    """The beginning of a session's ID, or `LATEST_SESSION`."""
    continue_session: bool
    """Resume the last session of this folder."""
    share: bool
    """Let agents join the session, if the settings do."""
    store: bool
    load: list[Path]
    """Files to load as variables, and at most one folder to work in."""
    cell_files: list[Path]
    """Files to show as cells."""
    notebook: Path | None
    """A notebook to keep up to date, which need not exist."""
    skills_dir: list[Path] | None
    code_dir: Path | None
    max_usd: float | None
    assignments: list[str] | None
    """Settings as KEY=VALUE."""

    def load_settings(self) -> Settings:
        """Load the settings, with these options above them. Ends the command if they are invalid."""
        return load_checked_settings(
            (),
            self.assignments,
            model=self.model,
            approval=self.approval,
            python=self.python,
            kernel=self.kernel,
            theme=self.theme,
            share=None if self.share else False,
            skills_dir=self.skills_dir or None,
            code_dir=self.code_dir,
            max_usd=self.max_usd,
        )


def open_sessions(options: ScreenOptions) -> int:
    """Check everything that could prevent the screen from opening, and open it. Ends the command
    with a sentence if something does.

    Returns:
        The exit code, once the user has left.
    """
    require_working_folder()
    notebook = _open_notebook(options)
    files = enter_folder_and_inspect_files(options.load)
    settings = options.load_settings()
    check_reachable(files, settings.kernel)
    _check_model_name(settings)
    _check_theme(settings)

    interface = choose_interface(settings, options.linear)
    collector: Collector | None = None
    if interface == "screen":
        collector = _make_collector()
    else:
        gc.enable()
    if problem := interface_problem(interface):
        fail(problem)

    if not options.store:
        return _open_unsaved_session(settings, interface, collector, files, notebook)
    start = _SessionStart(
        is_resumed=bool(options.resume) or options.continue_session,
        session=None if options.resume == LATEST_SESSION else options.resume,
        folder=Path.cwd() if options.continue_session else None,
        keeps_kernel=not names_kernel(options.python, options.kernel, options.assignments),
        files=files,
        notebook=notebook,
    )
    return _open_saved_sessions(settings, interface, collector, start)


def _make_collector() -> Collector:
    """From here to the first picture, nothing is collected: imports create no garbage."""
    from mahtab_tui.tui.terminal_app import Collector

    return Collector()


def _open_notebook(options: ScreenOptions) -> LoadedNotebook | None:
    if not options.cell_files and options.notebook is None:
        return None
    from mahtab_tui.cli.session_setup import open_notebook

    return open_notebook(options.cell_files, options.notebook)


def _check_model_name(settings: Settings) -> None:
    """End the command if there is no such model.

    Whether it can be reached is said when it is asked, because Python works without it.
    """
    from mahtab_tui.llm.base import ModelError
    from mahtab_tui.llm.names import check_name, full_name

    with fail_on(ModelError):
        check_name(full_name(settings.model or "demo", settings.provider))


def _check_theme(settings: Settings) -> None:
    """End the command if its options name a theme that does not exist.

    The full screen warns of a theme that a file names.
    """
    if settings.theme is None or settings.origin("theme").text != COMMAND_LINE:
        return
    from mahtab_tui.settings.model import SettingsError
    from mahtab_tui.tui.setting_check import check_setting

    with fail_on(SettingsError):
        check_setting("theme", settings.theme, ())


def _open_unsaved_session(
    settings: Settings,
    interface: Interface,
    collector: Collector | None,
    files: Sequence[DataFile],
    notebook: LoadedNotebook | None,
) -> int:
    """Open a session that saves nothing; return the exit code."""
    from mahtab_tui.cli.session_setup import backend_without_store

    backend = Lazy.of(backend_without_store(settings))
    result = open_session(
        settings,
        backend,
        interface,
        collector=collector,
        files=files,
        notebook=notebook,
        no_trace=True,
    )
    return result.exit_code


class _SessionStart(NamedTuple):
    """Which session opens on the screen, and with what."""

    is_resumed: bool
    session: str | None = None
    """The beginning of the ID of the resumed session; None for the last one."""
    folder: Path | None = None
    """The folder whose last session is resumed; None for any."""
    keeps_kernel: bool = True
    """Whether a resumed session continues with its own kernel."""
    files: Sequence[DataFile] = ()
    """Files to load as variables."""
    notebook: LoadedNotebook | None = None


class _ReadySession(NamedTuple):
    """A session that the screen can open."""

    backend: Lazy[SessionBackend]
    name: str
    past: Sequence[Record]
    notebook: LoadedNotebook | None
    kernel_notice: str
    """Why the session does not continue with its own kernel; empty if it does."""


def _open_saved_sessions(
    settings: Settings, interface: Interface, collector: Collector | None, start: _SessionStart
) -> int:
    """Open one session after another, as the user switches between them; return the exit code.

    Args:
        settings: The settings of all these sessions.
        interface: The first interface.
        collector: Keeps garbage collection off until the first picture.
        start: The first session.
    """
    while True:
        if start.is_resumed:
            session = _resume_session(settings, start)
        else:
            session = _new_session(settings, start)
        try:
            result = open_session(
                settings,
                session.backend,
                interface,
                collector=collector,
                name=session.name,
                past=session.past,
                kernel_notice=session.kernel_notice,
                files=start.files,
                notebook=session.notebook,
            )
        finally:
            if session.backend.made:
                session.backend.get().release()

        if not result.next_session:
            break
        # The options are about the first session only.
        start = _SessionStart(is_resumed=True, session=result.next_session)

    if session.backend.made:
        from mahtab_tui.cli.session_setup import print_how_to_continue

        print_how_to_continue(
            session.backend.get(),
            session.name,
            resumed=start.is_resumed,
            cell=result.running_cell,
        )
    return result.exit_code


def _resume_session(settings: Settings, start: _SessionStart) -> _ReadySession:
    """Reopen a saved session. Ends the command if that is impossible."""
    from mahtab_tui.cli.session_setup import resume_backend

    session = resume_backend(
        settings,
        start.session,
        start.folder,
        start.notebook,
        its_kernel=start.keeps_kernel,
    )
    check_reachable(start.files, session.kernel)
    backend = Lazy.of(session.backend)
    return _ReadySession(backend, session.name, session.past, session.notebook, session.problem)


def _new_session(settings: Settings, start: _SessionStart) -> _ReadySession:
    """Prepare a session in this folder.

    Its kernel starts when the first picture is on the screen. Ends the command if the kernel's
    address is invalid.
    """
    project = Path.cwd()
    backend = Lazy(partial(_new_backend, settings, project))
    if settings.kernel is not None:
        backend.get()
    return _ReadySession(backend, project.name or "session", (), start.notebook, "")


def _new_backend(settings: Settings, project: Path) -> SessionBackend:
    # Imported late, because this runs while the screen is already visible.
    from mahtab_tui.cli.session_setup import new_backend

    return new_backend(settings, project)


def choose_interface(settings: Settings, requested: Interface | None) -> Interface:
    """Return the interface that the user has asked for, unless only the plain one suits.

    Args:
        settings: They may say that the user has a screen reader.
        requested: None for the one that suits the user and the terminal.
    """
    if _needs_plain_lines(settings):
        return "plain"
    return requested or "screen"


def _needs_plain_lines(settings: Settings) -> bool:
    """Return whether the user reads, or the terminal shows, plain lines only."""
    is_piped = sys.stdin.isatty() and not sys.stdout.isatty()
    if settings.screen_reader or is_piped:
        return True
    return sys.stdout.isatty() and not _can_move_cursor()


def _can_move_cursor() -> bool:
    """Return whether programs can place the cursor of this terminal, as far as TERM says."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return False
    try:
        import curses

        curses.setupterm(fd=sys.stdout.fileno())
    except (ImportError, curses.error):
        # Nothing is known about this terminal, as about many new ones.
        return True
    return curses.tigetstr("cup") is not None


def interface_problem(interface: Interface) -> str:
    """Return why an interface cannot be shown here, as a sentence; empty if it can."""
    if interface == "screen":
        from mahtab_tui.tui.open import TerminalUnavailable, check_terminal

        try:
            check_terminal(ASK_HINT)
        except TerminalUnavailable as error:
            return str(error)
    elif not sys.stdin.isatty():
        return f"This needs a terminal. {ASK_HINT}"
    return ""


def _screen_problem() -> str:
    """Return why the full screen cannot be shown here, as a sentence; empty if it can."""
    if not (sys.stdout.isatty() and _can_move_cursor()):
        return "This terminal cannot show the full screen."
    return interface_problem("screen")


def open_session(
    settings: Settings,
    backend: Lazy[SessionBackend],
    interface: Interface,
    *,
    name: str = "",
    past: Sequence[Record] = (),
    collector: Collector | None = None,
    kernel_notice: str = "",
    keeps_namespace: bool = False,
    no_trace: bool = False,
    files: Sequence[DataFile] = (),
    notebook: LoadedNotebook | None = None,
) -> InterfaceResult:
    """Open a session until the user leaves it, in one interface after another.

    Args:
        settings: The settings of the session.
        backend: The kernel and the store, created when the user sees something.
        interface: The first interface.
        name: The name of the session; by default that of the folder.
        past: The records of a session that is resumed.
        collector: None if the process is not ours, or no screen is opened at first.
        kernel_notice: What to say about the kernel at first.
        keeps_namespace: Whether the variables outlive the session, without being saved.
        no_trace: Whether nothing is saved.
        files: Data to load into variables.
        notebook: A notebook to open.
    """
    from mahtab_tui.session import Session
    from mahtab_tui.session.open_session import CurrentFrontend, OpenSession, open_door

    frontend = CurrentFrontend()
    session = Session(
        settings,
        backend,
        frontend,
        name=name or Path.cwd().name,
        past=past,
        files=files,
        notebook=notebook,
        no_trace=no_trace,
        open_door=open_door,
    )
    opened = OpenSession(
        session,
        frontend,
        kernel_notice=kernel_notice,
        keeps_namespace=keeps_namespace,
        no_trace=no_trace,
        screen_problem=_screen_problem,
    )
    try:
        result = _show_interface(opened, interface, collector)
        while result.next_interface is not None:
            next_interface = result.next_interface
            if interface == "plain" and next_interface == "linear":
                # The user has begun with the plain form.
                next_interface = "plain"
            result = _show_interface(opened, next_interface, None)
    finally:
        opened.close()
        opened.print_closing_lines()

    if result.crash_report is not None:
        is_saved = backend.made and backend.get().store is not None and not no_trace
        advice = (
            "mahtab-tui --continue resumes this session with its saved variables."
            if is_saved
            else ""
        )
        print(result.crash_report(advice), file=sys.stderr)
    return result


def _show_interface(
    opened: OpenSession, interface: Interface, collector: Collector | None
) -> InterfaceResult:
    """Show one interface until the user leaves it."""
    if interface == "screen":
        from mahtab_tui.tui.open import show_screen

        return show_screen(opened, collector)
    from mahtab_tui.linear.front_end import show_lines

    return show_lines(opened, is_plain=interface == "plain")
