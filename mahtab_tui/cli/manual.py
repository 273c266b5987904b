"""``mahtab-tui help``: pages of the manual in the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer

from mahtab_tui.cli.options import fail_on
from mahtab_tui.manual import TOPICS, TopicNotFound, page

MAX_MANUAL_WIDTH = 100
"""The manual is at most this many columns wide."""


def help_(
    topic: Annotated[
        str | None, typer.Argument(help="A topic of the manual; without one, the list of topics")
    ] = None,
) -> None:
    """Show a page of the manual: keys, models, search, agents and more."""
    with fail_on(TopicNotFound):
        show_page(page(topic).text if topic else overview())


def overview() -> str:
    """Return the list of the manual's topics, as Markdown."""
    pages = [page(topic) for topic in TOPICS]
    rows = "\n".join(f"| `{topic_page.topic}` | {topic_page.summary} |" for topic_page in pages)
    return f"# Manual of mahtab-tui\n\n`mahtab-tui help TOPIC` shows a page. `F1` shows them in the program.\n\n| topic | about |\n| --- | --- |\n{rows}\n"


def show_page(text: str) -> None:
    """Print Markdown: rendered and paged if stdout is a terminal, otherwise unchanged."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-FRX")  # keeps colours, and just prints a page that fits
    console = Console(width=min(MAX_MANUAL_WIDTH, shutil.get_terminal_size().columns))
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))
