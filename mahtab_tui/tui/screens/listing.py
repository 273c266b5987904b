"""The base classes of screens with a list: `ListScreen` filters it, `SearchScreen` searches on a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.dialog import Dialog, dialog_box
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.widgets.options import Options
from mahtab_tui.tui.workers import Fetcher

Row = TypeVar("Row")
Results = TypeVar("Results")

# The mark before a row, and its style.
CURRENT_MARK = ("● ", "$highlight")
NO_MARK = ("  ", "")
SEARCH_DELAY_S = 0.05
"""Seconds without another key after which a search starts."""


class ListScreen(Dialog[ScreenResultType], Generic[ScreenResultType, Row]):
    """A filterable list; Enter or a click acts on a row.

    A subclass says which rows match (`find_rows`), how they look (`line`), what stands below the
    list (`describe`), and what Enter does (`choose`).
    """

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Leave"),
        ("enter", "select", "Select"),  # while the widget beside the list has the focus
        ("down,ctrl+n", "move(1)", "Down"),
        ("up,ctrl+p", "move(-1)", "Up"),
        ("pagedown", "move(10)", "Page down"),
        ("pageup", "move(-10)", "Page up"),
    ]

    heading_text: str
    """The heading of the screen."""
    hint: str
    """The line below the list, which names the keys."""
    placeholder = "type to filter"
    """What the line for typing shows while it is empty."""
    box_classes = "large listing"
    """The classes of style of the box around the list."""

    def __init__(self) -> None:
        super().__init__()
        self._count_line = Static(classes="listing-count", markup=False)
        self._count_line.display = False
        self.rows: Sequence[Row] = ()
        """The rows that match, in the order of the list."""
        self._line = LineInput(placeholder=self.placeholder, compact=True)
        self._options = Options(compact=True, markup=False)
        self._options.can_focus = False
        self._has_moved = False
        """Whether the user has moved the cursor in the results of what is typed: then it follows its
        row."""
        self.companion: Widget | None = None
        """The widget beside the list, such as a preview."""
        self.below: Widget = Static(classes="listing-about", markup=False)
        """The widget below the list. A `Static` shows what `describe` returns."""

    def compose(self) -> ComposeResult:
        with dialog_box(self.heading_text, self.box_classes):
            yield self._count_line
            yield self._line
            with Container(classes="listing-body"):
                yield self._options
                if self.companion is not None:
                    yield self.companion
            yield self.below
            yield Static(classes="listing-said", markup=False)
            yield Static(self.hint, classes="quiet", markup=False)

    def find_rows(self, typed: str) -> Sequence[Row]:
        """Return the rows that match what is typed."""
        raise NotImplementedError

    def line(self, row: Row, width: int) -> Content:
        """Return the line of a row in the list.

        Args:
            width: Its width in cells.
        """
        raise NotImplementedError

    def describe(self, row: Row | None) -> Content:
        """Return what stands below the list about the chosen row; None if no row matches."""
        return Content("Nothing matches." if row is None else "")

    def row_identity(self, row: Row) -> object:
        """Return what remains the same of a row when the list is filled again."""
        return row

    def choose(self, row: Row) -> object:
        """Do what Enter does with a row: close the screen with it."""
        return self.dismiss(row)  # type: ignore[arg-type]

    def action_select(self) -> None:
        self.act_on_chosen(self.choose)

    def find(self) -> None:
        """Fill the list, because something else is typed."""
        self.fill(0)

    def act_on_chosen(self, act: Callable[[Row], object]) -> None:
        """Call a function with the chosen row, if there is one."""
        if (row := self.chosen) is not None:
            act(row)

    def action_act(self, name: str) -> None:
        """Call a method with the chosen row.

        Args:
            name: The method's name.
        """
        self.act_on_chosen(getattr(self, name))

    @property
    def typed(self) -> str:
        """What is typed to filter the list, without blanks around it."""
        return self._line.value.strip()

    def set_text(self, text: str) -> None:
        """Put a text into the line for typing."""
        self._line.value = text
        self._line.cursor_position = len(text)

    @property
    def chosen(self) -> Row | None:
        """The row with the cursor; None if the list is empty."""
        index = self._options.highlighted
        return None if index is None else self.rows[index]

    def fill(self, cursor: int | None = None) -> None:
        """Fill the list again.

        Args:
            cursor: The index of the row to move to; by default a cursor that the user has moved
                stays on its row, and any other on its line.
        """
        old_row = self.chosen
        old_cursor = self._options.highlighted or 0
        self.rows = self.find_rows(self.typed)
        if cursor is not None:
            self._has_moved = False
        elif old_row is not None and self._has_moved:
            cursor = self._index_of(old_row, old_cursor)
        else:
            cursor = old_cursor
        width = max(1, self._options.scrollable_content_region.width)
        self._options.set_options([Option(self.line(row, width)) for row in self.rows])
        if self.rows:
            self._options.highlighted = min(cursor, len(self.rows) - 1)
        else:
            self._options.highlighted = None
        self._describe()

    def _index_of(self, row: Row, old_index: int) -> int:
        """Return the index at which a row of the old list stands now, or `old_index` if it is gone.

        Several rows may look the same; then the one at `old_index` is meant, if it is one of them.
        """
        identities = [self.row_identity(other_row) for other_row in self.rows]
        identity = self.row_identity(row)
        if identity not in identities or identities[old_index : old_index + 1] == [identity]:
            return old_index
        return identities.index(identity)

    def _describe(self) -> None:
        """Show the description of the chosen row."""
        description = self.describe(self.chosen)
        if isinstance(self.below, Static):
            self.below.update(description)

    def show_count(self, text: str) -> None:
        """Say above the list how many rows there are."""
        self._count_line.update(Content(text))
        self._count_line.display = bool(text)

    def show_status(self, text: str, style: str = "$bad") -> None:
        """Show a sentence below the list, until something is typed."""
        self.query_one(".listing-said", Static).update(Content.styled(plain(text), style))

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    @on(Input.Changed)
    def _find_typed(self, event: Input.Changed) -> None:
        event.stop()
        self.show_status("")
        self.find()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _select(self, event: Input.Submitted | OptionList.OptionSelected) -> None:
        event.stop()
        self.action_select()

    @on(OptionList.OptionHighlighted)
    def _describe_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._describe()

    def action_move(self, step: int) -> None:
        """Move the cursor.

        Args:
            step: How many rows down.
        """
        if not self.rows:
            return
        index = (self._options.highlighted or 0) + step
        # A single step goes from the end to the beginning; a page stops at the ends.
        if abs(step) == 1:
            index %= len(self.rows)
        else:
            index = max(0, min(index, len(self.rows) - 1))
        self._options.highlighted = index
        self._has_moved = True


def matches_words(typed: str, text: str) -> bool:
    """Return whether a text contains all words that were typed, in any case."""
    lower_text = text.lower()
    return all(word in lower_text for word in typed.lower().split())


def short_path(path: str, project: Path) -> str:
    """Abbreviate a path below the project or the home folder."""
    abbreviations = ((project, "."), (Path.home(), "~"))
    for folder, abbreviation in abbreviations:
        if path.startswith(f"{folder}/"):
            return f"{abbreviation}{path.removeprefix(str(folder))}"
    return path


class SearchScreen(ListScreen[ScreenResultType, Row], Generic[ScreenResultType, Row, Results]):
    """A list that is searched on a thread.

    A subclass says how to search (`search`), and puts the results into the list (`show_results`).
    A key that acts on the chosen row waits until the results for the typed text are there; it is
    forgotten if the user types another text before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hits: Sequence[Row] = ()
        """The rows of the newest results."""
        self.fetcher = Fetcher(self, max_running_jobs=1)
        self.is_searching = False
        self._waiting_actions: list[Callable[[Row], object]] = []
        """What keys do with the chosen row as soon as there are results."""

    def search(self, query: str) -> Results:
        """Return the results for a query. Called on a thread."""
        raise NotImplementedError

    def show_results(self, results: Results, cursor: int | None) -> None:
        """Set `hits`, and fill the list."""
        raise NotImplementedError

    def find(self, cursor: int | None = 0, pause: float = SEARCH_DELAY_S) -> None:
        """Search for the typed text on a thread, and show the results.

        Args:
            cursor: The row to go to; None lets `show_results` decide.
            pause: Seconds without another key before the search starts.
        """
        self.is_searching = True
        self._waiting_actions = []
        search = partial(self.search, self.typed)
        finish = partial(self._finish_search, cursor)
        self.fetcher.run("rows", search, finish, self._report_failure, delay_s=pause)

    def _finish_search(self, cursor: int | None, results: Results) -> None:
        """Show the results, and do what keys have asked for meanwhile."""
        self.is_searching = False
        self.show_results(results, cursor)
        for act in self._waiting_actions:
            self.act_on_chosen(act)

    def _report_failure(self, sentence: str) -> None:
        self.is_searching = False
        self.show_count("")
        self.show_status(sentence)

    def find_rows(self, typed: str) -> Sequence[Row]:
        return self.hits

    def act_on_chosen(self, act: Callable[[Row], object]) -> None:
        if self.is_searching:
            self._waiting_actions.append(act)
        else:
            super().act_on_chosen(act)
