"""Screens of a cell's output: text, pictures, and the frames of an error."""

from __future__ import annotations

import base64
import io
import os
import stat
import tokenize
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.terminal_screen import SGR, collapse
from mahtab_tui.bus.values import TracebackFrame
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import (
    InspectedObject,
    InspectorClient,
    ObjectPath,
    ViewKind,
)
from mahtab_tui.tui.commands.declarations import (
    FRAMES_COMMANDS,
    OUTPUT_COMMANDS,
    PAGER_COMMANDS,
    PICTURES_COMMANDS,
    SAVE_COMMANDS,
    bindings,
)
from mahtab_tui.tui.dialog import Dialog
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.inspector import Subject, Viewer
from mahtab_tui.tui.inspector.array import PictureView
from mahtab_tui.tui.inspector.text import TextView
from mahtab_tui.tui.inspector.tree import TreeView
from mahtab_tui.tui.rows.text_window import LocalText
from mahtab_tui.tui.screens.dialog import Prompt, ask
from mahtab_tui.tui.widgets.bars import KeyLine
from mahtab_tui.tui.widgets.options import Options
from mahtab_tui.tui.workers import Fetcher
from mahtab_tui.worker.cells.tracebacks import CELL

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.session.notebooks import Notebook

MAX_SOURCE_BYTES = 10_000_000
"""Read of a frame's file."""
MAX_FRAME_ROWS = 8
"""Of the list of frames, which scrolls."""


def make_local_subject(client: InspectorClient, kind: ViewKind) -> Subject:
    """Return a subject for a view of something that is not an object of the kernel."""
    return Subject(client, (), InspectedObject((), "", "", "data", (kind,), "", 0, 0, 0))


class OutputScreen(Dialog[None]):
    """A title, a view and the line of keys."""

    # Otherwise the hidden input line would get the focus and the first keys.
    AUTO_FOCUS = ""
    BINDINGS = bindings(OUTPUT_COMMANDS)

    def __init__(self, client: InspectorClient) -> None:
        super().__init__()
        self.viewer = Viewer(id="output-body")
        self.fetcher = Fetcher(self)
        self.client = client

    def compose(self) -> ComposeResult:
        yield Static(id="output-title", markup=False)
        yield self.viewer
        yield KeyLine()

    def set_title(self, title: str) -> None:
        self.query_one("#output-title", Static).update(title)

    def action_back(self) -> None:
        if not self.viewer.close_line():
            self.dismiss(None)


class SavingScreen(OutputScreen):
    """A screen whose content can be saved to a file."""

    BINDINGS = bindings(SAVE_COMMANDS)

    def __init__(self, client: InspectorClient, folder: Path) -> None:
        super().__init__(client)
        self._folder = folder

    def save(self, name: str, content: bytes) -> None:
        def save_to(typed_path: str) -> None:
            path = self._folder / os.path.expanduser(typed_path)
            write = partial(write_new_file, path, content)
            self.fetcher.ask("save", write, report, self.viewer.fail)

        def report(path: Path) -> None:
            self.viewer.show_status(Content(plain(f"Saved to {path}")))

        ask(self.app, Prompt("Save to the file", name), save_to)


def write_new_file(path: Path, content: bytes) -> Path:
    """Write a file, and return its path. Raises `KernelError` with a sentence if it exists or
    cannot be written."""
    is_created = False
    try:
        with path.open("xb") as file:
            is_created = True
            file.write(content)
    except FileExistsError:
        raise KernelError(f"{path} exists already and was not changed.") from None
    except (OSError, ValueError) as error:
        if is_created:
            path.unlink()
        reason = getattr(error, "strerror", error)
        raise KernelError(f"{path} cannot be written: {reason}.") from None
    return path


class FrameCode(NamedTuple):
    """The source of a frame."""

    text: str
    line: range | None
    """The characters of the frame's line; None if the source has no such line."""


def frame_cell(frame: TracebackFrame) -> int | None:
    """Return the number of the cell that a frame is in; None if it is in a file."""
    number = frame.file.removeprefix(CELL).removesuffix("]")
    is_number = number.isascii() and number.isdecimal() and len(number) < 10
    if not is_number or frame.file != f"{CELL}{number}]":
        return None
    return int(number)


