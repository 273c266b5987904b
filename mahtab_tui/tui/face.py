"""The full screen as the face of a session."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

if TYPE_CHECKING:
    from mahtab_tui.tui.app import MahtabApp


class ScreenFace:
    """`session.face.Face` over the application, which is told once it exists."""

    can_ask = True

    def __init__(self) -> None:
        self.app: MahtabApp | None = None

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Suspend the screen while the program runs."""
        app = self.app
        if app is None or not app.is_running:
            raise RuntimeError("This needs a terminal, and the screen is not open.")
        done: Future[int] = Future()

        def run() -> None:
            try:
                with app.suspend(), app.guard.lifted():
                    done.set_result(subprocess.run(list(argv), cwd=cwd, check=False).returncode)
            except SuspendNotSupported:
                done.set_exception(RuntimeError("This terminal cannot be given to another program."))
            except OSError as error:
                done.set_exception(RuntimeError(f"{argv[0]} could not be started: {error.strerror}."))

        app.call_later(run)
        return done.result()

    def leave(self) -> None:
        if self.app is not None:
            self.app.call_later(self.app.action_quit)
