"""What a command prints, and how one ends that cannot do what was asked."""

from __future__ import annotations

from typing import NoReturn

import typer


def say(text: str, *, err: bool = False) -> None:
    """Print a text that may hold what others wrote: no control sequence of theirs reaches the terminal."""
    from mahtab_tui.bus.sanitize import plain

    typer.echo(plain(text), err=err)


def need_folder() -> None:
    """Where the folder that the command was started in has been deleted, go to one above it, and say so."""
    from mahtab_tui.working_folder import leave_deleted_folder

    if moved := leave_deleted_folder():
        say(f"mahtab-tui: {moved}", err=True)


def fail(sentence: str, code: int = 2) -> NoReturn:
    """One sentence on stderr, and an exit code."""
    say(f"mahtab-tui: {sentence}", err=True)
    raise typer.Exit(code)
