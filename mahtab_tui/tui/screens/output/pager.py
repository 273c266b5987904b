"""A screen for all of a long output: search, wrap, copy, save."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import Look
from mahtab_tui.tui.clipboard import MOST, copy
from mahtab_tui.tui.commands.output import OUTPUT_COMMANDS, PAGER_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.inspector.viewer import Viewer
from mahtab_tui.tui.screens.output.saving import no_subject, save
from mahtab_tui.tui.screens.output.whole import WholeOutput, readable
from mahtab_tui.tui.textual_fixes.key_line import KeyLine


class PagerScreen(Dialog[None]):
    """Opens at once; the text is read on a thread."""

    AUTO_FOCUS = ""  # else the hidden input line would get the focus, and the first keys
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(OUTPUT_COMMANDS), *bindings(PAGER_COMMANDS)]

    def __init__(self, title: str, file: str, read: Callable[[], str | None], look: Look, folder: Path) -> None:
        """read: gets the output; called on a thread, may raise `StoreError`. file: its name when it is saved. folder: for a saved file whose name has none."""
        super().__init__()
        self.viewer = Viewer(id="output-body")
        self._fetcher = Fetcher(self)
        self._folder = folder
        self._title_text = title
        self._file = file
        self._read = read
        self._look = look
        self._output: WholeOutput | None = None

    def compose(self) -> ComposeResult:
        yield Static(self._title, id="output-title", markup=False)
        yield self.viewer
        yield KeyLine()

    @property
    def _title(self) -> str:
        lines = "" if self._output is None else f"  ·  {self._output.lines:,} lines"
        return f"{self._title_text}{lines}"

    def on_mount(self) -> None:
        self.viewer.say(Content.styled("…", "$muted"))
        self._fetcher.ask("output", self._get, self._show, self.viewer.fail)

    def _get(self) -> WholeOutput:
        try:
            text = self._read()
        except StoreError as error:
            raise KernelError(str(error)) from None
        if text is None:
            raise KernelError("This output was not kept.")
        return WholeOutput(readable(text))

    def _show(self, output: WholeOutput) -> None:
        self._output = output
        self.query_one("#output-title", Static).update(self._title)
        self.call_later(self.viewer.show, TextView(no_subject(self._look, "text"), output))

    def action_back(self) -> None:
        if not self.viewer.close_line():
            self.dismiss(None)

    def action_save(self) -> None:
        if self._output is not None:
            save(self.viewer, self._fetcher, self._folder, self._file, self._output.text.encode("utf-8", "replace"))

    def action_copy_all(self) -> None:
        if self._output is None:
            return
        if self._output.size > MOST:
            self.viewer.fail(f"{self._output.size:,} characters are too many for the clipboard; Ctrl+S saves them to a file.")
        else:
            copy(self.app, self._output.text)
