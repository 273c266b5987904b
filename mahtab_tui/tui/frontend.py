"""The full screen as a session's face."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from textual.app import SuspendNotSupported

from mahtab_tui.tui.terminal_app import TerminalApp


@contextlib.contextmanager
def keys_that_signal_ignored() -> Iterator[None]:
    r"""Ignore Ctrl+C and Ctrl+\, which a program that has the terminal shares with us.

    This does not use `signal.SIG_IGN`, because the program would inherit it.
    """
    before = {
        number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)
    }
    wakeup = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number, handler in before.items():
            signal.signal(number, handler)


def run_suspended(app: TerminalApp[Any], argv: Sequence[str], cwd: str) -> int:
    """Give the terminal to a program until it ends, on the application's thread; returns its exit
    code. Raises `RuntimeError`."""
    try:
        with (
            app.suspend(),
            app.guard.lifted() if app.guard else contextlib.nullcontext(),
            keys_that_signal_ignored(),
        ):
            return subprocess.run(list(argv), cwd=cwd, check=False).returncode
    except SuspendNotSupported:
        raise RuntimeError("This terminal cannot be given to another program.") from None
    except (OSError, ValueError) as error:
        raise RuntimeError(
            f"{argv[0]} could not be started: {getattr(error, 'strerror', None) or error}."
        ) from None


class ScreenFrontend:
    """Implements `session.face.Face`. Its `app` is set once the application exists."""

    can_ask = True

    def __init__(self) -> None:
        self.app: TerminalApp[int] | None = None

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Suspend the screen while the program runs."""
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
            self.app.call_later(self.app.leave_by_code)
