"""What the views of an object have in common."""

from __future__ import annotations

from textual.content import Content
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.widget import Widget

from mahtab_tui.kernel.looking import Look, Opened, Path, Step
from mahtab_tui.tui.panes.transcript.palette import Palette
from mahtab_tui.tui.screens.inspector.fetcher import Answered, Fetcher


class Place:
    """The object that a view shows."""

    def __init__(self, look: Look, path: Path, opened: Opened) -> None:
        self.look = look
        self.path = path
        self.opened = opened


class Walked(Message):
    """The person wants to look inside something of what is seen."""

    def __init__(self, steps: tuple[Step, ...], label: str) -> None:
        super().__init__()
        self.steps = steps
        self.label = label


class Said(Message):
    """Something for the line below the view: where one is, or what went wrong."""

    def __init__(self, content: Content, view: Widget) -> None:
        super().__init__()
        self.content = content
        self.view = view


class ObjectView(ScrollView, can_focus=True):
    """A window over something in the kernel: it fetches what it shows, and keeps little more."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.fetcher = Fetcher(self)
        self._palette: Palette | None = None

    @property
    def palette(self) -> Palette:
        """The theme's colours."""
        if self._palette is None:
            self._palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
        return self._palette

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    def on_answered(self, message: Answered) -> None:
        message.deliver()

    def look_again(self) -> None:
        """Fetch anew what is seen."""
        raise NotImplementedError

    def say(self, *parts: tuple[str, str] | str) -> None:
        """Show a sentence in the line below."""
        self.post_message(Said(Content.assemble(*parts), self))

    def fail(self, sentence: str) -> None:
        """Show what went wrong."""
        self.say((sentence, "$bad"))
