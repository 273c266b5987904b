"""A screen over a view: what the view says stands in the line below, and what it wants to know is entered there."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.inspector.view import LineWanted, Said, View
from mahtab_tui.tui.textual_fixes.key_line import KeyLine
from mahtab_tui.tui.widgets.line import Line


class ViewingScreen(Dialog[None]):
    """Opens at once; whatever it shows is fetched on threads."""

    AUTO_FOCUS = ""  # else the hidden line would get it, and the first keys

    def __init__(self) -> None:
        super().__init__()
        self._fetcher = Fetcher(self)
        self._line_then: Callable[[str], None] = lambda text: None

    def below(self) -> ComposeResult:
        """What stands below the view."""
        yield Static(id="viewing-status", markup=False)
        yield Line(id="viewing-line", compact=True)
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(Line).display = False

    @property
    def view(self) -> View | None:
        """The view that is seen; None as long as nothing has come."""
        raise NotImplementedError

    def shows(self, view: View) -> bool:
        """Whether a view is what is seen, or a part of it."""
        return self.view is not None and self.view in view.ancestors_with_self

    def say(self, content: Content) -> None:
        """Show a sentence in the line below."""
        self.query_one("#viewing-status", Static).update(content)

    def fail(self, sentence: str) -> None:
        """Say what went wrong."""
        self.say(Content.styled(plain(sentence), "$bad"))

    @on(Said)
    def _said(self, message: Said) -> None:
        if self.shows(message.view):
            self.say(message.content)

    # The line that is entered

    @on(LineWanted)
    def _line_wanted(self, message: LineWanted) -> None:
        self.ask_for_line(message.placeholder, message.value, message.then)

    def ask_for_line(self, placeholder: str, value: str, then: Callable[[str], None]) -> None:
        """Let the user enter a line."""
        line = self.query_one(Line)
        self._line_then = then
        line.placeholder, line.value = placeholder, value
        self._show_line(True)
        line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_line()
        self._line_then(event.value)

    def _show_line(self, shown: bool) -> None:
        """In the place of the status: what stands above keeps its size."""
        self.query_one(Line).display = shown
        self.query_one("#viewing-status").display = not shown

    def _close_line(self) -> None:
        self._show_line(False)
        if self.view is not None and self.view.is_mounted:
            self.view.take_focus()

    def action_back(self) -> None:
        """Close the line; else go back."""
        if self.query_one(Line).display:
            self._close_line()
        else:
            self.go_back()

    def go_back(self) -> None:
        """Go back to where one came from."""
        self.dismiss(None)
