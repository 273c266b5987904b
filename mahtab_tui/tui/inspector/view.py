"""Base classes of the views of an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.inspector_client import InspectedObject, InspectorClient, ObjectPath
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.textual_fixes import ignores_removed
from mahtab_tui.tui.theme import Palette, get_palette
from mahtab_tui.tui.workers import Fetcher


@dataclass
class Subject:
    """The object that views show; all views of an object share one."""

    client: InspectorClient
    path: ObjectPath
    opened: InspectedObject
    slice: tuple[int | None, ...] | None = None
    """The shown slice of an array: an index for each dimension, None for a whole dimension."""


class Excerpt(NamedTuple):
    """The part of an object that a view shows, such as the rows that pass a filter."""

    opened: InspectedObject
    """Its `expression` is code for this part."""
    description: str = ""
    """For example "40 of 100 rows"; empty if the view shows the whole object."""


@ignores_removed
class View(Widget):
    """Shows an object of the kernel in one way. It fetches what is visible and caches little
    more."""

    @dataclass
    class ObjectOpened(Message):
        """The user opened an object inside the shown one."""

        path: ObjectPath
        label: str
        view: View

    @dataclass
    class StatusChanged(Message):
        """The status line must change: a new position, or an error."""

        content: Content
        view: View

    @dataclass
    class LineRequested(Message):
        """The view needs a line of text from the user."""

        placeholder: str
        value: str
        then: Callable[[str], object]
        prompt: str
        """Label of the input line."""

    @dataclass
    class CellRequested(Message):
        """The view asks to run a cell for the user."""

        code: str
        description: str
        """A sentence that says what the cell does."""

    @dataclass
    class QuestionAsked(Message):
        """The user asked a question about the shown text."""

        question: str

    def __init__(self, subject: Subject, **options: Any) -> None:
        """options: passed to the widget class that draws the view."""
        super().__init__(**options)
        self.subject = subject
        self.fetcher = Fetcher(self)

    @property
    def palette(self) -> Palette:
        return get_palette(self.app)

    @property
    def excerpt(self) -> Excerpt:
        """Return the visible content, for export."""
        return Excerpt(self.subject.opened)

    def reload(self) -> None:
        """Fetch the shown content again."""
        raise NotImplementedError

    def take_focus(self) -> None:
        """Focus the widget that handles the view's keys."""
        self.focus()

    def ask(
        self, placeholder: str, value: str, then: Callable[[str], None], prompt: str = ""
    ) -> None:
        """Ask the user for a line, and call `then` with it. value: the initial text. prompt: its
        label."""
        # Posted as a message of this view, because one sent by another widget would not bubble
        # beyond that widget.
        self.post_message(
            self.LineRequested(placeholder, value, lambda line: self.call_later(then, line), prompt)
        )

    def show_status(self, *parts: tuple[str, str] | str) -> None:
        """Show a text in the status line."""
        self.post_message(self.StatusChanged(Content.assemble(*parts), self))

    def fail(self, sentence: str) -> None:
        """Show an error in the status line."""
        self.show_status((sentence, "$bad"))


class Viewer(Vertical):
    """A body with views, and a status line that becomes an input line while the user is asked for
    text."""

    def __init__(self, *, id: str) -> None:
        """id: the body's id."""
        super().__init__()
        self.body = Vertical(id=id)
        self.view: View | None = None
        """The view that uses the status line and gets the focus; None before the first one."""
        self._status = Static(id="viewing-status", markup=False)
        self._line = LineInput(id="viewing-line", compact=True)
        self._prompt = Static(id="viewing-prompt", markup=False)
        self._line.display = self._prompt.display = False
        self._entered: Callable[[str], object] | None = None
        """Called with the submitted line."""

    def compose(self) -> ComposeResult:
        yield self.body
        yield self._status
        with Horizontal(id="viewing-input"):
            yield self._prompt
            yield self._line

    async def show(self, view: View) -> None:
        """Replace the content of the body by a view."""
        self.view = view
        await self.body.remove_children()
        await self.body.mount(view)
        view.take_focus()

    def shows(self, view: View) -> bool:
        """Return whether a view is on the screen, alone or as part of another."""
        return self.view is not None and self.view in view.ancestors_with_self

    def show_status(self, content: Content) -> None:
        self._status.update(content)

    def fail(self, sentence: str) -> None:
        self.show_status(Content.styled(plain(sentence), "$bad"))

    @on(View.StatusChanged)
    def _status_changed(self, message: View.StatusChanged) -> None:
        if self.shows(message.view):
            self.show_status(message.content)

    # The input line

    @on(View.LineRequested)
    def _line_requested(self, message: View.LineRequested) -> None:
        self.ask(message.placeholder, message.value, message.then, message.prompt)

    def ask(
        self, placeholder: str, value: str, then: Callable[[str], object], prompt: str = ""
    ) -> None:
        """Show the input line. prompt: its label."""
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
