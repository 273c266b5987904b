"""``mahtab-tui sessions`` lists the sessions and deletes one; ``mahtab-tui export`` writes one into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.cli.options import checked_settings
from mahtab_tui.cli.printing import fail, need_folder, say

sessions_app = typer.Typer(help="List the sessions that are open on a screen, and those that can be resumed; search, rename or delete them.")
AllProjects = Annotated[bool, typer.Option("--all", help="The sessions of every folder")]

NEWEST = 50
"""Sessions that are printed unless more are wanted."""


@sessions_app.callback(invoke_without_command=True)
def list_all(
    context: typer.Context,
    all_projects: AllProjects = False,
    limit: Annotated[int, typer.Option(metavar="N", help="List only the newest N", min=1)] = NEWEST,
) -> None:
    """List the sessions that are open on a screen, and those that can be resumed; search, rename or delete them."""
    if context.invoked_subcommand is not None:
        return
    from mahtab_tui.cli.found_sessions import saved_sessions
    from mahtab_tui.cli.kernels_waiting import kernels_that_wait
    from mahtab_tui.session.shared_sessions import SharingError, running_sessions

    need_folder()
    try:
        running = running_sessions()
    except SharingError as error:
        fail(str(error))
    if running:
        typer.echo("Running (mahtab-tui mcp --attach NAME joins one):")
    for session in running:
        say(f"  {session.sentence()}")
    waiting = list(kernels_that_wait())
    for line in waiting:
        say(line)
    if running or waiting:
        typer.echo("Saved:")

    for line in saved_sessions(None if all_projects else Path.cwd(), limit):
        say(line)


@sessions_app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="All of them must be in one entry; the last one may be a beginning")],
    all_projects: AllProjects = False,
    limit: Annotated[int, typer.Option(metavar="N", help="Print only the newest N", min=1)] = NEWEST,
) -> None:
    """Find sessions by what was said and run in them. Exit codes: 0 found, 1 nothing was found."""
    from mahtab_tui.cli.found_sessions import print_hits

    need_folder()
    print_hits(" ".join(words), None if all_projects else Path.cwd(), limit)


@sessions_app.command()
def rename(
    session: Annotated[str, typer.Argument(metavar="ID", help="The session, by the beginning of its ID")],
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What lists show of it")],
) -> None:
    """Give a session another title. Exit codes: 0 renamed, 1 not renamed."""
    from mahtab_tui.cli.found_sessions import give_title

    give_title(session, title)


@sessions_app.command("export")
def export_file(
    session: Annotated[str, typer.Argument(metavar="ID", help="The session, by the beginning of its ID")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file; its name may end in .jsonl.gz")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there")] = False,
) -> None:
    """Write all of a session but its variables into one file, for import and replay. Exit codes: 0 written, 1 not written."""
    from mahtab_tui.cli.found_sessions import write_file

    need_folder()
    write_file(session, output, over=force)


@sessions_app.command("import")
def import_file(file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that sessions export has written")]) -> None:
    """Make a saved session of a file, in this folder; nothing of it runs. Exit codes: 0 imported, 1 not imported."""
    from mahtab_tui.cli.found_sessions import read_file

    need_folder()
    read_file(file)


@sessions_app.command("stop")
def stop_kernel(session: Annotated[str, typer.Argument(metavar="ID", help="The session, by the beginning of its ID")]) -> None:
    """End the kernel that waits for a session; the variables that were saved stay. Exit codes: 0 ended, 1 not ended."""
    from mahtab_tui.cli.kernels_waiting import stop

    stop(session)


@sessions_app.command("rm")
def remove(
    session: Annotated[str, typer.Argument(metavar="ID", help="The session, by the beginning of its ID")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
) -> None:
    """Delete a session for good: its conversation and its variables. Exit codes: 0 deleted, 1 not deleted."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.bus.sanitize import one_line
    from mahtab_tui.store.resume import NoSession, find_session, remove_session

    try:
        row = find_session(session, None)
        if not yes:
            typer.confirm(
                f'Delete the session "{one_line(row.heading or row.name)}" ({one_line(row.id)}, {row.records:,} records) for good?', abort=True
            )
        remove_session(row)
    except (NoSession, StoreError) as error:
        fail(str(error), 1)
    say(f"The session {row.id} is deleted.")


def replay(
    what: Annotated[str, typer.Argument(metavar="SESSION|FILE", help="The beginning of a session's ID, or a file that sessions export has written")],
    speed: Annotated[float, typer.Option(metavar="X", help="Begin at this many times the speed of the session")] = 1.0,
) -> None:
    """Show a session come up as it did; nothing runs. Keys pause, step, change the speed, and go on from there with a new session."""
    from mahtab_tui.cli.found_sessions import play

    if not 0 < speed < 1e6:
        fail("--speed must be more than 0 and less than 1,000,000.")
    need_folder()
    play(what, speed)


def export(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="The beginning of its ID; without it, this folder's last one")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file, ending in .ipynb, .py, .md or .html")] = None,
    variable: Annotated[str | None, typer.Option(metavar="NAME", help="Only the code that made this variable")] = None,
    shown: Annotated[bool, typer.Option("--shown", help="Leave out what was hidden from the model, replaced or undone")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Keep outputs of any length; else 100,000 characters of each cell's")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there")] = False,
) -> None:
    """Write a session as a notebook, a script, Markdown or a web page. Exit codes: 0 written, 1 not written, 2 wrong arguments."""
    from mahtab_tui.bus.handlers import StoreError
    from mahtab_tui.bus.masking import Secrets
    from mahtab_tui.bus.sanitize import one_line
    from mahtab_tui.export.selection import NothingToExport
    from mahtab_tui.export.writing import ENDINGS
    from mahtab_tui.session.exports import export_session
    from mahtab_tui.store.resume import NoSession, find_session

    if output is None or output.suffix.lower() not in ENDINGS:
        fail(f"Say with -o into which file: its ending ({', '.join(ENDINGS)}) says what it becomes.")
    if variable is not None and not variable.isidentifier():
        fail("--variable needs the name of a variable.")
    need_folder()
    try:
        row = find_session(session, Path.cwd() if session is None else None)
        told = Secrets(checked_settings((), None).secrets).told  # they were masked when they were saved, as far as they were known then
        said = export_session(row, output, told, variable=variable or "", shown=shown, whole=whole, over=force)
    except (NoSession, StoreError, NothingToExport) as error:
        fail(str(error), 1)
    except FileExistsError:
        fail(f"{one_line(str(output))} is there already. --force replaces it.", 1)
    except OSError as error:
        fail(f"{one_line(str(output))} cannot be written: {error.strerror}.", 1)
    say(said)
