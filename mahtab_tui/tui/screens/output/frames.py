"""The frames of a cell's error, and the source of the one that is chosen with its line marked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.style import Style
from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import TracebackFrame
from mahtab_tui.kernel.looking import Look
from mahtab_tui.tui.commands.output import FRAMES_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.external_editor import open_in_editor
from mahtab_tui.tui.port import TranscriptPort
from mahtab_tui.tui.rows.row import Span
from mahtab_tui.tui.rows.text_window import TextRow
from mahtab_tui.tui.screens.inspector.text_source import LocalText
from mahtab_tui.tui.screens.inspector.view import Place
from mahtab_tui.tui.screens.output.code import Code, cell_of, code_of, is_file
from mahtab_tui.tui.screens.output.frame_list import FrameList
from mahtab_tui.tui.screens.output.locals_view import LocalsView, path_of
from mahtab_tui.tui.screens.output.pager import OutputView
from mahtab_tui.tui.screens.output.screen import OutputScreen, no_place

if TYPE_CHECKING:
    from mahtab_tui.tui.terminal_app import TerminalApp

ABOVE = 4
"""Lines of the source that are seen above the one that is meant, if there are so many."""


class CodeView(OutputView):
    """A source with a line of it marked."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, LocalText(""))
        self._marked = range(0)

    def show_code(self, code: Code, problem: str) -> None:
        """Show a source from its marked line on; a problem: what is wrong with it."""
        start = 0 if code.line is None else code.line.start
        self._marked = range(0) if code.line is None else range(start, max(code.line.stop, start + 1))
        self.show(LocalText(code.text), "python", problem)
        self.go_to(start)

    @property
    def rows_above(self) -> int:
        return min(ABOVE, self.size.height // 2)

    def left_of(self, row: TextRow) -> list[Span]:
        ((number, style),) = super().left_of(row)
        return [(number[:-2] + "▸ ", style + self.palette.moon)] if row.start in self._marked else [(number, style)]

    def ground(self, row: TextRow) -> Style | None:
        return self.palette.panel if row.start in self._marked else None


class FramesScreen(OutputScreen):
    """The exception and the frames stand above, as many as there is room for; the source of the chosen one and its variables below."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(FRAMES_COMMANDS)]

    def __init__(
        self,
        cell: int,
        exception: str,
        frames: Sequence[TracebackFrame],
        at: int,
        code: Callable[[int], str | None],
        look: Look,
        folder: Path,
        port: TranscriptPort,
    ) -> None:
        """at: the frame that is chosen first. code: gives the code of a cell."""
        super().__init__(f"Error of cell {cell}", folder)
        self._cell = cell
        self._code_of = code
        self._port = port
        self._look = look
        self._code = Code("", None)
        self._exception = exception
        self._all = frames
        self._frames = FrameList(frames, at)
        self._locals = LocalsView(look, path_of(cell, frames, at))
        self._source = CodeView(no_place(look, "source"))

    def on_mount(self) -> None:
        self.call_later(self._begin)

    async def _begin(self) -> None:
        exception = Static(Content(plain(self._exception)), classes="exception", markup=False)
        await self.query_one("#output-body").mount(exception, self._frames, self._source, self._locals)
        self._frames.focus()
        self._read()

    @on(FrameList.Chosen)
    def _read(self) -> None:
        frame = self._frames.frame
        self.query_one("#output-title", Static).update(Content(f"{self._title}  ·  line {frame.line or '?'} of {one_line(frame.file)}"))
        self._locals.show(path_of(self._cell, self._all, self._frames.at))
        self._fetcher.ask("code", lambda: code_of(frame, self._code_of), self._came, self._missing)

    def _came(self, code: Code) -> None:
        self._code = code
        line = self._frames.frame.line
        self._source.show_code(code, "" if code.line is not None or not line else f"It has no line {line:,} any more: the source is another one now.")

    def _missing(self, sentence: str) -> None:
        self._code = Code("", None)
        self._source.show_code(self._code, sentence)

    def content(self) -> bytes | None:
        return self._code.text.encode("utf-8", "replace") or None

    @property
    def file_name(self) -> str:
        number = cell_of(self._frames.frame)
        return os.path.basename(one_line(self._frames.frame.file)) if number is None else f"cell-{number}.py"

    def action_back(self) -> None:
        """From the source or the variables to the frames; else as everywhere."""
        if self._source.has_focus or self._locals.has_focus:
            self._frames.focus()
        else:
            super().action_back()

    def action_source(self) -> None:
        self._source.focus()

    def action_locals(self) -> None:
        self._locals.focus()

    def action_whole_output(self) -> None:
        self._port.open_output(self._cell)

    def action_edit(self) -> None:
        """A file in the user's editor, at the line; the code of a cell in ours."""
        frame = self._frames.frame
        if cell_of(frame) is not None and self._code.text:
            self._port.edit("python", self._code.text.strip("\n"))
            self.dismiss(None)
        elif is_file(frame):
            self.call_later(self._edit_file, frame)  # not within the key's own event: the screen would not be drawn anew
        else:
            self.fail(self._source.problem or "There is nothing to edit.")

    def _edit_file(self, frame: TracebackFrame) -> None:
        try:
            open_in_editor(cast("TerminalApp[Any]", self.app), frame.file, frame.line)
        except RuntimeError as error:
            self.fail(str(error))
        else:
            self._read()
