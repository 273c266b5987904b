"""Printing from commands, and ending them with an error."""

from __future__ import annotations

import re
import sys
from io import TextIOWrapper
from typing import NoReturn

import typer

_MADE = re.compile(r"(\A\r\x1b\[K|\x1b\[[\d;]*m)")
"""The control sequences that commands make themselves: rewriting a line, colours and styles."""


class _Gate(TextIOWrapper):
    """A stream to a terminal that lets only text, colours and styles through, whoever writes, including the argument parser and tracebacks."""

    def __init__(self, stream: TextIOWrapper) -> None:
        super().__init__(stream.buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering, write_through=stream.write_through)
        self._stream = stream
        """Kept alive: its end would close the file that both write to."""

    def write(self, text: str, /) -> int:
        from mahtab_tui.bus.sanitize import plain

        super().write("".join(piece if _MADE.fullmatch(piece) else plain(piece) for piece in _MADE.split(text)))
        return len(text)


def guard_terminal() -> None:
    """From now on, nothing that a command prints can control the terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper) and (name == "stderr" or stream.isatty()):
            setattr(sys, name, _Gate(stream))


def say(text: str, *, err: bool = False) -> None:
    """Print a text that others may have written: its control sequences do not reach the terminal."""
    from mahtab_tui.bus.sanitize import plain

    typer.echo(plain(text), err=err)


def need_folder() -> None:
    """If the current folder has been deleted, go to one above it and say so."""
    from mahtab_tui.system.working_folder import leave_deleted_folder

    if moved := leave_deleted_folder():
        say(f"mahtab-tui: {moved}", err=True)


def fail(sentence: str, code: int = 2) -> NoReturn:
    """End the command with one sentence on stderr and an exit code."""
    say(f"mahtab-tui: {sentence}", err=True)
    raise typer.Exit(code)
