"""What the views of an object have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from textual.content import Content
from textual.message import Message

from mahtab_tui.kernel.looking import InspectedObject, Look, Path
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.rows.palette import Palette, palette_of
from mahtab_tui.tui.textual_fixes.removable import Removable


class Place:
    """An object on the way, for all its views."""

    def __init__(self, look: Look, path: Path, opened: InspectedObject, slice: tuple[int | None, ...] | None = None) -> None:
        self.look = look
        self.path = path
        self.opened = opened
        self.slice = slice
        """The part of an array that is seen: None keeps a dimension."""


class Walked(Message):
    """The user wants to look inside something of what is seen."""

    def __init__(self, path: Path, label: str, view: View) -> None:
        super().__init__()
        self.path = path
        self.label = label
        self.view = view


class Said(Message):
    """Something for the line below the view: where one is, or what went wrong."""

    def __init__(self, content: Content, view: View) -> None:
        super().__init__()
        self.content = content
        self.view = view


class LineWanted(Message):
    """The user is to enter a line."""

    def __init__(self, placeholder: str, value: str, then: Callable[[str], None]) -> None:
        super().__init__()
        self.placeholder = placeholder
        self.value = value
        self.then = then


class Seen(NamedTuple):
    """What a view shows of an object, as code and in words."""

    opened: InspectedObject
    what: str = ""
    """As in "40 of 100 rows"; empty where it is all of the object."""


class CellWanted(Message):
    """A cell of the user's is to run."""

    def __init__(self, code: str, told: str) -> None:
        super().__init__()
        self.code = code
        self.told = told
        """What is said of it."""


class Asked(Message):
    """The user has a question about the text that is seen."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question


class View(Removable):
    """Shows an object of the kernel in one way: it fetches what it shows, and keeps little more."""

    def __init__(self, place: Place, **options: Any) -> None:
        """options: what the widget that shows the view takes."""
        super().__init__(**options)
        self.place = place
        self.fetcher = Fetcher(self)

    @property
    def palette(self) -> Palette:
        """The theme's colours."""
        return palette_of(self.app)

    @property
    def seen(self) -> Seen:
        """What is seen, to be exported."""
        return Seen(self.place.opened)

    def look_again(self) -> None:
        """Fetch anew what is seen."""
        raise NotImplementedError

    def take_focus(self) -> None:
        """Let keys come to what is seen."""
        self.focus()

    def say(self, *parts: tuple[str, str] | str) -> None:
        """Show a sentence in the line below."""
        self.post_message(Said(Content.assemble(*parts), self))

    def fail(self, sentence: str) -> None:
        """Show what went wrong."""
        self.say((sentence, "$bad"))