def read_code(frame: TracebackFrame, codes: Mapping[int, str]) -> FrameCode:
    """Read a frame's source; waits. codes: the code of each cell, by its number. Raises
    `KernelError` with a sentence."""
    cell = frame_cell(frame)
    text = _read_source(frame.file) if cell is None else codes.get(cell)
    if text is None:
        raise KernelError(f"The code of cell {cell} was not kept.")
    text = text.replace("\r\n", "\n").replace("\r", "\n")

    line_start = 0
    for _ in range(frame.line - 1):
        line_start = text.find("\n", line_start) + 1
        if not line_start:
            return FrameCode(text, None)
    line_end = text.find("\n", line_start)
    if line_end < 0:
        line_end = len(text)
    return FrameCode(text, range(line_start, line_end) if frame.line > 0 else None)


def _read_source(path: str) -> str:
    if not os.path.isabs(path):
        raise KernelError("This frame is in no file, and its source was not kept.")
    try:
        # Non-blocking, because reading a pipe or device may never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KernelError("This is not a regular file.")
            data = file.read(MAX_SOURCE_BYTES)
    except OSError as error:
        raise KernelError(f"The file cannot be read: {error.strerror}.") from None
    except ValueError:
        raise KernelError("No file can have this name.") from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
    return data.decode(encoding, "replace")


def _frame_row(frame: TracebackFrame) -> Content:
    function = f"in {one_line(frame.function)}" if frame.function else "does not compile"
    location = (f"  {one_line(frame.file)}", "$muted")
    return Content.assemble(f"line {frame.line or '?'} {function}", location)


def variables_path(cell: int, frames: Sequence[TracebackFrame], index: int) -> ObjectPath:
    """Return the path to a frame's variables, by file, line, and index among the frames there."""
    keys = [(frame.file, frame.line, frame.function) for frame in frames]
    key = keys[index]
    # A recursive function has several frames at the same line.
    same_indices = [number for number, frame_key in enumerate(keys) if frame_key == key]
    return (["frame", cell, *key, same_indices.index(index), len(same_indices)],)


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
            index: Of the frame that is chosen at first.
            codes: The code of each cell, by its number.
            client: An inspector of the kernel, which views need.
        """
        super().__init__(client)
        self._cell = cell
        self._codes = codes
        self._exception = exception
        self._all_frames = frames
        self._frames = Options(*map(_frame_row, frames), id="frames", compact=True, markup=False)
        self._frames.highlighted = index
        self._frames.styles.height = min(MAX_FRAME_ROWS, len(frames))
        self._variables = TreeView(self._variables_subject(), variables=True)
        self._variables.add_class("frame-variables")
        self._source = TextView(make_local_subject(client, "source"), LocalText(""))
        self.viewer.view = self._source

    @property
    def _index(self) -> int:
        return self._frames.highlighted or 0

    def _variables_subject(self) -> Subject:
        path = variables_path(self._cell, self._all_frames, self._index)
        opened = InspectedObject(path, "dict", "", "data", ("tree",), "", 0, 0, 0)
        return Subject(self.client, path, opened)

    def on_mount(self) -> None:
        self.call_later(self._mount_views)

    async def _mount_views(self) -> None:
        exception = Static(Content(plain(self._exception)), classes="exception", markup=False)
        await self.viewer.body.mount(exception, self._frames, self._source, self._variables)
        self._frames.focus()

    @on(OptionList.OptionHighlighted)
    def _read(self) -> None:
        frame = self._all_frames[self._index]
        location = f"line {frame.line or '?'} of {one_line(frame.file)}"
        self.set_title(f"Error of cell {self._cell}  ·  {location}")
        self._variables.show(self._variables_subject())
        fail = partial(self._show, FrameCode("", None))
        self.fetcher.ask("code", partial(read_code, frame, self._codes), self._show, fail)

    def _show(self, code: FrameCode, problem: str = "") -> None:
        line_number = self._all_frames[self._index].line
        marked_span = range(0)
        if code.line is not None:
            # An empty line is marked, too.
            end = max(code.line.stop, code.line.start + 1)
            marked_span = range(code.line.start, end)
        elif line_number:
            problem = problem or f"The source has changed: it has no line {line_number:,} now."
        self._source.show(LocalText(code.text), "python", problem, marked_span)
        self._source.go_to(marked_span.start)

    def action_back(self) -> None:
        if self._source.has_focus or self._variables.has_focus:
            self._frames.focus()
        else:
            super().action_back()

    @on(OptionList.OptionSelected)
    def action_source(self) -> None:
        self._source.focus()

    def action_locals(self) -> None:
        self._variables.focus()


class PagerScreen(SavingScreen):
    """Shows all of a text; a subclass reads it."""

    BINDINGS = bindings(PAGER_COMMANDS)

    def __init__(self, title: str, file: str, client: InspectorClient, folder: Path) -> None:
        """
        Args:
            title: Of the screen.
            file: The suggested name for saving.
            client: An inspector of the kernel, which views need.
            folder: Where to save.
        """
        super().__init__(client, folder)
        self._title_text = title
        self._file = file
        self._output: LocalText | None = None

    def read_text(self) -> str | None:
        """Return the text; None if it was not kept. Called on a thread; may raise `StoreError`."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.set_title(self._title_text)
        self.viewer.show_status(Content.styled("…", "$muted"))
        self.fetcher.ask("output", self._read_output, self._show, self.viewer.fail)

    def _read_output(self) -> tuple[LocalText, int]:
        """Return the text and the number of its lines."""
        text = self.read_text()
        if text is None:
            raise KernelError("This output was not kept.")
        output = LocalText(plain(collapse(SGR.sub("", text))))
        return output, output.line_number(max(0, output.size - 1))

    def _show(self, text_and_line_count: tuple[LocalText, int]) -> None:
        self._output, line_count = text_and_line_count
        self.set_title(f"{self._title_text}  ·  {line_count:,} lines")
        view = TextView(make_local_subject(self.client, "text"), self._output)
        self.call_later(self.viewer.show, view)

    def action_save(self) -> None:
        if self._output is not None:
            self.save(self._file, self._output.text.encode("utf-8", "replace"))

    def action_copy_all(self) -> None:
        if self._output is not None:
            copy(self.app, self._output.text)


