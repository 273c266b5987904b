"""Printing from commands, and ending them with an error."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import NoReturn

import typer

_ALLOWED = re.compile(r"(\A\r\x1b\[K|\x1b\[[\d;]*m)")
"""The control sequences that commands use: rewriting a line, colours and styles."""


class _Gate(TextIOWrapper):
    """A stream to a terminal that passes only text, colours and styles, also from the argument
    parser and tracebacks."""

    def __init__(self, stream: TextIOWrapper) -> None:
        super().__init__(
            stream.buffer,
            stream.encoding,
            stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self._stream = stream
        """Kept alive, since its destruction would close the file that both write to."""

    def write(self, text: str, /) -> int:
        from mahtab_tui.bus.sanitize import plain

        super().write(
            "".join(
                piece if _ALLOWED.fullmatch(piece) else plain(piece)
                for piece in _ALLOWED.split(text)
            )
        )
        return len(text)


def guard_terminal() -> None:
    """Prevent everything that the command prints from controlling the terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper) and (name == "stderr" or stream.isatty()):
            setattr(sys, name, _Gate(stream))


def say(text: str, *, err: bool = False) -> None:
    """Print a text without its control sequences, since others may have written it."""
    from mahtab_tui.bus.sanitize import plain

    typer.echo(plain(text), err=err)


def warn(sentence: str) -> None:
    """Print a sentence on stderr."""
    say(f"mahtab-tui: {sentence}", err=True)


def need_folder() -> None:
    """Change to a folder above the current one if that has been deleted, and print a message about
    it."""
    from mahtab_tui.system.working_folder import leave_deleted_folder

    if moved := leave_deleted_folder():
        warn(moved)


def fail(sentence: str, code: int = 2) -> NoReturn:
    """End the command with one sentence on stderr and an exit code."""
    warn(sentence)
    raise typer.Exit(code)


@contextmanager
def fail_on(*errors: type[Exception], code: int = 2) -> Iterator[None]:
    """End the command with the sentence of an error and an exit code if what is inside raises one
    of these."""
    try:
        yield
    except errors as error:
        fail(str(error), code)


def answer(prompt: str, hidden: bool) -> str | None:
    """Ask in the terminal what the way to another machine wants to know, and wait. hidden: it is a
    password. None if there is no answer."""
    from mahtab_tui.bus.sanitize import plain

    try:
        return str(
            typer.prompt(
                plain(prompt).strip(),
                prompt_suffix=" ",
                default="",
                show_default=False,
                hide_input=hidden,
                err=True,
            )
        )
    except typer.Abort:
        return None
