"""The view of the kit over a source of rows: only the rows that are seen are made, and the cursor
stays in sight."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType

from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, Palette, role_variables

MANY = 10_000_000
HEIGHT = 20


class Numbers:
    """A source that counts how often it is asked."""

    def __init__(self) -> None:
        self.made = self.laid_out = 0

    def lay_out(self, width: int, palette: Palette) -> None:
        self.laid_out += 1
        self.style = palette.text

    def __len__(self) -> int:
        return MANY

    def __getitem__(self, index: int) -> Row:
        self.made += 1
        return Row([(f"row {index}", self.style)])


class NumbersView(RowsView, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS]

    @property
    def head(self) -> int:
        return 1

    def head_row(self, y: int) -> Row:
        return Row([("title", self._source[0].spans[0][1])])


class NumbersApp(App[None]):
    CSS = "NumbersView { overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self) -> None:
        super().__init__()
        self.numbers = Numbers()
        for theme in (MAHTAB, MAHTAB_DAY):
            self.register_theme(theme)
        self.theme = "mahtab"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def compose(self) -> ComposeResult:
        yield NumbersView(self.numbers)

    @property
    def lines(self) -> list[str]:
        view = self.query_one(NumbersView)
        return [view.render_line(y).text.strip() for y in range(view.size.height)]


async def test_only_visible_rows_are_built_and_the_cursor_stays_visible() -> None:
    app = NumbersApp()
    async with app.run_test(size=(40, HEIGHT)) as pilot:
        view = app.query_one(NumbersView)
        view.focus()
        await pilot.press("down", "down")
        assert (view.cursor, app.lines[:3]) == (1, ["title", "row 0", "row 1"])
        await pilot.press("end")
        await pilot.pause()
        assert (view.cursor, app.lines[0], app.lines[-1]) == (MANY - 1, "title", f"row {MANY - 1}")
        await pilot.press("pageup")
        assert view.cursor == MANY - 1 - (HEIGHT - 2)
        assert app.numbers.made < 50 * HEIGHT


async def test_cursor_is_visible_while_the_view_has_the_focus() -> None:
    app = NumbersApp()
    async with app.run_test(size=(40, HEIGHT)) as pilot:
        view = app.query_one(NumbersView)
        view.focus()
        view.go_to(3)
        await pilot.pause()
        assert view.marked_row == 3
        marked, other = (next(iter(view.render_line(y))).style for y in (4, 5))
        assert marked != other
        app.screen.set_focus(None)
        await pilot.pause()
        assert view.marked_row == -1


async def test_rows_are_rebuilt_only_for_a_new_width_or_theme() -> None:
    app = NumbersApp()
    async with app.run_test(size=(40, HEIGHT)) as pilot:
        await pilot.pause()
        before = app.numbers.laid_out
        view = app.query_one(NumbersView)
        view.focus()
        app.screen.set_focus(None)
        view.refresh_view()
        await pilot.pause()
        assert app.numbers.laid_out == before
        await pilot.resize_terminal(60, HEIGHT)
        await pilot.pause()
        assert app.numbers.laid_out == before + 1
        app.theme = "mahtab-day"
        await pilot.pause()
        assert app.numbers.laid_out == before + 2
