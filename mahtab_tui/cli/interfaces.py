"""Chooses the interface that suits the terminal, and opens a session in one interface after another."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import LoadedNotebook
    from mahtab_tui.session.backend import SessionBackend
    from mahtab_tui.session.data_files import DataFile
    from mahtab_tui.session.open_session import Interface, InterfaceResult, OpenSession
    from mahtab_tui.settings.model import Settings
    from mahtab_tui.system import Lazy
    from mahtab_tui.tui.terminal_app import Collector

ASK_HINT = ' Without one, use: mahtab-tui ask "question".'


def choose_interface(settings: Settings) -> Interface:
    """Return the interface that suits the user and the terminal."""
    is_piped = sys.stdin.isatty() and not sys.stdout.isatty()
    if settings.screen_reader or is_piped:
        return "plain"
    if sys.stdout.isatty() and not _can_move_cursor():
        return "plain"
    return "screen"


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
        return f"This needs a terminal.{ASK_HINT}"
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
    from mahtab_tui.session.open_session import CurrentFrontend, OpenSession

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
            result = _show_interface(opened, result.next_interface, None)
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
