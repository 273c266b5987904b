"""Screens of a cell's output: text, pictures, and the frames of an error."""

from __future__ import annotations

import base64
import io
import os
import re
import stat
import tokenize
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.kernel.base import KernelError, TracebackFrame
from mahtab_tui.kernel.inspector_client import (
    InspectedObject,
    InspectorClient,
    ObjectPath,
    ViewKind,
)
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.panes import (
    FRAMES_COMMANDS,
    OUTPUT_COMMANDS,
    PAGER_COMMANDS,
    PICTURES_COMMANDS,
    SAVE_COMMANDS,
)
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.inspector import Subject, Viewer
from mahtab_tui.tui.inspector.array import PictureView
from mahtab_tui.tui.inspector.text import TextView
from mahtab_tui.tui.inspector.tree import TreeView
from mahtab_tui.tui.rows.text_window import LocalText
from mahtab_tui.tui.screens.dialog import Dialog, Prompt, ask
from mahtab_tui.tui.textual_fixes import Options
from mahtab_tui.tui.widgets.bars import KeyLine
from mahtab_tui.tui.workers import Fetcher
from mahtab_tui.worker.tracebacks import CELL


def make_local_subject(client: InspectorClient, kind: ViewKind) -> Subject:
    return Subject(client, (), InspectedObject((), "", "", "data", (kind,), "", 0, 0, 0))


class OutputScreen(Dialog[None]):
    AUTO_FOCUS = ""  # else the hidden input line would get the focus and the first keys
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
    BINDINGS = bindings(SAVE_COMMANDS)

    def __init__(self, client: InspectorClient, folder: Path) -> None:
        super().__init__(client)
        self._folder = folder

    def save(self, name: str, content: bytes) -> None:
        def chosen(entered: str) -> None:
            write = partial(write_new_file, self._folder / os.path.expanduser(entered), content)
            self.fetcher.ask("save", write, saved, self.viewer.fail)

        def saved(path: Path) -> None:
            self.viewer.show_status(Content(plain(f"Saved to {path}")))

        ask(self.app, Prompt("Save to the file", name), chosen)


def write_new_file(path: Path, content: bytes) -> Path:
    """Raises `KernelError` with a sentence if it exists or cannot be written."""
    opened = False
    try:
        with path.open("xb") as file:
            opened = True
            file.write(content)
    except FileExistsError:
        raise KernelError(f"{path} exists already and was not changed.") from None
    except (OSError, ValueError) as error:
        if opened:
            path.unlink()
        reason = getattr(error, "strerror", error)
        raise KernelError(f"{path} cannot be written: {reason}.") from None
    return path


MAX_READ = 10_000_000


class Code(NamedTuple):
    text: str
    line: range | None


def frame_cell(frame: TracebackFrame) -> int | None:
    number = frame.file.removeprefix(CELL).removesuffix("]")
    is_number = number.isascii() and number.isdecimal() and len(number) < 10
    return int(number) if is_number and frame.file == f"{CELL}{number}]" else None


