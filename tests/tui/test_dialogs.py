"""Dialogs, lists to pick from, and the view of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.css.query import NoMatches
from textual.events import Click, MouseDown, Resize
from textual.geometry import Offset, Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import WorkerFailed

from mahtab_tui.settings.model import resource_folder
from mahtab_tui.store.input_history import HistoryEntry
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.dialog import Dialog
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Row, RowsView
from mahtab_tui.tui.screens.choice import ChooseOne, ChooseTheme
from mahtab_tui.tui.screens.command_palette import CommandPalette
from mahtab_tui.tui.screens.dialog import Confirm, JumpScreen, Prompt
from mahtab_tui.tui.screens.help import HelpScreen
from mahtab_tui.tui.screens.history_search import HistorySearch
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.textual_fixes import ignores_removed
from mahtab_tui.tui.theme import Palette, get_palette
from mahtab_tui.tui.widgets.options import Options
from tests.tui.editor_app import ThemedApp, press_at_once, until, wait_for_close, wait_for_screen

MANY = 10_000_000
HEIGHT = 20


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("key", "opened"), [("ctrl+o", JumpScreen), ("f1", HelpScreen), ("f9", Confirm)]
)
async def test_bunched_keys_close_a_dialog_once(
    key: str, opened: type[Dialog[object]], app: MahtabApp, pilot: Pilot[int]
) -> None:
    await pilot.press(key)
    await wait_for_screen(pilot, opened)
    await press_at_once(pilot, "escape", "escape", "escape")
    await wait_for_close(pilot)
    await pilot.pause()
    assert app.is_running


async def test_a_dialog_is_dismissed_once(app: MahtabApp, pilot: Pilot[int]) -> None:
    results: list[str | None] = []
    dialog = Prompt("What?")
    await app.push_screen(dialog, results.append)
    dialog.dismiss("one")
    dialog.dismiss("two")
    await until(pilot, lambda: len(app.screen_stack) == 1 and bool(results))
    await pilot.pause()
    assert results == ["one"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "opened"),
    [
        (["f1", "f9"], HelpScreen),
        (["f9", "f1", "f9", "ctrl+p"], Confirm),
        (["ctrl+r", "ctrl+r", "ctrl+p"], HistorySearch),
        (["ctrl+p", "f1", "ctrl+p"], CommandPalette),
    ],
)
async def test_no_key_opens_another_screen_over_a_dialog(
    keys: list[str], opened: type[Screen[object]], app: MahtabApp, pilot: Pilot[int]
) -> None:
    await press_at_once(pilot, *keys)
    assert [type(screen) for screen in app.screen_stack[1:]] == [opened]


async def test_ctrl_c_in_a_dialog_leaves_the_input_below_it(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    app.editor.text = "kept"
    await app.push_screen(Prompt("What?", "a value"))
    await pilot.press("ctrl+c")
    assert app.editor.text == "kept"
    app.screen.query_one(Input).select_all()
    await pilot.press("ctrl+c")
    assert app.clipboard == "a value"


@pytest.mark.parametrize(
    "dialog",
    [lambda: Confirm("Really?", yes="Yes", no="No"), lambda: Prompt("why?")],
    ids=["confirm", "query"],
)
async def test_quitting_while_a_dialog_opens_quits(
    app: MahtabApp, pilot: Pilot[int], dialog: Callable[[], Dialog[object]]
) -> None:
    app.push_screen(dialog())
    app.exit(0)
    await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_history_entry_chosen_during_shutdown_is_dropped(app: MahtabApp) -> None:
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press("ctrl+r")
        await wait_for_screen(pilot, HistorySearch)
        chosen = app.screen._result_callbacks[-1].callback
        assert chosen is not None
        app.exit(0)
    chosen(HistoryEntry("6 * 7", "python", "/", 0.0))
    assert app.return_code == 0


async def test_presses_on_what_has_vanished_are_ignored(
    monkeypatch: pytest.MonkeyPatch, app: MahtabApp, pilot: Pilot[int]
) -> None:
    press = partial(MouseDown, None, 5, 5, 0, 0, 1, False, False, False, 5, 5)
    vanished = Static("vanished"), Offset(0, 0)
    with monkeypatch.context() as patch:
        patch.setattr(Screen, "get_widget_and_offset_at", lambda screen, x, y: vanished)
        app.post_message(press())
        await pilot.pause()
    with monkeypatch.context() as patch:
        patch.setitem(app._screen_stacks, app._current_mode, [])
        await app.on_event(press())
    await app.push_screen(ChooseOne("Which?", ["one", "two"], "two"))
    options = app.screen.query_one(OptionList)
    await until(pilot, lambda: options.option_count == 2)
    style = Style(meta={"option": 1})
    await pilot.press(*"one")
    await until(pilot, lambda: options.option_count == 1)
    options.post_message(Click(options, 0, 0, 0, 0, 1, False, False, False, 0, 0, style))
    await pilot.pause()
    assert app.is_running
    assert isinstance(app.screen, ChooseOne)


@pytest.mark.parametrize("wrapped", [False, True])
async def test_missing_widgets_during_shutdown_do_not_crash(app: MahtabApp, wrapped: bool) -> None:
    async with app.run_test() as pilot:
        await pilot.pause()
        missing = NoMatches("No nodes match 'OptionList'")
        app.exit(0)
        app._handle_exception(WorkerFailed(missing) if wrapped else missing)
    assert (app.crash, app.return_code) == (None, 0)


class ThemesApp(TerminalApp[None]):
    def __init__(self) -> None:
        super().__init__(css_path=[resource_folder("styles") / "dialogs.tcss"])


async def test_theme_is_previewed_at_once_and_escape_restores_the_old_one() -> None:
    app = ThemesApp()
    async with app.run_test() as pilot:
        for keys, theme in (
            (["down"], "mahtab-day"),
            (["escape"], "mahtab"),
            ([*"nor", "enter"], "nord"),
        ):
            if len(app.screen_stack) == 1:
                app.push_screen(ChooseTheme(["mahtab", "mahtab-day", "nord"], "mahtab"))
                await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            assert app.theme == theme


class OptionsApp(ThemedApp):
    def compose(self) -> ComposeResult:
        yield Options(
            *(Option(Content.assemble("title ", ("quiet", "$muted"))) for _ in range(2)),
            compact=True,
        )


async def test_dim_text_of_the_selected_row_uses_the_row_colour() -> None:
    app = OptionsApp()
    async with app.run_test() as pilot:
        await pilot.press("down")
        options = app.query_one(Options)
        muted = get_palette(app).muted.color
        options.highlighted = 1
        await pilot.pause()
        segments = [
            (y, style.color == muted)
            for y in range(2)
            for text, style, _ in options.render_line(y)
            if "quiet" in text and style
        ]
        assert segments == [(0, True), (1, False)]


class Numbers:
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


class NumbersApp(ThemedApp):
    CSS = "NumbersView { overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self) -> None:
        super().__init__()
        self.numbers = Numbers()

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


@ignores_removed
class Composed(Widget):
    def compose(self) -> ComposeResult:
        yield Static("before", id="part")

    def on_mount(self) -> None:
        self.update()

    def on_resize(self) -> None:
        self.update()

    def update(self) -> None:
        self.query_one("#part", Static).update("after")


@pytest.mark.parametrize("composed", [False, True])
async def test_removed_widget_ignores_late_callbacks(composed: bool) -> None:
    app = App[None]()
    async with app.run_test() as pilot:
        widget = Composed()
        mounted = app.screen.mount(widget)
        if composed:
            await mounted
        for _ in range(3):
            widget.call_after_refresh(widget.update)
        removed = widget.remove()
        widget.post_message(Resize(Size(3, 3), Size(3, 3)))
        widget.call_after_refresh(widget.update)
        await removed
        await pilot.pause()
        assert not widget.is_attached  # errors are raised at the end of the block
