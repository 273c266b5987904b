"""The session in which `mahtab-tui ask` asks: a new one, or a saved one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.cli.options import fail_on, warn
from mahtab_tui.cli.session_setup import new_backend, resume_backend
from mahtab_tui.export.reading import LoadedNotebook
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.session import Session
from mahtab_tui.session.backend import SessionBackend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_titles import question_title, rename_session
from mahtab_tui.store.sqlite import SqliteStore


class SessionChoice(NamedTuple):
    """Which session the questions are asked in."""

    continue_session: bool = False
    """The last one of this folder."""
    session: str | None = None
    """The beginning of the ID of a saved one, or its name."""
    title: str | None = None
    """What it is called from now on; None to leave its name."""
    keeps_kernel: bool = True
    """Whether a saved session goes on with its own kernel."""

    @property
    def is_resumed(self) -> bool:
        """Whether it is a saved session."""
        return self.continue_session or self.session is not None

    @property
    def is_saved(self) -> bool:
        """Whether what is asked is saved."""
        return self.is_resumed or self.title is not None


class AskedSession(NamedTuple):
    """What a session is made of."""

    backend: SessionBackend
    name: str = ""
    past: Sequence[Record] = ()
    notebook: LoadedNotebook | None = None
    kernel_address: str = ""
    """Empty on this machine."""
    notices: Sequence[str] = ()
    """How a saved session goes on, as sentences."""


def open_session(settings: Settings, choice: SessionChoice) -> AskedSession:
    """Return the chosen session, with its kernel not started yet. Ends the command if that is
    impossible."""
    if choice.is_resumed:
        return _resumed_session(settings, choice)

    if choice.is_saved:
        folder = Path.cwd()
        backend = new_backend(settings, folder)
        return AskedSession(backend, folder.name or "session", kernel_address=settings.kernel or "")

    with fail_on(KernelError):
        kernel = process_kernel(settings)
    return AskedSession(SessionBackend(kernel), kernel_address=settings.kernel or "")


def _resumed_session(settings: Settings, choice: SessionChoice) -> AskedSession:
    """Return a saved session. Ends the command if it cannot be resumed."""
    resumed = resume_backend(
        settings,
        choice.session,
        Path.cwd() if choice.continue_session else None,
        None,
        its_kernel=choice.keeps_kernel,
        asks_user=False,
    )
    notices = [resumed.problem] if resumed.problem else []
    if resumed.past and isinstance(resumed.past[-1], Notice):
        notices.append(resumed.past[-1].text)
    return AskedSession(
        resumed.backend, resumed.name, resumed.past, resumed.notebook, resumed.kernel, notices
    )


def has_saved(backend: SessionBackend) -> bool:
    """Whether anything of a session is in the store."""
    return isinstance(backend.store, SqliteStore) and backend.store.has_written


def name_session(session: Session, title: str) -> None:
    """Give the session a name by which it can be found. It must have records."""
    try:
        rename_session(database(), session.saved_id, question_title(session.mask(title)))
    except StoreError as error:
        warn(str(error))
