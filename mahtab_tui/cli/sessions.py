"""``mahtab-tui sessions``, ``export`` and ``watch``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.options import (
    echo,
    fail,
    fail_on,
    load_checked_settings,
    parse_path,
    prompt_answer,
    require_working_folder,
    warn,
)
from mahtab_tui.export.selection import NothingToExport
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import DetachedKernel, detached_kernels
from mahtab_tui.kernel.detached import stop as end_kernel
from mahtab_tui.kernel.remote.attaching import stop_remote
from mahtab_tui.kernel.remote.notes import KernelNote, noted_kernels
from mahtab_tui.session.background_kernels import (
    describe_kernel,
    foreign_folder,
    local_detached_kernels,
    remote_detached_kernels,
)
from mahtab_tui.session.running_sessions import SharingError, running_sessions
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.store.resume import SessionNotFound, database, find_session
from mahtab_tui.store.session_index import find_sessions, wanted_words
from mahtab_tui.store.session_list import SessionRow, list_sessions
from mahtab_tui.store.session_lock import locked_sessions
from mahtab_tui.store.session_removal import remove_session
from mahtab_tui.store.session_words import catch_up

MAX_LISTED_SESSIONS = 50
"""At most this many sessions are listed, unless the user wants others."""
INDEX_TIMEOUT_S = 0.3
"""Seconds that a search first reads sessions that are not indexed yet."""


def list_detached_kernels() -> Iterator[str]:
    """Yield a heading and a line for each kernel that waits for a screen, longest wait first."""
    waiting: list[DetachedKernel | KernelNote] = [*local_detached_kernels()]
    waiting += reversed(remote_detached_kernels())
    if waiting:
        yield "Running in the background (mahtab-tui --resume ID reattaches, sessions stop ID stops one, --idle all idle ones):"
    for kernel in waiting:
        folder = foreign_folder(kernel.session)
        yield f"  {one_line(kernel.session)}  {describe_kernel(kernel)}{folder}"


def _stop_remote(kernel: KernelNote) -> None:
    """Stop a kernel on another machine. Ends the command if that fails."""
    address = one_line(kernel.station.label)
    echo(f"Connecting to {address} …", to_stderr=True)
    try:
        stop_remote(kernel, prompt_answer)
    except KernelError as error:
        kernel.forget()
        warn(one_line(str(error)))
        fail("Forgot that kernel. It stops after `keep_kernel` idle hours.", 1)
    echo(f"Stopped the kernel of session {kernel.session} on {address}.")


def _stop_local(kernel: DetachedKernel) -> None:
    """Stop a kernel of this machine. Ends the command if that fails."""
    name = f"The kernel of session {kernel.session}"
    try:
        if not end_kernel(kernel):
            fail(f"{name} (process {kernel.pid}) has not stopped yet.", 1)
    except OSError as error:
        fail(f"{name} cannot be reached: {error.strerror or error}.", 1)
    echo(f"Stopped the kernel of session {kernel.session}.")


sessions_app = typer.Typer(
    help="List open sessions and those that can be resumed; search, stop or delete them."
)
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The beginning of the session's ID")]
AllProjects = Annotated[bool, typer.Option("--all", help="The sessions of every folder")]


@sessions_app.callback(invoke_without_command=True)
def list_all(
    context: typer.Context,
    all_projects: AllProjects = False,
    limit: Annotated[int, typer.Option(metavar="N", help="List only the newest N", min=1)] = (
        MAX_LISTED_SESSIONS
    ),
) -> None:
    """List open sessions and those that can be resumed; search, stop or delete them."""
    if context.invoked_subcommand is not None:
        return

    require_working_folder()
    with fail_on(SharingError):
        running = running_sessions()
    lines: list[str] = []
    if running:
        lines.append("Running (mahtab-tui mcp --attach NAME joins one):")
        lines += (f"  {session.sentence()}" for session in running)
    try:
        lines += list_detached_kernels()
    except StoreError as error:  # the session file was damaged, and was set aside
        warn(str(error))
    if lines:
        lines.append("Saved:")

    saved = _list_saved(None if all_projects else Path.cwd(), limit)
    for line in chain(lines, saved):
        echo(line)


def _list_saved(project: Path | None, limit: int) -> Iterator[str]:
    """Yield a line for each saved session of a folder, or of all, newest first."""
    folder = None if project is None else str(project)
    with fail_on(StoreError, code=1):
        rows = list_sessions(database(), folder, limit=limit + 1)
    if not rows and project is None:
        yield "No sessions yet."
    elif not rows:
        yield "No sessions in this folder yet. --all lists those of every folder."

    holders = locked_sessions()
    for row in rows[:limit]:
        line = _line(row)
        if holder := holders.get(row.id):
            line += f"  (open: {holder.sentence_part()})"
        yield line
    if len(rows) > limit:
        yield "Older ones are not listed: --limit N lists more."


def _line(row: SessionRow) -> str:
    """Return a saved session as a line of a list."""
    size = f"{row.records:>6} records"
    return one_line(f"{row.id}  {row.last_use_date}  {size}  {row.name}  {row.heading}")


@sessions_app.command()
def search(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS",
            help="One entry must contain all of them; the last may be the start of a word",
        ),
    ],
    all_projects: AllProjects = False,
    limit: Annotated[
        int, typer.Option(metavar="N", help="Print only the newest N", min=1)
    ] = MAX_LISTED_SESSIONS,
) -> None:
    """Find sessions by their conversations and cells. Exit codes: 0 found, 1 nothing was found."""
    require_working_folder()
    typed = " ".join(words)
    if not wanted_words(typed):
        fail("A search needs a word: letters or digits.")
    folder = None if all_projects else str(Path.cwd())
    with fail_on(SessionNotFound, StoreError, code=1):
        unread_count = catch_up(database(), INDEX_TIMEOUT_S)
        result = find_sessions(database(), typed, folder, limit=limit)

    for hit in result.hits:
        echo(_line(hit.session))
        if hit.excerpt:
            echo(f"          {one_line(hit.excerpt)}")
    if result.more:
        echo("There are more results: add words, or give a larger --limit.")
    if unread_count:
        echo(
            f"Not everything was searched yet. Sessions left: {unread_count:,}. Search again later."
        )
    if not result.hits and all_projects:
        fail("Nothing was found.", 1)
    if not result.hits:
        fail(
            "Nothing was found in this folder's sessions. --all searches those of every folder.", 1
        )


@sessions_app.command()
def stop(
    session: Annotated[
        str, typer.Argument(metavar="[ID]", help="The beginning of the session's ID")
    ] = "",
    idle: Annotated[
        bool, typer.Option("--idle", help="Stop all kernels of this machine that run no cell")
    ] = False,
) -> None:
    """Stop a session's kernel in the background, or all idle ones; saved variables stay. Exit codes:
    0 stopped, 1 not stopped."""
    if bool(session) == idle:
        raise typer.BadParameter("Give the ID of a session, or --idle.")
    if idle:
        _stop_idle()
    else:
        _stop_session(session)


def _stop_idle() -> None:
    """Stop all kernels of this machine that run no cell."""
    kernels = [kernel for kernel in local_detached_kernels() if not kernel.cell]
    if not kernels:
        fail("No idle kernel is in the background.", 1)
    for kernel in kernels:
        _stop_local(kernel)


def _stop_session(session: str) -> None:
    """Stop the kernel of a session, wherever it is.

    Args:
        session: The beginning of the session's ID.
    """
    kernels: list[DetachedKernel | KernelNote] = [*detached_kernels(), *noted_kernels()]
    matches = [kernel for kernel in kernels if kernel.session.startswith(session)]
    if len({kernel.session for kernel in matches}) != 1:
        count = f"are {len(matches):,} kernels" if matches else "is no kernel"
        fail(f"There {count} whose session ID begins with {session!r}.", 1)

    for kernel in matches:
        has_host = isinstance(kernel, DetachedKernel) and kernel.has_host
        if has_host or kernel.session in locked_sessions():
            fail(f"Session {kernel.session} is open in another terminal. Close it there first.", 1)
        if isinstance(kernel, KernelNote):
            _stop_remote(kernel)
        else:
            _stop_local(kernel)


@sessions_app.command("rm")
def remove(
    session: SessionId, yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False
) -> None:
    """Delete a session for good: its conversation and its variables. Exit codes: 0 deleted, 1 not
    deleted."""
    with fail_on(SessionNotFound, StoreError, code=1):
        row = find_session(session, None)
        if not yes:
            heading = one_line(row.heading or row.name)
            typer.confirm(
                f'Delete the session "{heading}" ({one_line(row.id)}) for good?', abort=True
            )
        remove_session(row)
    echo(f"Deleted session {row.id}.")


def export(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]", help="The beginning of its ID; without it, this folder's last one"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=parse_path,
            help="The file, ending in .ipynb, .py, .md or .html",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists")] = False,
) -> None:
    """Write a session as a notebook, a script, Markdown or a web page. Exit codes: 0 written, 1 not
    written, 2 wrong arguments."""
    from mahtab_tui.export.rendering import ENDINGS
    from mahtab_tui.session.exports import export_session

    if output is None or output.suffix.lower() not in ENDINGS:
        endings = ", ".join(ENDINGS)
        fail(f"Name the output with -o; its extension sets the format. Extensions: {endings}.")
    require_working_folder()
    with fail_on(SessionNotFound, StoreError, NothingToExport, code=1):
        row = find_session(session, Path.cwd() if session is None else None)
        # It was masked when saved, as far as secrets were known then.
        mask = Secrets(load_checked_settings((), None).secrets).redact_for_model
        try:
            echo(export_session(row, output, mask, overwrite=force))
        except FileExistsError:
            fail(f"{one_line(str(output))} already exists. --force replaces it.", 1)
        except OSError as error:
            fail(f"{one_line(str(output))} cannot be written: {error.strerror}.", 1)


def watch(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]", help="Its name or process id  [default: this folder's]"
        ),
    ] = None,
) -> None:
    """Watch a session on another screen, read-only."""
    from mahtab_tui.tui.open import TerminalUnavailable
    from mahtab_tui.tui.watching import watch_live

    require_working_folder()
    with fail_on(SharingError, TerminalUnavailable, SettingsError):
        raise typer.Exit(watch_live(session))
