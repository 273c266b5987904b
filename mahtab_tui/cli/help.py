"""``mahtab-tui help``: a page of the manual, in a pager at a terminal, as Markdown in a pipe."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys

import typer

from mahtab_tui.manual.pages import TOPICS, page
from mahtab_tui.system.programs import find_program

_WIDEST = 100
"""The most columns of a page at a terminal."""


def overview() -> str:
    topics = "\n".join(f"| `{each.topic}` | {each.summary} |" for each in map(page, TOPICS))
    return f"# Manual of mahtab-tui\n\n`mahtab-tui help TOPIC` shows a page. `F1` shows them in the program.\n\n| topic | about |\n| --- | --- |\n{topics}\n"


def show_page(text: str) -> None:
    """Print Markdown: rendered and paged if stdout is a terminal, otherwise as it is."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(_WIDEST, shutil.get_terminal_size().columns))
    with console.capture() as captured:
        console.print(Markdown(text, hyperlinks=False))
    if not _paged(captured.get()):
        typer.echo(captured.get(), nl=False)


def _paged(text: str) -> bool:
    """Show a text in the user's pager, as man does. False if there is none."""
    chosen = os.environ.get("MANPAGER") or os.environ.get("PAGER")
    command = shlex.split(chosen) if chosen else ["less"]
    if not command or find_program(command[0]) is None:
        return False
    # Keep colours, and only print a page that fits the screen. The user's own LESS variable takes
    # precedence.
    surroundings = {"LESS": "-FRX", **os.environ}
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the pager's
    try:
        subprocess.run(command, input=text.encode(), env=surroundings, check=False)
    finally:
        signal.signal(signal.SIGINT, ignored)
    return True
