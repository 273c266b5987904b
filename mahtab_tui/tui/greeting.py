"""The greeting, and lines offered for the input."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.reactive import var
from textual.strip import Strip

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView, paragraph, title_strip, to_strip
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.kernel.base import KernelInfo
    from mahtab_tui.kernel.launch import PythonEnvironment
    from mahtab_tui.session import Session
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.session.loading import DataFile
    from mahtab_tui.tui.main_screen import Panes
    from mahtab_tui.tui.terminal_app import TerminalApp


TITLE = "TRANSCRIPT"
TITLE_HEIGHT = 1
GreetingLines = tuple[tuple[str, ...], ...]
"""A mark, then words and examples in turn: ``("F1", "shows all keys.")``."""
MOST_COLUMNS = 120


def text_columns(width: int) -> int:
    return max(8, min(MOST_COLUMNS, width - EDGE - RIGHT))


def greeting_rows(lines: GreetingLines, width: int, palette: Palette) -> list[Row]:
    column = max((cell_len(mark) for mark, *_ in lines), default=0) + 1
    rows = [Row()]
    for mark, *parts in lines:
        spans = [
            (part, palette.muted if number % 2 == 0 and rows[1:] else palette.text)
            for number, part in enumerate(parts)
        ]
        rows += paragraph(
            [(set_cell_size(mark, column), palette.moon), *spans], width, None, indent=" " * column
        )
    return rows


class GreetingRows(list[Row]):
    lines: GreetingLines = ()

    def lay_out(self, width: int, palette: Palette) -> None:
        self[:] = greeting_rows(self.lines, text_columns(width), palette)


class Greeting(RowsView, can_focus=False):
    lines: var[GreetingLines] = var(())

    def __init__(self, *, id: str | None = None) -> None:
        self._greeting = GreetingRows()
        super().__init__(self._greeting, id=id)

    def watch_lines(self) -> None:
        self._greeting.lines = self.lines
        self.reload()

    @property
    def room(self) -> tuple[int, int]:
        """Columns and lines for a cell's output; (0, 0) before the first layout."""
        return (0, 0) if self._laid_out is None else (text_columns(self.width), self.page)

    @property
    def head(self) -> int:
        return TITLE_HEIGHT

    def render_line(self, y: int) -> Strip:
        width, base = self.width, self.visual_style.rich_style
        if self._laid_out is None:
            return Strip.blank(width, base)
        if y < TITLE_HEIGHT:
            return title_strip(TITLE, base + self._laid_out[1].muted, base, width)
        # If it does not fit, the blank row above goes first.
        index = y - TITLE_HEIGHT + (len(self._greeting) > self.page)
        row = self._greeting[index] if index < len(self._greeting) else Row()
        return to_strip(row, None, width, base)


KEY = "Alt+I"

_MISSING = re.compile(
    r"^ModuleNotFoundError: No module named '([A-Za-z_][A-Za-z0-9_]*)(?:\.[\w.]*)?'", re.MULTILINE
)
_SEARCHED_END = 2_000
_PACKAGES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


class Offer(NamedTuple):
    mode: Mode
    line: str
    why: str
    """A sentence, without its full stop."""


def missing_module(records: Sequence[Record]) -> str:
    from mahtab_tui.bus.records import ReplOut

    for record in reversed(records):
        if isinstance(record, ReplOut) and record.status is not None:
            text = record.text[-_SEARCHED_END:] if record.status == "error" else ""
            return next(reversed(_MISSING.findall(text)), "")
    return ""


def make_offer(module: str, environments: Sequence[PythonEnvironment]) -> Offer:
    from mahtab_tui.kernel.launch import has_package

    for found in environments:
        if has_package(found.prefix, module):
            why = f"{found.path} has {module}; this Python does not"
            return Offer("ask", f"/python {found.path}", why)
    package = _PACKAGES.get(module, module)
    return Offer("python", f"%pip install {package}", f"This Python has no {module}")


