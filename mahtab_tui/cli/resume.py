"""Resuming a session; if it is open in another terminal, the user chooses what to do."""

from __future__ import annotations

import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.store_handler import StoreError
from mahtab_tui.cli.printing import answer, fail, fail_on, say, warn
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.session.kernel_factory import Waiting
from mahtab_tui.session.shared_sessions import RunningSession, SharingError, running_sessions
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.resume import find_session, forked_store, going_on, resumed_store
from mahtab_tui.store.session_lock import HeldElsewhere, Holder
from mahtab_tui.store.sqlite import SessionRow, SqliteStore

if TYPE_CHECKING:
    from mahtab_tui.kernel.remote.notes import Noted
    from mahtab_tui.kernel.remote.stations import Connected


def resume(
    session: str | None, project: Path | None, *, variables: bool
) -> tuple[SqliteStore, str, list[Record]]:
    """Return the store of a session, its name, and its past records.

    session: the start of its id; None for the last one, of the project or of all. variables:
    whether those that were kept come back, too. Raises `NoSession`; ends the command if the user
    declines.
    """
    row = find_session(session, project)
    try:
        return resumed_store(row, variables=variables)
    except HeldElsewhere as error:
        holder = error.holder
    running = _shared_by(holder)
    choice = _choice(row, holder, can_watch=running is not None)
    if choice == "f":
        return forked_store(row, variables=variables)
    if choice == "w" and running is not None:
        from mahtab_tui.tui.open import watch_session

        raise typer.Exit(watch_session(running))
    warn(f"The session {row.id} was not changed.")
    raise typer.Exit(1)


def attach(
    store: SqliteStore, past: list[Record], settings: Settings
) -> tuple[Waiting, list[Record]]:
    """Attach to the session's kernel if it has waited; returns it, and the past records then.

    A kernel at another place than the settings name is left where it is. Ends the command if
    another machine, where it waits, cannot be reached.
    """
    if store.claim is None or not settings.keep_kernel:
        return Waiting(), past
    from mahtab_tui.bus.masking import Secrets
    from mahtab_tui.kernel.detached.waiting import attach as attach_to
    from mahtab_tui.kernel.remote.notes import noted_kernels
    from mahtab_tui.session.recovered_output import with_last_outputs

    here = attach_to(store.session) if settings.kernel is None else None
    if here is not None:
        return Waiting(here=here), going_on(store, past, here.kernel.cell)
    for noted in noted_kernels(store.session):
        if settings.kernel in (None, noted.station.address):
            elsewhere = _attach_elsewhere(noted)
            if elsewhere is not None:
                return Waiting(elsewhere=elsewhere), going_on(store, past, elsewhere.cell)
    with fail_on(StoreError, code=1):
        return Waiting(), with_last_outputs(store, past, Secrets(settings.secrets))


def _attach_elsewhere(noted: Noted) -> Connected | None:
    from mahtab_tui.kernel.remote.stations import attach as attach_to
    from mahtab_tui.kernel.remote.transport import KernelGone

    say(
        f"Connecting to {one_line(noted.station.label)}, where the session's kernel is running …",
        err=True,
    )
    try:
        return attach_to(noted, answer)
    except KernelGone:
        noted.forget()
        return None
    except KernelError as error:
        warn(one_line(str(error)))
        fail(
            f"Try again later, or give up that kernel: mahtab-tui sessions stop {noted.session}", 1
        )


def _shared_by(holder: Holder) -> RunningSession | None:
    """Return the running session of a program, if it can be watched."""
    try:
        return next(
            (each for each in running_sessions() if each.pid == holder.pid and holder.is_here), None
        )
    except SharingError:
        return None


def _choice(row: SessionRow, holder: Holder, *, can_watch: bool) -> str:
    say(
        f'The session "{row.name}" ({row.id}) is open in another terminal:\n{holder.sentence_part()}. You can'
    )
    if can_watch:
        say("  w  watch it: see what happens there, without changing anything")
    say("  f  fork it: continue with a copy, as a new session")
    say("To continue it here, close it there first.")
    letters = "w or f" if can_watch else "f"
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # keys typed ahead do not answer this question
    while True:
        typer.echo(f"Choose {letters} and press Enter; Enter alone quits: ", nl=False)
        typed = sys.stdin.readline().strip().lower()
        if typed in ("", *letters.split(" or ")):
            return typed
