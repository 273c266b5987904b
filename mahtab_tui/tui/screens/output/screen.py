"""What the screens of a cell's output have in common: a heading, a view, a line below it, saving to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Footer, Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.looking import Look, Opened, ViewKind
from mahtab_tui.tui.commands import OUTPUT_COMMANDS, bindings
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.inspector.fetcher import Answered, Fetcher
from mahtab_tui.tui.screens.inspector.view import LineWanted, Place, Said, View
from mahtab_tui.tui.screens.prompt import Prompt
from mahtab_tui.tui.widgets.line import Line


def no_place(look: Look, kind: ViewKind) -> Place:
    """For a view of something that is no object in the kernel: it asks the kernel nothing."""
    return Place(look, (), Opened("", "", "data", (kind,), "", 0, 0, 0))


class OutputScreen(Dialog[None]):
    """Closes by Escape; `s` saves what is seen."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(OUTPUT_COMMANDS)]

    def __init__(self, title: str, folder: Path) -> None:
        """`folder`: where a file is saved whose name has none."""
        super().__init__()
        self._title = title
        self._folder = folder
        self._fetcher = Fetcher(self)
        self._line_then: Callable[[str], None] = lambda text: None

    def compose(self) -> ComposeResult:
        yield Static(Content(plain(self._title)), id="output-title", markup=False)
        yield Vertical(id="output-body")
        yield Static(id="output-status", markup=False)
        yield Line(id="output-line", compact=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(Line).display = False

    def on_answered(self, message: Answered) -> None:
        message.deliver()

    @property
    def view(self) -> View | None:
        """What is seen; None as long as nothing has come."""
        return next(iter(self.query_one("#output-body").query(View)), None)

    def content(self) -> bytes | None:
        """What is saved; None as long as nothing has come."""
        raise NotImplementedError

    @property
    def file_name(self) -> str:
        """What is proposed as the file's name."""
        raise NotImplementedError

    def say(self, content: Content) -> None:
        """Show a sentence in the line below."""
        self.query_one("#output-status", Static).update(content)

    def fail(self, sentence: str) -> None:
        """Say what went wrong."""
        self.say(Content.styled(plain(sentence), "$bad"))

    @on(Said)
    def _said(self, message: Said) -> None:
        self.say(message.content)

    # The line that a view asks for

    @on(LineWanted)
    def _line_wanted(self, message: LineWanted) -> None:
        line = self.query_one(Line)
        self._line_then = message.then
        line.placeholder, line.value, line.display = message.placeholder, message.value, True
        line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_line()
        self._line_then(event.value)

    def _close_line(self) -> None:
        self.query_one(Line).display = False
        if self.view is not None:
            self.view.take_focus()

    # What the person does

    def action_back(self) -> None:
        """Close the line; else leave."""
        if self.query_one(Line).display:
            self._close_line()
        else:
            self.dismiss(None)

    def action_save(self) -> None:
        content = self.content()
        if content is None:
            return

        def chosen(name: str | None) -> None:
            if name:
                path = self._folder / Path(name).expanduser()
                self._fetcher.ask("save", lambda: saved(path, content), lambda path: self.say(Content(plain(f"Saved to {path}"))), self.fail)

        self.app.push_screen(Prompt("Save to the file", self.file_name), chosen)


def saved(path: Path, content: bytes) -> Path:
    """Write a new file. Raises `KernelError` with a sentence where that cannot be; one that is there already stays as it is."""
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise KernelError(f"There is a file {path} already; it was left as it is.") from None
    except OSError as error:
        raise KernelError(f"{path} cannot be written: {error.strerror}.") from None
    return path
