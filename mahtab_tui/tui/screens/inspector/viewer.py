"""A view with a status line below it, in which the user also enters what the view asks for."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.screens.inspector.view import View
from mahtab_tui.tui.widgets.line_input import LineInput


class Viewer(Vertical):
    """Has a body with views, a status line, and an input line in its place while the user is asked
    for a line."""

    def __init__(self, *, id: str) -> None:
        """id: of the body."""
        super().__init__()
        self.body = Vertical(id=id)
        self.view: View | None = None
        """The view that writes to the status line and gets the focus; None until one is shown."""
        self._status = Static(id="viewing-status", markup=False)
        self._line = LineInput(id="viewing-line", compact=True)
        self._prompt = Static(id="viewing-prompt", markup=False)
        self._line.display = self._prompt.display = False
        self._entered: Callable[[str], object] | None = None
        """Called with the line that the user enters."""

    def compose(self) -> ComposeResult:
        yield self.body
        yield self._status
        with Horizontal(id="viewing-input"):
            yield self._prompt
            yield self._line

    async def show(self, view: View) -> None:
        """Replace what the body holds by a view."""
        self.view = view
        await self.body.remove_children()
        await self.body.mount(view)
        view.take_focus()

    def shows(self, view: View) -> bool:
        """Whether a view is the one on the screen, or a part of it."""
        return self.view is not None and self.view in view.ancestors_with_self

    def say(self, content: Content) -> None:
        self._status.update(content)

    def fail(self, sentence: str) -> None:
        self.say(Content.styled(plain(sentence), "$bad"))

    @on(View.StatusChanged)
    def _status_changed(self, message: View.StatusChanged) -> None:
        if self.shows(message.view):
            self.say(message.content)

    # The input line

    @on(View.LineRequested)
    def _line_requested(self, message: View.LineRequested) -> None:
        self.ask(message.placeholder, message.value, message.then, message.prompt)

    def ask(
        self, placeholder: str, value: str, then: Callable[[str], object], prompt: str = ""
    ) -> None:
        """Show the input line. prompt: stands before it."""
        self._entered = then
        self._line.placeholder, self._line.value = placeholder, value
        self._prompt.update(Content.styled(f"{one_line(prompt)} ", "$moon"))
        self._line.display, self._prompt.display, self._status.display = True, bool(prompt), False
        self._line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close_line()
        if self._entered is not None:
            self._entered(event.value)

    def close_line(self) -> bool:
        """Close the input line; returns False if it was not open."""
        was_open = self._line.display
        self._line.display, self._prompt.display, self._status.display = False, False, True
        if was_open and self.view is not None and self.view.is_mounted:
            self.view.take_focus()
        return was_open
