"""Resuming a session; if it is open in another terminal, the user chooses what to do."""

from __future__ import annotations

import sys
import termios
from pathlib import Path

import typer

from mahtab_tui.bus.records import Record
from mahtab_tui.cli.printing import say
from mahtab_tui.kernel.held.waiting import Connections
from mahtab_tui.session.shared_sessions import RunningSession, SharingError, running_sessions
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.claim import HeldElsewhere, Holder
from mahtab_tui.store.resume import find_session, forked_store, going_on, resumed_store
from mahtab_tui.store.sqlite import SessionRow, SqliteStore


def resume(session: str | None, project: Path | None, *, variables: bool) -> tuple[SqliteStore, str, list[Record]]:
    """Return the store of a session, its name, and its past records.

    session: the start of its id; None for the last one, of the project or of all. variables: whether those that were kept come back, too. Raises `NoSession`; ends the command if the user declines.
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
    if choice == "t":
        return resumed_store(row, by_force=True, variables=variables)
    if choice == "w" and running is not None:
        from mahtab_tui.tui.open import watch_session

        raise typer.Exit(watch_session(running))
    say(f"mahtab-tui: The session {row.id} was not changed.", err=True)
    raise typer.Exit(1)


def attach(store: SqliteStore, past: list[Record], settings: Settings) -> tuple[Connections | None, list[Record]]:
    """Return the connections to the session's kernel if it has waited, and the past records then."""
    if store.claim is None or not settings.keep_kernel or settings.kernel is not None:
        return None, past
    from mahtab_tui.kernel.held.waiting import attach as attach_to

    waiting = attach_to(store.session)
    return (None, past) if waiting is None else (waiting, going_on(store, past, waiting.kernel.cell))


def _shared_by(holder: Holder) -> RunningSession | None:
    """Return the running session of a program, if it can be watched."""
    try:
        return next((each for each in running_sessions() if each.pid == holder.pid and holder.is_here), None)
    except SharingError:
        return None


def _choice(row: SessionRow, holder: Holder, *, can_watch: bool) -> str:
    say(f'The session "{row.name}" ({row.id}) is open in another terminal:\n{holder.sentence_part()}. You can')
    if can_watch:
        say("  w  watch it: see what happens there, without changing anything")
    say("  f  fork it: continue with a copy, as a new session")
    say("  t  take it over: the other screen is told, and no longer saved")
    letters = "wft" if can_watch else "ft"
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # keys typed ahead do not answer this question
    while True:
        typer.echo(f"Choose {', '.join(letters[:-1])} or {letters[-1]} and press Enter; Enter alone leaves: ", nl=False)
        answer = sys.stdin.readline().strip().lower()
        if not answer or answer in letters:
            return answer
