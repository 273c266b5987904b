"""Resumes a session: its store, its past records, and its waiting kernel."""

from __future__ import annotations

import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.options import echo, fail, fail_on, prompt_answer, warn
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import attach as attach_to
from mahtab_tui.kernel.remote.attaching import attach_remote
from mahtab_tui.kernel.remote.notes import KernelNote, noted_kernels
from mahtab_tui.kernel.remote.transport import KernelGone
from mahtab_tui.session.kernel import ReattachedKernel
from mahtab_tui.session.recovered_cells import add_recovered_output
from mahtab_tui.session.running_sessions import RunningSession, SharingError, running_sessions
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.forks import forked_store
from mahtab_tui.store.resume import find_session, reattach, resumed_store
from mahtab_tui.store.session_list import SessionRow
from mahtab_tui.store.session_lock import LockedElsewhere, LockHolder
from mahtab_tui.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from mahtab_tui.kernel.remote.attaching import ConnectedKernel


class ReopenedStore(NamedTuple):
    """The store of a session that is resumed."""

    store: SqliteStore
    name: str
    past: list[Record]
    """What the session has recorded before."""


def resume(
    session: str | None, project: Path | None, *, variables: bool, asks_user: bool = True
) -> ReopenedStore:
    """Open the store of a session.

    If another terminal has it open, the user is asked whether to fork or to watch it. Ends the command
    if they decline, or have watched it.

    Args:
        session: The beginning of its ID; None is the last one.
        project: Only sessions of this folder.
        variables: Whether to restore its variables as well.
        asks_user: Whether there is a user to ask; otherwise the command ends.

    Raises:
        SessionNotFound: There is no such session.
    """
    row = find_session(session, project)
    try:
        return ReopenedStore(*resumed_store(row, variables=variables))
    except LockedElsewhere as error:
        holder = error.holder
    if not asks_user:
        name = one_line(row.heading or row.name)
        fail(
            f'The session "{name}" ({row.id}) is open in another terminal: {holder.sentence_part()}. Close it there first.',
            1,
        )
    return _fork_or_watch(row, holder, variables=variables)


def _fork_or_watch(row: SessionRow, holder: LockHolder, *, variables: bool) -> ReopenedStore:
    """Let the user fork or watch a session that another terminal has open.

    Returns the store of the fork; otherwise, ends the command.
    """
    running = _running_session(holder.pid)
    choice = _ask_fork_or_watch(row, holder, can_watch=running is not None)
    if choice == "f":
        return ReopenedStore(*forked_store(row, variables=variables))
    if choice == "w" and running is not None:
        from mahtab_tui.tui.watching import watch_session

        raise typer.Exit(watch_session(running))
    warn(f"The session {row.id} was not changed.")
    raise typer.Exit(1)


def _running_session(pid: int) -> RunningSession | None:
    """Return the session that a process shows; None if it cannot be watched."""
    with suppress(SharingError):
        for running in running_sessions():
            if running.pid == pid:
                return running
    return None


class AttachedSession(NamedTuple):
    """A session with the kernel that waits for it, if there is one."""

    kernel: ReattachedKernel
    past: list[Record]
    """The records of the session, also those of work done while no screen was attached."""


def attach(store: SqliteStore, past: list[Record], settings: Settings) -> AttachedSession:
    """Attach to the session's waiting kernel, unless the settings name another address. Ends the
    command if its machine cannot be reached."""
    if store.claim is None or not settings.keep_kernel:
        return AttachedSession(ReattachedKernel(), past)

    if settings.kernel is None:
        local = attach_to(store.session)
        if local is not None:
            kernel = ReattachedKernel(local=local)
            return AttachedSession(kernel, reattach(store, past, local.cell))

    for note in noted_kernels(store.session):
        if settings.kernel not in (None, note.station.address):
            continue
        remote = _attach_remote(note)
        if remote is not None:
            kernel = ReattachedKernel(remote=remote)
            return AttachedSession(kernel, reattach(store, past, remote.cell))

    # No kernel waits, but one may have left output before it ended.
    with fail_on(StoreError, code=1):
        past = add_recovered_output(store, past, Secrets(settings.secrets))
    return AttachedSession(ReattachedKernel(), past)


def _attach_remote(note: KernelNote) -> ConnectedKernel | None:
    """Attach to a kernel on another machine; None if it has ended.

    Ends the command if the machine cannot be reached.
    """
    label = one_line(note.station.label)
    echo(f"Connecting to {label}, where the session's kernel is running …", to_stderr=True)
    try:
        return attach_remote(note, prompt_answer)
    except KernelGone:
        note.forget()
        return None
    except KernelError as error:
        warn(one_line(str(error)))
        stop_command = f"mahtab-tui sessions stop {note.session}"
        fail(f"Try again later, or give up that kernel: {stop_command}", 1)


def _ask_fork_or_watch(row: SessionRow, holder: LockHolder, *, can_watch: bool) -> str:
    """Ask what to do with a session that another terminal has open.

    Returns:
        "f" to fork it, "w" to watch it, or an empty text to quit.
    """
    echo(
        f'The session "{row.name}" ({row.id}) is open in another terminal:\n{holder.sentence_part()}. You can'
    )
    if can_watch:
        echo("  w  watch it: see what happens there, without changing anything")
    echo("  f  fork it: continue with a copy, as a new session")
    echo("To continue it here, close it there first.")
    letters = "w or f" if can_watch else "f"
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # keys typed earlier must not answer this question
    while True:
        typer.echo(f"Choose {letters} and press Enter; Enter alone quits: ", nl=False)
        typed = sys.stdin.readline().strip().lower()
        if typed in ("", *letters.split(" or ")):
            return typed
