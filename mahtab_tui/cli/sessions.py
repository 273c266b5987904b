"""``mahtab-tui sessions``: list the sessions, and delete one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.cli.printing import fail, need_folder, say

sessions_app = typer.Typer(help="List the sessions that are open on a screen, and those that can be resumed; delete one.")


@sessions_app.callback(invoke_without_command=True)
def list_all(
    context: typer.Context,
    all_projects: Annotated[bool, typer.Option("--all", help="The sessions of every folder")] = False,
) -> None:
    """List the sessions that are open on a screen, and those that can be resumed; delete one."""
    if context.invoked_subcommand is not None:
        return
    from mahtab_tui.session.shared_sessions import SharingError, running_sessions
    from mahtab_tui.store.resume import describe_sessions

    need_folder()
    try:
        running = running_sessions()
    except SharingError as error:
        fail(str(error))
    if running:
        typer.echo("Running (mahtab-tui mcp --attach NAME joins one):")
    for session in running:
        say(f"  {session.sentence()}")
    if running:
        typer.echo("Saved:")

    for line in describe_sessions(None if all_projects else Path.cwd()):
        say(line)


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
            typer.confirm(f'Delete the session "{one_line(row.name)}" ({one_line(row.id)}, {row.records:,} records) for good?', abort=True)
        remove_session(row)
    except (NoSession, StoreError) as error:
        fail(str(error), 1)
    say(f"The session {row.id} is deleted.")
