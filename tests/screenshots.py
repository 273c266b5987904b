"""Pictures of the real program on a terminal, for README and manual."""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.e2e.terminal import Terminal
from tests.waiting import end_waiting_kernels

FOLDER = Path(__file__).parents[1] / "mahtab_tui" / "manual" / "pictures"

_DATA = """\
cities = ["Oslo", "Rome", "Lima", "Kyiv", "Bern"]
orders = [{"id": n, "city": cities[n * n % 5], "price": 20 + n * n % 41} for n in range(1, 2001)]
"""
_LOG = "\n".join(
    f"10:{n // 60:02}:{n % 60:02} request {n} {'timed out after 30 s: database' if n % 397 == 0 else 'ok'}"
    for n in range(3000)
)


def _ask(screen: Terminal) -> None:
    screen.enter("total = sum(row['price'] for row in orders)")
    screen.wait(r"\+ total")
    screen.enter("`first 3 of cities")
    screen.press_until("y", "The result", prompt_pattern="waits for you")
    screen.wait("idle")
    screen.enter("how many items has orders?")
    screen.wait("waits for you")


def _inspect(screen: Terminal) -> None:
    screen.send("\x0fn")
    screen.press_until("enter", "missing", prompt_pattern="NAMESPACE")


def _search(screen: Terminal) -> None:
    screen.enter('rlm("Which requests timed out?", log)')
    screen.wait("RECURSION")
    screen.wait("→ Demo")
    screen.wait("idle")


SHOTS: dict[str, Callable[[Terminal], None]] = {
    "main": _ask,
    "inspector": _inspect,
    "search": _search,
}


def svg(screen: Terminal) -> str:
    """Return the screen as SVG, in the reader's own fonts."""
    console = Console(
        width=screen.columns,
        record=True,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    for line in range(screen.lines):
        row = screen.screen.buffer[line]
        runs = groupby((row[column] for column in range(screen.columns)), _style)
        console.print(
            Text.assemble(
                *(("".join(char.data for char in run), style) for style, run in runs), no_wrap=True
            )
        )
    drawn = console.export_svg(title="mahtab-tui", theme=MONOKAI, unique_id="shot")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def _style(char: Char) -> Style:
    ink, ground = (
        (f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else name) for name in (char.fg, char.bg)
    )
    return Style(
        color=ink,
        bgcolor=ground,
        bold=char.bold,
        italic=char.italics,
        underline=char.underscore,
        reverse=char.reverse,
    )


@contextmanager
def running_program(
    files: Mapping[str, str],
    *arguments: str,
    columns: int,
    lines: int,
    env: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Start the program in a project, ready for its first cell.

    Args:
        files: The texts of the project's files, by their names.
        arguments: The program's arguments.
        columns: Of the terminal.
        lines: Of the terminal.
        env: Further variables of the environment.
    """
    with tempfile.TemporaryDirectory() as home:
        project = Path(home, "sales")
        project.mkdir()
        for name, text in files.items():
            (project / name).write_text(text, "utf-8")
        argv = [sys.executable, "-P", "-m", "mahtab_tui", *arguments]
        variables = {"HOME": home, "VIRTUAL_ENV": "", **(env or {})}
        with Terminal(argv, columns=columns, lines=lines, cwd=project, env=variables) as screen:
            yield screen.idle()
        end_waiting_kernels(Path(home))


def main() -> None:
    """Draw each picture anew."""
    FOLDER.mkdir(exist_ok=True)
    files = {"orders.py": _DATA, "log.txt": _LOG}
    for name, act in SHOTS.items():
        with running_program(files, "--model", "demo", columns=110, lines=36) as screen:
            screen.enter("log = open('log.txt').read()")
            screen.enter("%run orders.py")
            screen.wait(r"\+ orders")
            act(screen)
            for _ in range(60):  # some parts are drawn late
                screen.pump()
            (FOLDER / f"{name}.svg").write_text(svg(screen), "utf-8")


if __name__ == "__main__":
    main()
