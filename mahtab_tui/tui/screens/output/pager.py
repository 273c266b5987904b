"""All of a long output: searched, wrapped or not, copied, saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import Look
from mahtab_tui.tui.clipboard import MOST, copy
from mahtab_tui.tui.commands.output import PAGER_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.output.screen import OutputScreen, no_place
from mahtab_tui.tui.screens.output.whole import WholeOutput, readable


class OutputView(TextView, inherit_bindings=False):
    """A text that has no name in the namespace: nothing can be asked about it by that."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding for binding in TextView.BINDINGS if not (isinstance(binding, Binding) and binding.action == "ask")
    ]


class PagerScreen(OutputScreen):
    """Opens at once; the text is read on a thread."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(PAGER_COMMANDS)]

    def __init__(self, cell: int, read: Callable[[], str | None], look: Look, folder: Path) -> None:
        """`read` gets the output; it is called on a thread, and may raise `StoreError`."""
        super().__init__(f"Output of cell {cell}", folder)
        self._cell = cell
        self._read = read
        self._look = look
        self._output: WholeOutput | None = None

    def on_mount(self) -> None:
        self.say(Content.styled("…", "$muted"))
        self._fetcher.ask("output", self._get, self._came, self.fail)

    def _get(self) -> WholeOutput:
        try:
            text = self._read()
        except StoreError as error:
            raise KernelError(str(error)) from None
        if text is None:
            raise KernelError("This output was not kept: it is no longer to be had.")
        return WholeOutput(readable(text))

    async def _came_later(self, output: WholeOutput) -> None:
        self._output = output
        view = OutputView(no_place(self._look, "text"), output)
        await self.query_one("#output-body").mount(view)
        view.take_focus()

    def _came(self, output: WholeOutput) -> None:
        self.query_one("#output-title", Static).update(Content(f"{self._title}  ·  {output.lines:,} lines"))
        self.call_later(self._came_later, output)

    def content(self) -> bytes | None:
        return None if self._output is None else self._output.text.encode("utf-8", "replace")

    @property
    def file_name(self) -> str:
        return f"cell-{self._cell}.txt"

    def action_copy_all(self) -> None:
        if self._output is None:
            return
        if self._output.size > MOST:
            self.fail(f"{self._output.size:,} characters are too many for the clipboard; Ctrl+S saves them to a file.")
        else:
            copy(self.app, self._output.text)
