"""How a command ends that cannot do what was asked."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(sentence: str, code: int = 2) -> NoReturn:
    """One sentence on stderr, and an exit code."""
    typer.echo(f"mahtab-tui: {sentence}", err=True)
    raise typer.Exit(code)
