"""The one picker: a line that filters a list of rows. The screens of settings, models, skills and
the history show one each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.textual_fixes.options import Options
from mahtab_tui.tui.textual_fixes.removable import removable
from mahtab_tui.tui.widgets.line_input import LineInput

Row = TypeVar("Row")


class ListScreen(Dialog[ScreenResultType], Generic[ScreenResultType, Row]):
    """A screen with a listing, and what it says about the rows."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    listing: Listing[Row]

    def compose(self) -> ComposeResult:
        yield self.listing

    def rows(self, typed: str) -> Sequence[Row]:
        """The rows that match what was typed."""
        raise NotImplementedError

    def line(self, row: Row, width: int) -> Content:
        """A row on one line."""
        raise NotImplementedError

    def heading(self, row: Row) -> str:
        """The heading of the group that a row belongs to; empty for none."""
        return ""

    def describe(self, row: Row | None) -> Content:
        """Return the text below the list about the row at the cursor; None if there is no row."""
        return Content("")

    def find(self) -> object:
        """Show the rows that match; called when other text was typed."""
        self.listing.fill(0)
        return None

    def take(self) -> object:
        """Act on the row at the cursor; called by Enter and by a click."""
        raise NotImplementedError

    def action_take(self) -> None:
        self.take()


@removable
class Listing(Vertical, Generic[Row]):
    """Typing filters, the arrows move the cursor, Enter or a click takes the row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("down,ctrl+n", "move(1)", "Down"),
        ("up,ctrl+p", "move(-1)", "Up"),
        ("pagedown", "move(10)", "Page down"),
        ("pageup", "move(-10)", "Page up"),
    ]

    def __init__(
        self,
        source: ListScreen[Any, Row],
        title: str,
        hint: str,
        placeholder: str = "type to filter",
        *,
        beside: Widget | None = None,
        below: Widget | None = None,
    ) -> None:
        """beside, below: widgets that show the row at the cursor, beside the list and below it; by
        default its description stands below."""
        super().__init__(classes="dialog large listing")
        self.rows: Sequence[Row] = ()
        self._source = source
        self._title, self._hint = title, hint
        self._line = LineInput(placeholder=placeholder, compact=True)
        self._options = Options(compact=True, markup=False)
        self._options.can_focus = False
        self._beside, self._below = beside, below
        self._about = Static(classes="listing-about", markup=False)
        self._places: list[int] = []
        """The place of each row among the options, which include the headings."""

    def compose(self) -> ComposeResult:
        with Horizontal(classes="listing-title"):
            yield Static(one_line(self._title), markup=False)
            yield Static(classes="listing-count", markup=False)
        yield self._line
        with Container(classes="listing-body"):
            yield self._options
            if self._beside is not None:
                yield self._beside
        yield self._below or self._about
        yield Static(classes="listing-said", markup=False)
        yield Static(self._hint, classes="quiet", markup=False)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.fill)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.say("")
        self._source.find()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _taken(self, event: Input.Submitted | OptionList.OptionSelected) -> None:
        event.stop()
        self._source.take()

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._describe()

    @property
    def typed(self) -> str:
        return self._line.value

    def set_text(self, text: str) -> None:
        self._line.value, self._line.cursor_position = text, len(text)

    @property
    def chosen(self) -> Row | None:
        place = self._place
        return None if place is None else self.rows[place]

    @property
    def _place(self) -> int | None:
        """The number of the row at the cursor."""
        highlighted = self._options.highlighted
        return self._places.index(highlighted) if highlighted in self._places else None

    def fill(self, cursor: int | None = None) -> None:
        """Show the rows anew. cursor: the number of the row that it goes to; by default it stays on
        its line."""
        place = self._place if cursor is None else cursor
        self.rows, self._places = self._source.rows(self.typed.strip()), []
        width = max(1, self._options.scrollable_content_region.width)
        options: list[Option] = []
        heading = ""
        for row in self.rows:
            if (other := self._source.heading(row)) != heading:
                heading = other
                options.append(
                    Option(Content.styled(heading, "bold $primary").truncate(width), disabled=True)
                )
            self._places.append(len(options))
            options.append(Option(self._source.line(row, width).truncate(width, ellipsis=True)))
        self._options.set_options(options)
        self._options.highlighted = (
            self._places[min(place or 0, len(self.rows) - 1)] if self.rows else None
        )
        self._describe()

    def _describe(self) -> None:
        self._about.update(self._source.describe(self.chosen))

    def count(self, text: str) -> None:
        """Show a text at the end of the title, such as how many rows match."""
        self.query_one(".listing-count", Static).update(Content(text))

    def say(self, text: str, style: str = "$bad") -> None:
        """Show the outcome of an action below the list."""
        self.query_one(".listing-said", Static).update(Content.styled(plain(text), style))

    def action_move(self, step: int) -> None:
        if self.rows:
            place = (self._place or 0) + step
            place = (
                place % len(self.rows) if abs(step) == 1 else max(0, min(place, len(self.rows) - 1))
            )
            self._options.highlighted = self._places[place]


class ChooseOne(ListScreen[str | None, str]):
    """Returns one of a few values, or None after Escape."""

    def __init__(self, title: str, values: Sequence[str], present: str) -> None:
        super().__init__()
        self.listing = Listing(self, title, "Enter chooses · ↑ ↓ move · Esc cancels")
        self._values = values
        self._present = present

    def on_mount(self) -> None:
        self.call_after_refresh(
            self.listing.fill,
            self._values.index(self._present) if self._present in self._values else 0,
        )

    def rows(self, typed: str) -> Sequence[str]:
        return [value for value in self._values if typed.lower() in value.lower()]

    def line(self, row: str, width: int) -> Content:
        return Content.assemble(("● " if row == self._present else "  ", "$moon"), one_line(row))

    def describe(self, row: str | None) -> Content:
        return Content("" if row is not None else "Nothing matches.")

    def take(self) -> None:
        if self.listing.chosen is not None:
            self.dismiss(self.listing.chosen)


class ChooseTheme(ChooseOne):
    """Shows each theme at once, the present one marked. Escape goes back to it."""

    def __init__(self, themes: Sequence[str], present: str) -> None:
        super().__init__("Theme", themes, present)

    def describe(self, row: str | None) -> Content:
        if row is not None and row != self.app.theme:
            self.app.theme = row
        return Content("Nothing matches." if row is None else "A preview of the theme.")

    def action_leave(self) -> None:
        self.app.theme = self._present
        super().action_leave()


def short_path(path: str, project: Path) -> str:
    """Shorten the project's folder to `.` and the user's to `~`."""
    for folder, short in ((project, "."), (Path.home(), "~")):
        if path.startswith(f"{folder}/"):
            return f"{short}{path.removeprefix(str(folder))}"
    return path