def read_code(frame: TracebackFrame, cell: Callable[[int], str | None]) -> Code:
    """Read a frame's source; waits. Raises `KernelError` with a sentence."""
    number = frame_cell(frame)
    text = _read(frame.file) if number is None else cell(number)
    if text is None:
        raise KernelError(f"The code of cell {number} was not kept.")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = 0
    for _ in range(frame.line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return Code(text, None)
    end = text.find("\n", start)
    line = range(start, len(text) if end < 0 else end)
    return Code(text, line if frame.line > 0 else None)


def _read(path: str) -> str:
    if not os.path.isabs(path):
        raise KernelError("This frame is in no file, and its source was not kept.")
    try:
        # Non-blocking, because reading a pipe or device may never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KernelError("This is not a regular file.")
            data = file.read(MAX_READ)
    except OSError as error:
        raise KernelError(f"The file cannot be read: {error.strerror}.") from None
    except ValueError:
        raise KernelError("No file can have this name.") from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
    return data.decode(encoding, "replace")


MAX_LINES = 8


def _frame_row(frame: TracebackFrame) -> Content:
    function = f"in {one_line(frame.function)}" if frame.function else "does not compile"
    location = (f"  {one_line(frame.file)}", "$muted")
    return Content.assemble(f"line {frame.line or '?'} {function}", location)


def variables_path(cell: int, frames: Sequence[TracebackFrame], at: int) -> ObjectPath:
    """Return the path to a frame's variables, by file, line, and index among the frames there."""
    keys = [(frame.file, frame.line, frame.function) for frame in frames]
    same = [number for number, key in enumerate(keys) if key == keys[at]]
    return (["frame", cell, *keys[at], same.index(at), len(same)],)


class FramesScreen(OutputScreen):
    BINDINGS = bindings(FRAMES_COMMANDS)

    def __init__(
        self,
        cell: int,
        exception: str,
        frames: Sequence[TracebackFrame],
        at: int,
        code: Callable[[int], str | None],
        client: InspectorClient,
    ) -> None:
        super().__init__(client)
        self._cell = cell
        self._code_of = code
        self._exception = exception
        self._all_frames = frames
        self._frames = Options(*map(_frame_row, frames), id="frames", compact=True, markup=False)
        self._frames.highlighted = at
        self._frames.styles.height = min(MAX_LINES, len(frames))
        self._variables = TreeView(self._variables_subject(), variables=True)
        self._variables.add_class("frame-variables")
        source = make_local_subject(client, "source")
        self.viewer.view = self._source = TextView(source, LocalText(""))

    @property
    def _index(self) -> int:
        return self._frames.highlighted or 0

    def _variables_subject(self) -> Subject:
        path = variables_path(self._cell, self._all_frames, self._index)
        opened = InspectedObject(path, "dict", "", "data", ("tree",), "", 0, 0, 0)
        return Subject(self.client, path, opened)

    def on_mount(self) -> None:
        self.call_later(self._begin)

    async def _begin(self) -> None:
        exception = Static(Content(plain(self._exception)), classes="exception", markup=False)
        await self.viewer.body.mount(exception, self._frames, self._source, self._variables)
        self._frames.focus()

    @on(OptionList.OptionHighlighted)
    def _read(self) -> None:
        frame = self._all_frames[self._index]
        location = f"line {frame.line or '?'} of {one_line(frame.file)}"
        self.set_title(f"Error of cell {self._cell}  ·  {location}")
        self._variables.show(self._variables_subject())
        fail = partial(self._show, Code("", None))
        self.fetcher.ask("code", partial(read_code, frame, self._code_of), self._show, fail)

    def _show(self, code: Code, problem: str = "") -> None:
        line, marked = self._all_frames[self._index].line, range(0)
        if code.line is not None:
            marked = range(code.line.start, max(code.line.stop, code.line.start + 1))
        elif line:
            problem = problem or f"The source has changed: it has no line {line:,} now."
        self._source.show(LocalText(code.text), "python", problem, marked)
        self._source.go_to(marked.start)

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


_SGR = re.compile(r"\x1b\[[0-9;:]*m")


class PagerScreen(SavingScreen):
    BINDINGS = bindings(PAGER_COMMANDS)

    def __init__(
        self,
        title: str,
        file: str,
        read: Callable[[], str | None],
        client: InspectorClient,
        folder: Path,
    ) -> None:
        """read: called on a thread, may raise `StoreError`. file: the suggested name. folder: where
        to save."""
        super().__init__(client, folder)
        self._title_text = title
        self._file = file
        self._read = read
        self._output: LocalText | None = None

    def on_mount(self) -> None:
        self.set_title(self._title_text)
        self.viewer.show_status(Content.styled("…", "$muted"))
        self.fetcher.ask("output", self._get, self._show, self.viewer.fail)

    def _get(self) -> tuple[LocalText, int]:
        if (text := self._read()) is None:
            raise KernelError("This output was not kept.")
        output = LocalText(plain(collapse(_SGR.sub("", text))))
        return output, output.line_number(max(0, output.size - 1))

    def _show(self, found: tuple[LocalText, int]) -> None:
        self._output, lines = found
        self.set_title(f"{self._title_text}  ·  {lines:,} lines")
        view = TextView(make_local_subject(self.client, "text"), self._output)
        self.call_later(self.viewer.show, view)

    def action_save(self) -> None:
        if self._output is not None:
            self.save(self._file, self._output.text.encode("utf-8", "replace"))

    def action_copy_all(self) -> None:
        if self._output is not None:
            copy(self.app, self._output.text)


class PicturesScreen(SavingScreen):
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
        number = f"  ·  {self._index + 1} of {count}" if count > 1 else ""
        self.set_title(f"Picture of cell {self._cell}{number}")
        file = partial(base64.b64decode, self._pictures[self._index][1])
        await self.viewer.show(PictureView(make_local_subject(self.client, "picture"), file))

    def action_save(self) -> None:
        mime, data = self._pictures[self._index]
        suffix = "jpg" if mime == "image/jpeg" else "png"
        number = f"-{self._index + 1}" if len(self._pictures) > 1 else ""
        self.save(f"cell-{self._cell}{number}.{suffix}", base64.b64decode(data))

    async def action_step(self, step: int) -> None:
        if 0 <= self._index + step < len(self._pictures):
            self._index += step
            await self._show()
