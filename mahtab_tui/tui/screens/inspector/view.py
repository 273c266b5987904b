"""Common base of the views of an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from mahtab_tui.kernel.inspector_client import InspectedObject, InspectorClient, ObjectPath
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.rows.palette import Palette, palette_of
from mahtab_tui.tui.textual_fixes.removable import removable


@dataclass
class Subject:
    """The object that a view shows. All views of an object share one."""

    look: InspectorClient
    path: ObjectPath
    opened: InspectedObject
    slice: tuple[int | None, ...] | None = None
    """The slice of an array that is shown: an index for each dimension, None for a whole one."""


class Excerpt(NamedTuple):
    """The part of an object that a view shows, such as the rows that pass a filter."""

    opened: InspectedObject
    """Its `expression` is the code of the part."""
    description: str = ""
    """As in "40 of 100 rows"; empty if the view shows all of the object."""


@removable
class View(Widget):
    """Shows an object of the kernel in one way. It fetches what is on the screen, and keeps little
    more."""

    @dataclass
    class ObjectOpened(Message):
        """The user opens an object inside the one that is shown."""

        path: ObjectPath
        label: str
        view: View

    @dataclass
    class StatusChanged(Message):
        """The status line has to show something else: the position, or an error."""

        content: Content
        view: View

    @dataclass
    class LineRequested(Message):
        """The view asks the user for a line of text."""

        placeholder: str
        value: str
        then: Callable[[str], object]
        prompt: str
        """Label before the line."""

    @dataclass
    class CellRequested(Message):
        """The view wants to run a cell for the user."""

        code: str
        description: str
        """A sentence that tells the user what the cell does."""

    @dataclass
    class QuestionAsked(Message):
        """The user asks a question about the text that is shown."""

        question: str

    def __init__(self, subject: Subject, **options: Any) -> None:
        """options: for the widget class that draws the view."""
        super().__init__(**options)
        self.subject = subject
        self.fetcher = Fetcher(self)

    @property
    def palette(self) -> Palette:
        return palette_of(self.app)

    @property
    def excerpt(self) -> Excerpt:
        """Return the visible content, for exporting it."""
        return Excerpt(self.subject.opened)

    def reload(self) -> None:
        """Fetch again what is shown."""
        raise NotImplementedError

    def take_focus(self) -> None:
        """Focus the widget that has the view's keys."""
        self.focus()

    def ask(
        self, placeholder: str, value: str, then: Callable[[str], None], prompt: str = ""
    ) -> None:
        """Ask the user for a line, and call `then` with it. value: the suggestion. prompt: what it
        is for."""
        # In a message of this view's own: what another widget sent from here would not bubble past
        # that widget.
        self.post_message(
            self.LineRequested(placeholder, value, lambda line: self.call_later(then, line), prompt)
        )

    def say(self, *parts: tuple[str, str] | str) -> None:
        """Show a text in the status line."""
        self.post_message(self.StatusChanged(Content.assemble(*parts), self))

    def fail(self, sentence: str) -> None:
        """Show an error in the status line."""
        self.say((sentence, "$bad"))
