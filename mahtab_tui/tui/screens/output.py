"""Screens of a cell's output: text and pictures."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.pens import SGR
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import (
    InspectedObject,
    InspectorClient,
    ObjectPath,
    ViewKind,
)
from mahtab_tui.tui.commands.declarations import (
    OUTPUT_COMMANDS,
    PAGER_COMMANDS,
    PICTURES_COMMANDS,
    SAVE_COMMANDS,
    bindings,
)
from mahtab_tui.tui.dialog import Dialog
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.inspector import Subject, Viewer
from mahtab_tui.tui.inspector.picture import PictureView
from mahtab_tui.tui.inspector.text import TextView
from mahtab_tui.tui.rows.text_source import LocalText
from mahtab_tui.tui.screens.dialog import Prompt, ask
from mahtab_tui.tui.widgets.bars import KeyLine
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.session.notebooks import Notebook


def make_inspected_object(
    view: ViewKind, path: ObjectPath = (), *, type: str = ""
) -> InspectedObject:
    """Return the description of an object that has a single view, without asking the kernel.

    Args:
        view: The view.
        path: Where the object is in the kernel; empty if it is not there.
        type: The name of its class.
    """
    return InspectedObject(
        path=path,
        type=type,
        summary="",
        kind="data",
        views=(view,),
        expression="",
        rows=0,
        columns=0,
        size=0,
    )


def make_local_subject(client: InspectorClient, view: ViewKind) -> Subject:
    """Return a subject for a view of something that is not an object of the kernel."""
    return Subject(client, (), make_inspected_object(view))


class OutputScreen(Dialog[None]):
    """The base class of screens with a title, a view and the line of keys."""

    # Otherwise the hidden input line would get the focus and the first keys.
    AUTO_FOCUS = ""
    BINDINGS = bindings(OUTPUT_COMMANDS)

    def __init__(self, client: InspectorClient) -> None:
        """
        Args:
            client: An inspector of the kernel, which views need.
        """
        super().__init__()
        self.viewer = Viewer(id="output-body")
        self.fetcher = Fetcher(self)
        self.client = client

    def compose(self) -> ComposeResult:
        yield Static(id="output-title", markup=False)
        yield self.viewer
        yield KeyLine()

    def set_title(self, title: str) -> None:
        """Show a title above the view."""
        self.query_one("#output-title", Static).update(title)

    def action_back(self) -> None:
        """Close the input line of the view, or else the screen."""
        if not self.viewer.close_line():
            self.dismiss(None)


class SavingScreen(OutputScreen):
    """The base class of screens whose content can be saved to a file."""

    BINDINGS = bindings(SAVE_COMMANDS)

    def __init__(self, client: InspectorClient, folder: Path) -> None:
        """
        Args:
            client: An inspector of the kernel, which views need.
            folder: The folder to which a name without one belongs.
        """
        super().__init__(client)
        self._folder = folder

    def save(self, name: str, content: bytes) -> None:
        """Ask for the name of a new file, and write it.

        Args:
            name: The suggested name.
            content: What to write.
        """

        def save_to(typed_path: str) -> None:
            path = self._folder / os.path.expanduser(typed_path)
            write = partial(write_new_file, path, content)
            self.fetcher.run("save", write, report, self.viewer.fail)

        def report(path: Path) -> None:
            self.viewer.show_status(Content(plain(f"Saved to {path}")))

        ask(self.app, Prompt("Save to the file", name), save_to)


def write_new_file(path: Path, content: bytes) -> Path:
    """Write a file, and return its path.

    Raises `KernelError` with a sentence if it exists or cannot be written.
    """
    is_created = False
    try:
        with path.open("xb") as file:
            is_created = True
            file.write(content)
    except FileExistsError:
        raise KernelError(f"{path} exists already and was not changed.") from None
    # A path with a null character is a `ValueError`.
    except (OSError, ValueError) as error:
        if is_created:
            path.unlink()
        reason = error.strerror if isinstance(error, OSError) else error
        raise KernelError(f"{path} cannot be written: {reason}.") from None
    return path


class CountedText(NamedTuple):
    """A text with the number of its lines."""

    text: LocalText
    line_count: int


class PagerScreen(SavingScreen):
    """The base class of screens that show a whole text. A subclass reads it."""

    BINDINGS = bindings(PAGER_COMMANDS)

    def __init__(self, title: str, file: str, client: InspectorClient, folder: Path) -> None:
        """
        Args:
            title: The screen's title.
            file: The suggested name of the file to save.
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
        self.fetcher.run("output", self._read_output, self._show, self.viewer.fail)

    def _read_output(self) -> CountedText:
        """Return the text as a terminal shows it in the end. Called on a thread.

        Raises `KernelError` and `StoreError`.
        """
        raw_text = self.read_text()
        if raw_text is None:
            raise KernelError("This output was not kept.")
        output = LocalText(plain(collapse(SGR.sub("", raw_text))))
        last_character = max(0, output.size - 1)
        return CountedText(output, line_count=output.line_number(last_character))

    def _show(self, counted: CountedText) -> None:
        output = counted.text
        self._output = output
        self.set_title(f"{self._title_text}  ·  {counted.line_count:,} lines")
        view = TextView(make_local_subject(self.client, "text"), output)
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
        """
        Args:
            cell_number: Counts the cells of the notebook, from 1.
        """
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
        """
        Args:
            cell: The number of the cell.
            pictures: MIME type and Base64 data of each.
            client: An inspector of the kernel, which views need.
            folder: Where to save.
        """
        super().__init__(client, folder)
        self._cell = cell
        self._pictures = pictures
        self._index = len(pictures) - 1
        """The index of the picture on the screen."""

    def on_mount(self) -> None:
        self.call_later(self._show)

    async def _show(self) -> None:
        title = f"Picture of cell {self._cell}"
        picture_count = len(self._pictures)
        if picture_count > 1:
            title += f"  ·  {self._index + 1:,} of {picture_count:,}"
        self.set_title(title)
        _, data = self._pictures[self._index]
        subject = make_local_subject(self.client, "picture")
        await self.viewer.show(PictureView(subject, partial(base64.b64decode, data)))

    def action_save(self) -> None:
        mime, data = self._pictures[self._index]
        name = f"cell-{self._cell}"
        if len(self._pictures) > 1:
            name += f"-{self._index + 1}"
        suffix = ".jpg" if mime == "image/jpeg" else ".png"
        self.save(name + suffix, base64.b64decode(data))

    async def action_step(self, step: int) -> None:
        if 0 <= self._index + step < len(self._pictures):
            self._index += step
            await self._show()
