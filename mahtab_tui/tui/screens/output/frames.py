"""A screen for a cell's error: the frames of its traceback, with the source and the variables of
the chosen one."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.inspector_client import InspectedObject, InspectorClient, ObjectPath
from mahtab_tui.kernel.values import TracebackFrame
from mahtab_tui.tui.commands.on_screens import FRAMES_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.external_editor import open_in_editor
from mahtab_tui.tui.port import TranscriptPort
from mahtab_tui.tui.screens.inspector.text_source import LocalText
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.inspector.tree_view import TreeView
from mahtab_tui.tui.screens.inspector.view import Subject
from mahtab_tui.tui.screens.output.code import Code, cell_of, code_of, is_file
from mahtab_tui.tui.screens.output.frame_list import FrameList
from mahtab_tui.tui.screens.output.screen import OutputScreen, no_subject

if TYPE_CHECKING:
    from mahtab_tui.tui.terminal_app import TerminalApp


def variables_path(cell: int, frames: Sequence[TracebackFrame], at: int) -> ObjectPath:
    """The path to the variables of a frame, which the kernel finds by the frame's place and its
    number among the frames of the same place."""
    frame = frames[at]
    place = (frame.file, frame.line, frame.function)
    same = [
        number
        for number, each in enumerate(frames)
        if (each.file, each.line, each.function) == place
    ]
    return (["frame", cell, *place, same.index(at), len(same)],)


def _variables_of(look: InspectorClient, path: ObjectPath) -> Subject:
    return Subject(look, path, InspectedObject(path, "dict", "", "data", ("tree",), "", 0, 0, 0))


class FramesScreen(OutputScreen):
    """Shows the exception, the frames, the source of the chosen frame, and its variables."""

    BINDINGS = bindings(FRAMES_COMMANDS)

    def __init__(
        self,
        cell: int,
        exception: str,
        frames: Sequence[TracebackFrame],
        at: int,
        code: Callable[[int], str | None],
        look: InspectorClient,
        folder: pathlib.Path,
        port: TranscriptPort,
    ) -> None:
        """at: the frame that is chosen first. code: gets the code of a cell."""
        super().__init__(look, folder)
        self._cell = cell
        self._code_of = code
        self._port = port
        self._code = Code("", None)
        self._exception = exception
        self._all = frames
        self._frames = FrameList(frames, at)
        self._variables = TreeView(
            _variables_of(look, variables_path(cell, frames, at)), "variables"
        )
        self._variables.add_class("frame-variables")
        self.viewer.view = self._source = TextView(no_subject(look, "source"), LocalText(""))

    def on_mount(self) -> None:
        self.call_later(self._begin)

    async def _begin(self) -> None:
        exception = Static(Content(plain(self._exception)), classes="exception", markup=False)
        await self.viewer.body.mount(exception, self._frames, self._source, self._variables)
        self._frames.focus()
        self._read()

    @on(FrameList.FrameChanged)
    def _read(self) -> None:
        frame = self._frames.frame
        self.set_title(
            f"Error of cell {self._cell}  ·  line {frame.line or '?'} of {one_line(frame.file)}"
        )
        self._variables.show(
            _variables_of(self.look, variables_path(self._cell, self._all, self._frames.at))
        )
        self.fetcher.ask(
            "code",
            lambda: code_of(frame, self._code_of),
            self._show,
            lambda problem: self._show(Code("", None), problem),
        )

    def _show(self, code: Code, problem: str = "") -> None:
        self._code = code
        line = self._frames.frame.line
        if line and code.line is None:
            problem = problem or f"The source has changed: it has no line {line:,} now."
        marked = (
            range(0)
            if code.line is None
            else range(code.line.start, max(code.line.stop, code.line.start + 1))
        )
        self._source.show(LocalText(code.text), "python", problem, marked)
        self._source.go_to(marked.start)

    def action_save(self) -> None:
        if self._code.text:
            frame = self._frames.frame
            number = cell_of(frame)
            name = os.path.basename(one_line(frame.file)) if number is None else f"cell-{number}.py"
            self.save(name, self._code.text.encode("utf-8", "replace"))

    def action_back(self) -> None:
        """Close the input line; else go from the source or the variables to the frames; else
        leave."""
        if self._source.has_focus or self._variables.has_focus:
            self._frames.focus()
        else:
            super().action_back()

    def action_source(self) -> None:
        self._source.focus()

    def action_locals(self) -> None:
        self._variables.focus()

    def action_whole_output(self) -> None:
        self._port.open_output(self._cell)

    def action_edit(self) -> None:
        """Open a file at the line in the user's editor, the code of a cell in our own."""
        frame = self._frames.frame
        if cell_of(frame) is not None and self._code.text:
            self._port.edit("python", self._code.text.strip("\n"))
            self.dismiss(None)
        elif is_file(frame):
            self.call_later(
                self._edit_file, frame
            )  # within the key's own event the screen would not be drawn again
        else:
            self.viewer.fail(self._source.problem or "There is nothing to edit.")

    def _edit_file(self, frame: TracebackFrame) -> None:
        try:
            open_in_editor(cast("TerminalApp[Any]", self.app), frame.file, frame.line)
        except RuntimeError as error:
            self.viewer.fail(str(error))
        else:
            self._read()
