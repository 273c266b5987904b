"""The greeting, and hints on what the kernel's Python lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.reactive import var
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView, paragraph, title_strip, to_strip
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.session import Session


TITLE = "TRANSCRIPT"
TITLE_HEIGHT = 1
GreetingLines = tuple[tuple[str, str], ...]
"""A mark, and a sentence."""
MAX_TEXT_COLUMNS = 120
_MISSING_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([A-Za-z_]\w*)", re.MULTILINE)
# Packages that are named differently from their module.
_PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}


def text_columns(width: int) -> int:
    return max(8, min(MAX_TEXT_COLUMNS, width - EDGE - RIGHT))


def greeting_rows(lines: GreetingLines, width: int, palette: Palette) -> list[Row]:
    mark_width = max((cell_len(mark) for mark, _ in lines), default=0) + 1
    rows = [Row()]
    for mark, text in lines:
        spans = [(set_cell_size(mark, mark_width), palette.moon), (text, palette.text)]
        rows += paragraph(spans, width, None, indent=" " * mark_width)
    return rows


class GreetingRows(list[Row]):
    """The rows of the greeting."""

    lines: GreetingLines = ()

    def lay_out(self, width: int, palette: Palette) -> None:
        self[:] = greeting_rows(self.lines, text_columns(width), palette)


class Greeting(RowsView, can_focus=False):
    """Stands where the transcript will be, until there is something to show."""

    head = TITLE_HEIGHT
    lines: var[GreetingLines] = var(())

    def __init__(self, *, id: str | None = None) -> None:
        self._greeting = GreetingRows()
        super().__init__(self._greeting, id=id)

    def watch_lines(self) -> None:
        self._greeting.lines = self.lines
        self.reload()

    def render_line(self, y: int) -> Strip:
        width = self.width
        base = self.visual_style.rich_style
        if self._laid_out is None:
            return Strip.blank(width, base)
        if y < TITLE_HEIGHT:
            return title_strip(TITLE, base + self._laid_out[1].muted, base, width)
        index = y - TITLE_HEIGHT
        row = self._greeting[index] if index < len(self._greeting) else Row()
        return to_strip(row, None, width, base)


def greeting_lines(session: Session) -> GreetingLines:
    """Return what greets the user: what this is, and what to do with the session's files."""
    files = session.files
    table = next((file.name for file in files if file.is_table), "")
    text = next((file.name for file in files if file.is_long_text), "")
    lines = [
        ("◐", "One Python namespace, shared by you and a language model."),
        ("`", "Type Python; press backtick and ask the model instead."),
    ]
    if table:
        hint = f"Ctrl+O N, then Enter on {table}: every row, to sort, filter."
        lines.append(("Ask", f"` what stands out in {table}?"))
        lines.append(("Look", hint))
    if text:
        call = f'rlm("what failed, and why?", {text})'
        lines.append(("Search", f"{call} reads all of it, part by part."))
    lines.append(("F1", "shows all keys."))
    if not files:
        lines.append(("Data", "mahtab-tui data.csv, mahtab-tui FOLDER. Here: %cd FOLDER"))
    if session.model == "demo":
        demo = "demo: offline, canned rules. Type /model to connect a real one."
        lines.append(("Model", demo))
    return tuple(lines)


class MissingModuleHints:
    """Says how to get a module whose import has failed."""

    def __init__(self, session: Session, owner: Widget) -> None:
        """owner: the widget whose end ends the search for modules."""
        self._session = session
        self._fetcher = Fetcher(owner)

    def fold(self, records: Sequence[Record]) -> None:
        from mahtab_tui.bus.records import ReplOut

        for record in records:
            if isinstance(record, ReplOut) and record.status == "error":
                # The message of the exception is at the end of its traceback.
                for module in _MISSING_MODULE.findall(record.text[-2_000:]):
                    self._fetcher.ask("hint", partial(self._hint, module), self._session.notice)

    def _hint(self, module: str) -> str:
        from mahtab_tui.kernel.launch import find_environments, has_package

        info = self._session.kernel.info()
        if info.pid != os.getpid() and not info.host:
            for environment in find_environments(Path(info.cwd), info.executable):
                if has_package(environment.prefix, module):
                    python = environment.path
                    return one_line(f"{python} has {module}: /python {python}")
        package = _PACKAGES.get(module, module)
        return f"This Python has no {module}: %pip install {package}"
