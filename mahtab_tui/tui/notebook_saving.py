"""Saves the notebook from the screen, and asks if another program has changed the file."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export.reading import CannotOpen
from mahtab_tui.export.saving import ChangedOutside
from mahtab_tui.settings.sources import project_folder
from mahtab_tui.tui.screens.confirm import MineOrTheirs, confirm

if TYPE_CHECKING:
    from collections.abc import Callable

    from mahtab_tui.session import Session
    from mahtab_tui.session.notebooks import Notebook
    from mahtab_tui.tui.terminal_app import TerminalApp


def save_notebook(app: TerminalApp[int], session: Session, notebook: Notebook, typed: str) -> None:
    """Save on a thread; notices tell how it went. typed: another file, for a copy; empty for its own."""

    def save(over: bool = False) -> None:
        written = notebook.save(over=over)
        session.notice(f"Saved {notebook.label}." if written else f"{notebook.label} is already up to date.")

    def work() -> None:
        try:
            save()
        except ChangedOutside:
            app.call_later(app.push_screen, MineOrTheirs(CHANGED.format(notebook.label), yes="Keep mine", no="Read theirs"), chosen)

    def chosen(mine: bool | None) -> None:
        if mine is not None:
            _on_thread(session, lambda: save(over=True) if mine else notebook.read_again())

    if not typed:
        _on_thread(session, work)
        return
    copy = project_folder() / os.path.expanduser(typed)
    if copy.suffix.lower() != notebook.path.suffix.lower():
        session.notice(f"A copy of {notebook.label} must end in {notebook.path.suffix}; /export writes other formats.", "warning")
        return

    def save_copy() -> None:
        notebook.save_copy(copy)
        session.notice(f"Saved a copy as {one_line(str(copy))}.")

    if os.path.lexists(copy) and not os.path.isdir(copy):
        confirm(app, f"{typed} already exists. Replace it?", lambda: _on_thread(session, save_copy), yes="Replace", no="Keep")
    else:
        _on_thread(session, save_copy)


CHANGED = (
    "Another program has changed {}. Keep yours (theirs is lost), or read theirs (yours stays in this session only)? Esc leaves both as they are."
)


def _on_thread(session: Session, work: Callable[[], None]) -> None:
    def guarded() -> None:
        try:
            work()
        except CannotOpen as error:
            session.notice(str(error), "error")
        except OSError as error:
            session.notice(f"The notebook cannot be written: {error.strerror}. Nothing was changed.", "error")

    threading.Thread(target=guarded, name="notebook", daemon=True).start()
