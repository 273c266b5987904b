"""``mahtab-tui sessions`` and ``export``: the saved sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.options import checked_settings
from mahtab_tui.cli.printing import fail, fail_on, need_folder, say, warn

if TYPE_CHECKING:
    from mahtab_tui.store.sqlite import SessionRow

sessions_app = typer.Typer(
    help="List open sessions and those that can be resumed; search, rename or delete them."
)
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The beginning of the session's ID")]
AllProjects = Annotated[bool, typer.Option("--all", help="The sessions of every folder")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists")]

NEWEST = 50
"""Sessions that are printed unless more are wanted."""
_CATCH_UP = 0.3
"""Seconds for which a command reads sessions into the index at most, before it answers."""


@contextmanager
def _stored() -> Iterator[None]:
    """End the command with a sentence and code 1 if a session cannot be found, read or written."""
    from mahtab_tui.bus.store_handler import StoreError
    from mahtab_tui.store.resume import NoSession

    with fail_on(NoSession, StoreError, code=1):
        yield


@contextmanager
def _file(path: Path | str, done: str) -> Iterator[None]:
    """End the command with a sentence and code 1 if a file cannot be read or written."""
    try:
        yield
    except FileExistsError:
        fail(f"{one_line(str(path))} already exists. --force replaces it.", 1)
    except OSError as error:
        fail(f"{one_line(str(path))} cannot be {done}: {error.strerror}.", 1)


@sessions_app.callback(invoke_without_command=True)
def list_all(
    context: typer.Context,
    all_projects: AllProjects = False,
    limit: Annotated[int, typer.Option(metavar="N", help="List only the newest N", min=1)] = NEWEST,
) -> None:
    """List open sessions and those that can be resumed; search, rename or delete them."""
    if context.invoked_subcommand is not None:
        return
    from mahtab_tui.bus.store_handler import StoreError
    from mahtab_tui.cli.detached_kernels import kernels_that_wait
    from mahtab_tui.session.shared_sessions import SharingError, running_sessions

    need_folder()
    with fail_on(SharingError):
        running = running_sessions()
    if running:
        typer.echo("Running (mahtab-tui mcp --attach NAME joins one):")
    for session in running:
        say(f"  {session.sentence()}")
    waiting = []
    try:
        waiting = list(kernels_that_wait())
    except StoreError as error:  # the session file was damaged, and has been set aside
        warn(str(error))
    for line in waiting:
        say(line)
    if running or waiting:
        typer.echo("Saved:")
    for line in _saved(None if all_projects else Path.cwd(), limit):
        say(line)


def _saved(project: Path | None, limit: int) -> Iterator[str]:
    """Return a line for each saved session, the newest first, and one about those beyond the
    limit."""
    from mahtab_tui.bus.store_handler import StoreError
    from mahtab_tui.store.database import is_read_only
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.session_index import catch_up
    from mahtab_tui.store.session_lock import locked_sessions
    from mahtab_tui.store.sqlite import count_sessions, list_sessions

    folder = None if project is None else str(project)
    try:
        if not is_read_only(database()):
            catch_up(database(), _CATCH_UP)
        rows = list_sessions(database(), folder, limit=limit)
        count = count_sessions(database(), folder)
    except StoreError as error:
        fail(str(error), 1)
    if not rows:
        yield (
            "No sessions yet."
            if project is None
            else "No sessions in this folder yet. --all lists those of every folder."
        )
    open_now = locked_sessions()
    for row in rows:
        holder = open_now.get(row.id)
        yield _line(row) + ("" if holder is None else f"  (open: {holder.sentence_part()})")
    if count > len(rows):
        yield f"{count - len(rows):,} older ones are not listed: --limit {count} lists all."


def _line(row: SessionRow) -> str:
    from mahtab_tui.store.formatting import cost, day, size

    about = f"{row.records:>6} records  {size(row):>6}  {row.model or '–':<8}  {cost(row):>6}"
    return one_line(f"{row.id}  {day(row)}  {about}  {row.name}  {row.heading}")


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
    ] = NEWEST,
) -> None:
    """Find sessions by their conversations and cells. Exit codes: 0 found, 1 nothing was found."""
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.session_index import catch_up
    from mahtab_tui.store.session_search import find_sessions, wanted_words

    need_folder()
    typed = " ".join(words)
    if not wanted_words(typed):
        fail("A search needs a word: letters or digits.")
    with _stored():
        behind = catch_up(database(), _CATCH_UP)
        found = find_sessions(
            database(), typed, None if all_projects else str(Path.cwd()), limit=limit
        )
    for hit in found.hits:
        say(_line(hit.session))
        if hit.excerpt:
            say(f"          {one_line(hit.excerpt)}")
    if found.more:
        say("There are more results: add words, or give a larger --limit.")
    if behind:
        what = "1 session is" if behind == 1 else f"{behind:,} sessions are"
        say(f"{what} not in the index yet, so not everything was searched. Search again later.")
    if found.note:
        say(found.note)
    if not found.hits:
        fail(
            "Nothing was found."
            if all_projects
            else "Nothing was found in this folder's sessions. --all searches those of every folder.",
            1,
        )


@sessions_app.command()
def rename(
    session: SessionId,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="The title that lists show")],
) -> None:
    """Give a session another title. Exit codes: 0 renamed, 1 not renamed."""
    from mahtab_tui.store.resume import database, find_session
    from mahtab_tui.store.session_index import rename_session, title_of

    if not title_of(title):
        fail("A title needs at least one letter.")
    with _stored():
        row = find_session(session, None)
        rename_session(database(), row.id, title)
    say(f"The session {row.id} is now called: {title_of(title)}")


@sessions_app.command("stop")
def stop_kernel(session: SessionId) -> None:
    """Stop a session's kernel in the background; saved variables stay. Exit codes: 0 stopped, 1 not
    stopped."""
    from mahtab_tui.cli.detached_kernels import stop

    stop(session)


@sessions_app.command("rm")
def remove(
    session: SessionId, yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False
) -> None:
    """Delete a session for good: its conversation and its variables. Exit codes: 0 deleted, 1 not
    deleted."""
    from mahtab_tui.store.resume import find_session, remove_session

    with _stored():
        row = find_session(session, None)
        if not yes:
            heading = one_line(row.heading or row.name)
            typer.confirm(
                f'Delete the session "{heading}" ({one_line(row.id)}, {row.records:,} records) for good?',
                abort=True,
            )
        remove_session(row)
    say(f"Deleted session {row.id}.")


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
            "--output", "-o", metavar="FILE", help="The file, ending in .ipynb, .py, .md or .html"
        ),
    ] = None,
    shown: Annotated[
        bool,
        typer.Option(
            "--shown", help="Leave out what was hidden from the model, replaced or undone"
        ),
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="Keep outputs whole; otherwise at most 100,000 characters per cell"
        ),
    ] = False,
    force: Force = False,
) -> None:
    """Write a session as a notebook, a script, Markdown or a web page. Exit codes: 0 written, 1 not
    written, 2 wrong arguments."""
    from mahtab_tui.bus.masking import Secrets
    from mahtab_tui.export.selection import NothingToExport
    from mahtab_tui.export.writing import ENDINGS
    from mahtab_tui.session.exports import export_session
    from mahtab_tui.store.resume import find_session

    if output is None or output.suffix.lower() not in ENDINGS:
        fail(
            f"Name the output with -o; its extension sets the format. Extensions: {', '.join(ENDINGS)}."
        )
    need_folder()
    with _file(output, "written"), _stored(), fail_on(NothingToExport, code=1):
        row = find_session(session, Path.cwd() if session is None else None)
        told = Secrets(
            checked_settings((), None).secrets
        ).told  # they were masked when they were saved, as far as they were known then
        said = export_session(row, output, told, shown=shown, whole=whole, over=force)
    say(said)
