"""The base class of the inspector's views, and the widget that shows one.

A view (`table_view`, `tree`, `text` …) shows an object in one way. It knows the object and the kernel,
but no screen: it posts messages, and writes to the status line of the `Viewer` that contains it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    """The object that views show, shared by all views of it."""

    client: InspectorClient
    """Asks the kernel. Its methods wait, so they are called on a thread of a `Fetcher`."""
    path: ObjectPath
    """Where the object is in the namespace."""
    opened: InspectedObject
    """What the kernel said of the object when it was opened."""
    slice: tuple[int | None, ...] | None = None
    """An index for each dimension of an array, None for a whole dimension."""


class Excerpt(NamedTuple):
    """The part of an object that a view shows, such as the rows that pass a filter."""

    opened: InspectedObject
    """Its `expression` is code for this part."""
    description: str = ""
    """What part is shown, such as "40 of 100 rows"; empty for the whole object."""


@ignores_removed
class View(Widget):
    """Shows an object of the kernel in one way; fetches what is visible."""

    @dataclass
    class ObjectOpened(Message):
        """The user has opened an object inside this one."""

        path: ObjectPath
        label: str
        """What to call it in the path at the top of the screen."""
        view: View

    @dataclass
    class CellRequested(Message):
        """A cell should run, which does what the user has asked of the view."""

        code: str
        description: str
        """A sentence that tells the user what the cell does."""

    @dataclass
    class QuestionAsked(Message):
        """The user asks the model something about this text."""

        question: str

    def __init__(self, subject: Subject, **options: Any) -> None:
        super().__init__(**options)
        self.subject = subject
        self.fetcher = Fetcher(self)

    @property
    def palette(self) -> Palette:
        return get_palette(self.app)

    @property
    def excerpt(self) -> Excerpt:
        """What the view shows of its object."""
        return Excerpt(self.subject.opened)

    def reload(self) -> None:
        """Fetch the object again, after it may have changed."""
        raise NotImplementedError

    def take_focus(self) -> None:
        """Focus the widget that gets the keys of this view."""
        self.focus()

    def open_line(
        self, placeholder: str, value: str, on_entered: Callable[[str], None], prompt: str = ""
    ) -> None:
        """Let the user type a text in the line below the view.

        Args:
            placeholder: What the line says while it is empty.
            value: The text with which the line begins.
            on_entered: Gets the text, after Enter.
            prompt: The words before the line; empty for none.
        """
        # The view calls the function itself: a message that another widget posts would not bubble
        # beyond that widget.
        call_later = partial(self.call_later, on_entered)
        self.query_ancestor(Viewer).open_line(placeholder, value, call_later, prompt)

    def show_status(self, *parts: tuple[str, str] | str) -> None:
        """Write to the status line, unless another view is shown now.

        Args:
            parts: Texts, or texts with their styles.
        """
        if not self.is_attached:
            return
        viewer = self.query_ancestor(Viewer)
        if viewer.shows(self):
            viewer.show_status(Content.assemble(*parts))

    def fail(self, sentence: str) -> None:
        """Tell the user what went wrong."""
        self.show_status((sentence, "$bad"))


class Viewer(Vertical):
    """A body with views, and a status line that becomes an input line."""

    DEFAULT_CSS = """
    Viewer {
        height: 1fr;

        #viewing-status {
            height: 1;
            padding: 0 1;
            background: $surface;
        }

        #viewing-input {
            height: auto;
        }

        #viewing-prompt {
            width: auto;
            height: 1;
            padding-left: 1;
            background: $panel;
        }

        #viewing-line {
            width: 1fr;
            height: 1;
            background: $panel;
        }

        View {
            height: 1fr;
            background: $background;
        }
    }
    """

    def __init__(self, *, id: str) -> None:
        """
        Args:
            id: The id of the body, for style sheets.
        """
        super().__init__()
        self.body = Vertical(id=id)
        """Contains the views, of which one is visible."""
        self.view: View | None = None
        """The view that is shown; None until there is one."""
        self._status = Static(id="viewing-status", markup=False)
        self._line = LineInput(id="viewing-line", compact=True)
        self._prompt = Static(id="viewing-prompt", markup=False)
        self._line.display = False
        self._prompt.display = False
        self._on_entered: Callable[[str], object] | None = None
        """Gets what the user types."""

    def compose(self) -> ComposeResult:
        yield self.body
        yield self._status
        with Horizontal(id="viewing-input"):
            yield self._prompt
            yield self._line

    async def show(self, view: View) -> None:
        """Show a view in place of the one before."""
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

    def open_line(
        self, placeholder: str, value: str, on_entered: Callable[[str], object], prompt: str = ""
    ) -> None:
        """Turn the status line into a line in which the user types; see `View.open_line`."""
        self._on_entered = on_entered
        self._line.placeholder = placeholder
        self._line.value = value
        self._prompt.update(Content.styled(f"{one_line(prompt)} ", "$highlight"))
        self._line.display = True
        self._prompt.display = bool(prompt)
        self._status.display = False
        self._line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close_line()
        if self._on_entered is not None:
            self._on_entered(event.value)

    def close_line(self) -> bool:
        """Show the status line again, and return whether the user could type in it before."""
        was_open = self._line.display
        self._line.display = False
        self._prompt.display = False
        self._status.display = True
        if was_open and self.view is not None and self.view.is_mounted:
            self.view.take_focus()
        return was_open
