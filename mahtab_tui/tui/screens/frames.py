"""The frames of a cell's error, with the source and the variables of each."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from textual import on
from textual.content import Content
from textual.widgets import OptionList, Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.values import TracebackFrame
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath
from mahtab_tui.tui.commands.declarations import FRAMES_COMMANDS, bindings
from mahtab_tui.tui.inspector import Subject
from mahtab_tui.tui.inspector.text import TextView
from mahtab_tui.tui.inspector.tree import TreeView
from mahtab_tui.tui.rows.text_source import LocalText
from mahtab_tui.tui.screens.output import (
    OutputScreen,
    make_inspected_object,
    make_local_subject,
)
from mahtab_tui.tui.widgets.options import Options
from mahtab_tui.worker.cells.tracebacks import CELL

MAX_SOURCE_BYTES = 10_000_000
"""At most this much of a frame's file is read."""
MAX_CELL_DIGITS = 9
"""A longer number in a file's name is not that of a cell."""
MAX_FRAME_ROWS = 8
"""The list of frames shows at most this many rows; it scrolls."""


class FrameCode(NamedTuple):
    """The source of a frame."""

    text: str
    line: range | None
    """The characters of the frame's line; None if the source has no such line."""


def frame_cell(frame: TracebackFrame) -> int | None:
    """Return the number of the cell that a frame is in; None if it is in a file."""
    digits = frame.file.removeprefix(CELL).removesuffix("]")
    # A file may have a similar name.
    if frame.file != f"{CELL}{digits}]":
        return None
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MAX_CELL_DIGITS
    return int(digits) if is_number else None


def read_code(frame: TracebackFrame, codes: Mapping[int, str]) -> FrameCode:
    """Read a frame's source. Waits for the disk.

    Args:
        frame: The frame.
        codes: The code of each cell, by its number.

    Raises:
        KernelError: It cannot be read; the message is a sentence.
    """
    cell = frame_cell(frame)
    if cell is None:
        text = _read_file(frame.file)
    elif cell in codes:
        text = codes[cell]
    else:
        raise KernelError(f"The code of cell {cell} was not kept.")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return FrameCode(text, _find_line(text, frame.line))


def _find_line(text: str, number: int) -> range | None:
    """Return the characters of a line, without its line break; None if there is no such line.

    Args:
        number: From 1.
    """
    if number < 1:
        return None
    start = 0
    for _ in range(number - 1):
        line_break = text.find("\n", start)
        if line_break < 0:
            return None
        start = line_break + 1
    end = text.find("\n", start)
    if end < 0:
        end = len(text)
    return range(start, end)


def _read_file(path: str) -> str:
    """Return the source in a file. Raises `KernelError` with a sentence."""
    data = _read_bytes(path)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
    return data.decode(encoding, "replace")


def _read_bytes(path: str) -> bytes:
    """Return the beginning of a regular file. Raises `KernelError` with a sentence."""
    if not os.path.isabs(path):
        raise KernelError("This frame is in no file, and its source was not kept.")
    try:
        # Non-blocking, because reading a pipe or device may never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KernelError("This is not a regular file.")
            return file.read(MAX_SOURCE_BYTES)
    except OSError as error:
        raise KernelError(f"The file cannot be read: {error.strerror}.") from None
    except ValueError:
        raise KernelError("No file can have this name.") from None


def _frame_row(frame: TracebackFrame) -> Content:
    """Draw ``line 12 in load  app.py``."""
    if frame.function:
        function = f"in {one_line(frame.function)}"
    else:
        function = "does not compile"
    file = one_line(frame.file)
    return Content.assemble(f"line {frame.line or '?'} {function}", (f"  {file}", "$muted"))


def variables_path(cell: int, frames: Sequence[TracebackFrame], index: int) -> ObjectPath:
    """Return the path to the variables of a frame, as the kernel's `FramePlace` reads it.

    Args:
        cell: The number of the cell that failed.
        frames: The frames of its error, the outermost first.
        index: Which of these frames.
    """
    places = [(frame.file, frame.line, frame.function) for frame in frames]
    place = places[index]
    # A recursive function has several frames at the same line, so its place alone does not say which.
    position = places[:index].count(place)
    frame_count = places.count(place)
    return (["frame", cell, *place, position, frame_count],)


class FramesScreen(OutputScreen):
    """The frames of an error, with the source and the variables of the chosen one."""

    BINDINGS = bindings(FRAMES_COMMANDS)

    def __init__(
        self,
        cell: int,
        exception: str,
        frames: Sequence[TracebackFrame],
        index: int,
        codes: Mapping[int, str],
        client: InspectorClient,
    ) -> None:
        """
        Args:
            cell: The number of the cell that failed.
            exception: The message of its error.
            frames: The frames, the outermost first.
            index: The index of the frame that is chosen at first.
            codes: The code of each cell, by its number.
            client: An inspector of the kernel, which views need.
        """
        super().__init__(client)
        self._cell = cell
        self._codes = codes
        self._exception = exception
        self._frames = frames
        rows = [_frame_row(frame) for frame in frames]
        self._frame_list = Options(*rows, id="frames", compact=True, markup=False)
        self._frame_list.highlighted = index
        self._frame_list.styles.height = min(MAX_FRAME_ROWS, len(frames))
        self._variables = TreeView(self._variables_subject(), variables=True)
        self._variables.add_class("frame-variables")
        self._source = TextView(make_local_subject(client, "source"), LocalText(""))
        self.viewer.view = self._source

    @property
    def _index(self) -> int:
        """The index of the chosen frame."""
        return self._frame_list.highlighted or 0

    def _variables_subject(self) -> Subject:
        path = variables_path(self._cell, self._frames, self._index)
        return Subject(self.client, path, make_inspected_object("tree", path, type="dict"))

    def on_mount(self) -> None:
        self.call_later(self._mount_views)

    async def _mount_views(self) -> None:
        exception = Static(Content(plain(self._exception)), classes="exception", markup=False)
        await self.viewer.body.mount(exception, self._frame_list, self._source, self._variables)
        self._frame_list.focus()

    @on(OptionList.OptionHighlighted)
    def _show_frame(self) -> None:
        frame = self._frames[self._index]
        location = f"line {frame.line or '?'} of {one_line(frame.file)}"
        self.set_title(f"Error of cell {self._cell}  ·  {location}")
        self._variables.show(self._variables_subject())
        show_problem = partial(self._show_code, FrameCode("", None))
        read = partial(read_code, frame, self._codes)
        self.fetcher.run("code", read, self._show_code, show_problem)

    def _show_code(self, code: FrameCode, problem: str = "") -> None:
        """Show the source of the chosen frame, with its line marked.

        Args:
            code: The source.
            problem: Why there is none, as a sentence; empty if there is one.
        """
        line_number = self._frames[self._index].line
        marked_span = range(0)
        if code.line is not None:
            # At least one character, so that an empty line is marked, too.
            end = max(code.line.stop, code.line.start + 1)
            marked_span = range(code.line.start, end)
        elif line_number:
            problem = problem or f"The source has changed: it has no line {line_number:,} now."
        self._source.show(LocalText(code.text), "python", problem, marked_span)
        self._source.go_to(marked_span.start)

    def action_back(self) -> None:
        """Go back to the list of frames; from there, close the screen."""
        if self._source.has_focus or self._variables.has_focus:
            self._frame_list.focus()
        else:
            super().action_back()

    @on(OptionList.OptionSelected)
    def action_source(self) -> None:
        self._source.focus()

    def action_locals(self) -> None:
        self._variables.focus()