class TextScreen(PagerScreen):
    """A text of the transcript that is too long for it."""

    def __init__(
        self, title: str, file: str, text: str, client: InspectorClient, folder: Path
    ) -> None:
        super().__init__(title, file, client, folder)
        self._text = text

    def read_text(self) -> str:
        return self._text


class CellOutputScreen(PagerScreen):
    """The whole output of a cell."""

    def __init__(self, cell: int, session: Session, client: InspectorClient, folder: Path) -> None:
        super().__init__(f"Output of cell {cell}", f"cell-{cell}.txt", client, folder)
        self._cell = cell
        self._session = session

    def read_text(self) -> str | None:
        return self._session.output(self._cell)


class StoredOutputScreen(PagerScreen):
    """The output that a notebook's file has for a cell that has not run."""

    def __init__(
        self, cell_number: int, notebook: Notebook, client: InspectorClient, folder: Path
    ) -> None:
        """cell_number: counts the cells of the notebook, from 1."""
        title = f"Stored output of cell {cell_number} of the notebook"
        super().__init__(title, f"notebook-cell-{cell_number}.txt", client, folder)
        self._cell_number = cell_number
        self._notebook = notebook

    def read_text(self) -> str | None:
        return self._notebook.stored_output(self._cell_number)


class PicturesScreen(SavingScreen):
    """The pictures of a cell, one at a time, the last one first."""

    BINDINGS = bindings(PICTURES_COMMANDS)

    def __init__(
        self, cell: int, pictures: Sequence[tuple[str, str]], client: InspectorClient, folder: Path
    ) -> None:
        super().__init__(client, folder)
        self._cell = cell
        self._pictures = pictures
        self._index = len(pictures) - 1

    def on_mount(self) -> None:
        self.call_later(self._show)

    async def _show(self) -> None:
        count = len(self._pictures)
        number = f"  ·  {self._index + 1:,} of {count:,}" if count > 1 else ""
        self.set_title(f"Picture of cell {self._cell}{number}")
        _, data = self._pictures[self._index]
        subject = make_local_subject(self.client, "picture")
        await self.viewer.show(PictureView(subject, partial(base64.b64decode, data)))

    def action_save(self) -> None:
        mime, data = self._pictures[self._index]
        suffix = "jpg" if mime == "image/jpeg" else "png"
        number = f"-{self._index + 1}" if len(self._pictures) > 1 else ""
        self.save(f"cell-{self._cell}{number}.{suffix}", base64.b64decode(data))

    async def action_step(self, step: int) -> None:
        if 0 <= self._index + step < len(self._pictures):
            self._index += step
            await self._show()
