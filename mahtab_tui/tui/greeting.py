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

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView, paragraph, title_strip, to_strip
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.session import Session
    from mahtab_tui.tui.main_screen import Panes


TITLE = "TRANSCRIPT"
TITLE_HEIGHT = 1
GreetingLines = tuple[tuple[str, str], ...]
"""A mark, and a sentence."""
MOST_COLUMNS = 120


def text_columns(width: int) -> int:
    return max(8, min(MOST_COLUMNS, width - EDGE - RIGHT))


def greeting_rows(lines: GreetingLines, width: int, palette: Palette) -> list[Row]:
    column = max((cell_len(mark) for mark, _ in lines), default=0) + 1
    rows = [Row()]
    for mark, text in lines:
        spans = [(set_cell_size(mark, column), palette.moon), (text, palette.text)]
        rows += paragraph(spans, width, None, indent=" " * column)
    return rows


class GreetingRows(list[Row]):
    lines: GreetingLines = ()

    def lay_out(self, width: int, palette: Palette) -> None:
        self[:] = greeting_rows(self.lines, text_columns(width), palette)


class Greeting(RowsView, can_focus=False):
    head = TITLE_HEIGHT
    lines: var[GreetingLines] = var(())

    def __init__(self, *, id: str | None = None) -> None:
        self._greeting = GreetingRows()
        super().__init__(self._greeting, id=id)

    def watch_lines(self) -> None:
        self._greeting.lines = self.lines
        self.reload()

    def render_line(self, y: int) -> Strip:
        width, base = self.width, self.visual_style.rich_style
        if self._laid_out is None:
            return Strip.blank(width, base)
        if y < TITLE_HEIGHT:
            return title_strip(TITLE, base + self._laid_out[1].muted, base, width)
        rows = self._greeting[y - TITLE_HEIGHT :]
        return to_strip(rows[0] if rows else Row(), None, width, base)


_MISSING = re.compile(r"^ModuleNotFoundError: No module named '([A-Za-z_]\w*)", re.MULTILINE)
_PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}


class Greeter:
    def __init__(self, session: Session, panes: Panes) -> None:
        self._session = session
        self._panes = panes
        self._fetcher = Fetcher(panes)

    def greet(self) -> None:
        files = self._session.files
        table = next((file.name for file in files if file.is_table), "")
        text = next((file.name for file in files if file.is_long_text), "")
        lines = [
            ("◐", "One Python namespace, shared by you and a language model."),
            ("`", "Type Python; press backtick and ask the model instead."),
        ]
        if table:
            look = f"Ctrl+O N, then Enter on {table}: every row, to sort, filter."
            lines += ("Ask", f"` what stands out in {table}?"), ("Look", look)
        if text:
            call = f'rlm("what failed, and why?", {text})'
            lines.append(("Search", f"{call} reads all of it, part by part."))
        lines.append(("F1", "shows all keys."))
        if not files:
            lines.append(("Data", "mahtab-tui data.csv, mahtab-tui FOLDER. Here: %cd FOLDER"))
        if self._session.model == "demo":
            demo = "demo: offline, canned rules. Type /model to connect a real one."
            lines.append(("Model", demo))
        self._panes.greet(tuple(lines))

    def fold(self, records: Sequence[Record]) -> None:
        """After a failed import, say how to get the module."""
        from mahtab_tui.bus.records import ReplOut

        for record in records:
            if isinstance(record, ReplOut) and record.status == "error":
                for module in _MISSING.findall(record.text[-2_000:]):
                    self._fetcher.ask("hint", partial(self._hint, module), self._session.notice)

    def _hint(self, module: str) -> str:
        from mahtab_tui.kernel.launch import find_environments, has_package

        info = self._session.kernel.info()
        if info.pid != os.getpid() and not info.host:
            for found in find_environments(Path(info.cwd), info.executable):
                if has_package(found.prefix, module):
                    return one_line(f"{found.path} has {module}: /python {found.path}")
        return f"This Python has no {module}: %pip install {_PACKAGES.get(module, module)}"
