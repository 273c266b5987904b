"""``mahtab-tui acp``: sessions in an editor, and how editors are told of the program."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

import typer

from mahtab_tui.cli.client_files import install_interactively, program_command, uninstall
from mahtab_tui.cli.editors import EDITORS, EditorName
from mahtab_tui.cli.options import echo, fail_on, require_working_folder
from mahtab_tui.settings.files import project_folder
from mahtab_tui.settings.model import SettingsError

Editor = Annotated[EditorName, typer.Argument(help="The editor")]
EditorOrToad = Annotated[
    Literal[EditorName, "toad"],
    typer.Argument(help="The editor; for Toad, the command that starts it is printed"),
]

acp_app = typer.Typer(help="Let an editor drive sessions, over the Agent Client Protocol.")


@acp_app.callback(invoke_without_command=True)
def acp(context: typer.Context) -> None:
    """Let an editor drive sessions, over the Agent Client Protocol on stdin and stdout."""
    if context.invoked_subcommand is not None:
        return
    from mahtab_tui.acp.server import AcpServerError, serve

    require_working_folder()
    with fail_on(AcpServerError):
        serve()


@acp_app.command("install")
def acp_install(
    editor: EditorOrToad,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print what would be written")
    ] = False,
) -> None:
    """Tell an editor of the program: show the entry, ask at a terminal, and write it."""
    if editor == "toad":
        typer.echo(f"toad acp {shlex.quote(shlex.join(program_command('acp')))}")
        return
    with fail_on(SettingsError):
        install_interactively(EDITORS[editor], editor, only_print=only_print)


@acp_app.command("uninstall")
def acp_uninstall(editor: Editor) -> None:
    """Remove the program from an editor's settings, and leave the rest."""
    with fail_on(SettingsError):
        echo(f"Removed from {uninstall(EDITORS[editor], project_folder())}.")
