"""The one picker: rows under a line that filters them. Settings, models, skills and the history are listings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import ScreenResultType
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.textual_fixes.options import Options
from mahtab_tui.tui.widgets.line import Line

Row = TypeVar("Row")


class Listing(Dialog[ScreenResultType], Generic[Row, ScreenResultType]):
    """Typing filters, the arrows choose, Enter takes. A subclass says what the rows are, how they look and what taking one does."""

    TITLE = ""
    HINT = ""
    PLACEHOLDER = "type to filter"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Leave"),
        ("down,ctrl+n", "move(1)", "Down"),
        ("up,ctrl+p", "move(-1)", "Up"),
        ("pagedown", "move(10)", "Page down"),
        ("pageup", "move(-10)", "Page up"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[Row] = ()
        self._places: list[int] = []
        """Where each row stands among the options: headings are options, too."""

    def rows(self, wanted: str) -> Sequence[Row]:
        """The rows that hold a text."""
        raise NotImplementedError

    def line(self, row: Row, width: int) -> Content:
        """A row on one line."""
        raise NotImplementedError

    def heading(self, row: Row) -> str:
        """What the row and those behind it with the same heading are about; empty: nothing is said."""
        return ""

    def about(self, row: Row | None) -> Content:
        """What is told below the list of the chosen row; of none where there is no row."""
        raise NotImplementedError

    def tell(self, row: Row | None) -> None:
        """Show what there is to know of the chosen row."""
        self.query_one(".listing-about", Static).update(self.about(row))

    def take(self, row: Row) -> None:
        """Enter was pressed on a row, or it was clicked."""
        raise NotImplementedError

    def body(self, found: Options) -> ComposeResult:
        """The list, and what tells of the chosen row."""
        yield found
        yield Static(classes="listing-about", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large listing"):
            with Horizontal(classes="listing-title"):
                yield Static(one_line(self.title or self.TITLE), markup=False)
                yield Static(classes="listing-count", markup=False)
            yield Line(placeholder=self.PLACEHOLDER, compact=True)
            found = Options(compact=True, markup=False)
            found.can_focus = False
            yield from self.body(found)
            yield Static(classes="listing-said", markup=False)
            yield Static(self.HINT, classes="quiet", markup=False)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.fill)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.say("")
        self.find()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take()

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.tell(self.chosen)

    @property
    def wanted(self) -> str:
        """What is typed."""
        return self.query_one(Line).value.strip()

    @property
    def chosen(self) -> Row | None:
        """The row at the cursor."""
        place = self._place
        return None if place is None else self._rows[place]

    @property
    def _place(self) -> int | None:
        """The number of the row at the cursor."""
        highlighted = self.query_one(OptionList).highlighted
        return self._places.index(highlighted) if highlighted in self._places else None

    def find(self) -> None:
        """Something else is typed."""
        self.fill(0)

    def fill(self, highlighted: int | None = None) -> None:
        """Show the rows anew; the cursor stays on its line where none is given."""
        options = self.query_one(OptionList)
        place = self._place if highlighted is None else highlighted
        self._rows, self._places = self.rows(self.wanted), []
        width = max(1, options.scrollable_content_region.width)
        shown: list[Option] = []
        heading = ""
        for row in self._rows:
            if (other := self.heading(row)) != heading:
                heading = other
                shown.append(Option(Content.styled(heading, "bold $primary").truncate(width), disabled=True))
            self._places.append(len(shown))
            shown.append(Option(self.line(row, width).truncate(width, ellipsis=True)))
        options.set_options(shown)
        options.highlighted = self._places[min(place or 0, len(self._rows) - 1)] if self._rows else None
        self.tell(self.chosen)

    def count(self, text: str) -> None:
        """Say something at the end of the title."""
        self.query_one(".listing-count", Static).update(Content(text))

    def say(self, text: str, style: str = "$bad") -> None:
        """Say what came of it, below the list."""
        self.query_one(".listing-said", Static).update(Content.styled(plain(text), style))

    def action_move(self, step: int) -> None:
        if self._rows:
            place = (self._place or 0) + step
            place = place % len(self._rows) if abs(step) == 1 else max(0, min(place, len(self._rows) - 1))
            self.query_one(OptionList).highlighted = self._places[place]

    def action_leave(self) -> None:
        self.dismiss(None)

    def _take(self) -> None:
        if (row := self.chosen) is not None:
            self.take(row)


class ChooseOne(Listing[str, str | None]):
    """One of a few values, or None after Escape."""

    HINT = "Enter takes it · ↑ ↓ choose · Esc leaves all as it is"

    def __init__(self, title: str, values: Sequence[str], present: str) -> None:
        super().__init__()
        self.title = title
        self._values = values
        self._present = present

    def on_mount(self) -> None:
        self.call_after_refresh(self.fill, self._values.index(self._present) if self._present in self._values else 0)

    def rows(self, wanted: str) -> Sequence[str]:
        return [value for value in self._values if wanted.lower() in value.lower()]

    def line(self, row: str, width: int) -> Content:
        return Content.assemble(("● " if row == self._present else "  ", "$moon"), one_line(row))

    def about(self, row: str | None) -> Content:
        return Content("" if row is not None else "There is none with this in its name.")

    def take(self, row: str) -> None:
        self.dismiss(row)