def welcome_text(
    version: str, python: str, environments: Sequence[PythonEnvironment], *, pandas: bool
) -> tuple[str, Offer | None]:
    from mahtab_tui.kernel.launch import environment_prefix

    folder = str(environment_prefix(python) or python)
    home = os.path.expanduser("~")
    folder = f"~{folder.removeprefix(home)}" if folder.startswith(f"{home}/") else folder
    runs = f"{version} in {folder}, {'with' if pandas else 'without'} pandas"
    if not pandas:
        offer = make_offer("pandas", environments)
        if offer.mode == "ask":
            runs = f"{runs}; {offer.line.removeprefix('/python ')} has it"
        return runs, offer
    if environments:
        path = environments[0].path
        return f"{runs}. Also found: {path}", Offer("ask", f"/python {path}", f"There is {path}")
    return runs, None


def greeting_lines(files: Sequence[DataFile]) -> list[tuple[str, ...]]:
    table = next((file.name for file in files if file.is_table), "")
    text = next((file.name for file in files if file.is_long_text), "")
    lines: list[tuple[str, ...]] = [
        ("◐", "One Python namespace, shared by you and a language model.")
    ]
    if table:
        look = f" on {table}: every row, to sort and to filter."
        lines.append(("`", "begins a question: ", f"` what stands out in {table}?"))
        lines.append(("Look", "", "Ctrl+O N", ", then ", "Enter", look))
    else:
        lines.append(("`", "Type Python; press backtick and ask the model instead."))
    if text:
        call = f'rlm("what failed, and why?", {text})'
        lines.append(("Search", "", call, " reads all of it, part by part."))
    lines.append(("F1", "shows all keys."))
    if not files:
        here = (". Here: ", "%cd FOLDER")
        lines.append(("Data", "", "mahtab-tui data.csv", ", ", "mahtab-tui FOLDER", *here))
    return lines


class Offers:
    def __init__(self, app: TerminalApp[int], session: Session, panes: Panes) -> None:
        self._app = app
        self._session = session
        self._panes = panes
        self._offer: Offer | None = None
        self._fetcher = Fetcher(panes)

    def greet(self) -> None:
        self._show_greeting()

        def greet_kernel(ready: Future[bool]) -> None:
            if ready.exception() is None:
                self._panes.call_later(self._describe_python, ready.result())

        self._session.ready.add_done_callback(greet_kernel)

    def fold(self, records: Sequence[Record]) -> None:
        if module := missing_module(records):
            self._fetcher.ask(
                "offer",
                lambda: make_offer(module, _environments(self._session.kernel.info())),
                self._show_offer,
            )

    def accept(self) -> None:
        editor = self._panes.editor
        if self._offer is None:
            self._app.notify(
                "Nothing to insert now. After a failed import, this key puts the install command into the input."
            )
        elif not editor.is_empty:
            self._app.notify(
                f"Clear the input first; then {KEY} puts {self._offer.line} there.", "warning"
            )
        else:
            editor.put(self._offer.mode, self._offer.line)
            editor.focus()

    def _describe_python(self, pandas: bool) -> None:
        def describe() -> tuple[str, Offer | None]:
            info = self._session.kernel.info()
            return welcome_text(info.python, info.executable, _environments(info), pandas=pandas)

        self._fetcher.ask("welcome", describe, lambda welcome: self._show_greeting(*welcome))

    def _show_offer(self, offer: Offer) -> None:
        self._offer = offer
        self._session.notice(one_line(f"{offer.why}. {KEY} puts {offer.line} into the input."))

    def _show_greeting(self, runs: str = "", offer: Offer | None = None) -> None:
        self._offer = offer or self._offer
        lines = greeting_lines(self._session.files)
        if self._session.model == "demo":
            lines.append(
                ("Model", "demo: offline, canned rules. Type /model to connect a real one.")
            )
        if runs:
            lines.append(("Python", one_line(f"{runs}{f'. {KEY}: {offer.line}' if offer else ''}")))
        self._panes.greet(tuple(lines))


def _environments(info: KernelInfo) -> list[PythonEnvironment]:
    from mahtab_tui.kernel.launch import find_environments

    if info.pid == os.getpid() or info.host:
        return []
    return find_environments(Path(info.cwd), info.executable)
