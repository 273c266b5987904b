"""The pane of searches: its tree, cursor, keys, clicks and pictures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from textual.events import MouseScrollDown
from textual.geometry import Region
from textual.pilot import Pilot

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.search.call_screen import NodeScreen
from mahtab_tui.tui.search.pane import SearchTreePane
from tests.tui.editor_app import until, wait_for_close, wait_for_screen
from tests.tui.search_app import SearchApp
from tests.tui.search_records import (
    QUERY,
    Scribe,
    asking,
    beginning,
    done,
    fanned_out,
    parts_at_work,
    running,
    wide,
)

SIZE = (100, 30)


def lines(pane: SearchTreePane) -> list[str]:
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


def line_with(pane: SearchTreePane, words: str) -> int:
    rows = [y for y, line in enumerate(lines(pane)) if words in line]
    assert rows, f"{words!r} is not in\n" + "\n".join(lines(pane))
    return rows[0]


@asynccontextmanager
async def searching(
    records: Sequence[Record] = (), size: tuple[int, int] = SIZE
) -> AsyncIterator[tuple[SearchApp, Pilot[None]]]:
    app = SearchApp(records)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    async with searching(running()) as (_, pilot):
        yield pilot


@pytest.fixture
def app(pilot: Pilot[None]) -> SearchApp:
    return app_of(pilot)


def app_of(pilot: Pilot[None]) -> SearchApp:
    assert isinstance(pilot.app, SearchApp)
    return pilot.app


def chosen(pilot: Pilot[None]) -> str:
    chosen = app_of(pilot).pane.chosen
    assert chosen is not None
    return chosen.node.id


async def go_to(pilot: Pilot[None], node: str) -> None:
    await pilot.press("home")
    for _ in range(40):
        if chosen(pilot) == node:
            return
        await pilot.press("down")
    raise AssertionError(f"{node} cannot be reached.")


async def test_keys_do_nothing_in_an_empty_pane() -> None:
    async with searching() as (app, pilot):
        await pilot.press("enter", "down", "left", "right", "s", "y", "end", "pageup")
        assert app.control.calls == []


async def test_running_search_and_its_latest_lines_are_shown(app: SearchApp) -> None:
    text = "\n".join(lines(app.pane))
    for words in (
        QUERY,
        "10 calls · 16.9k tok · $0.04 · depth 2",
        "turn 1  print",
        "The model could not be reached",
        "overloaded, again in",
    ):
        assert words in text
    scribe = Scribe()
    scribe.seq = 10_000
    app.pane.fold(list(scribe.thinks("1.7", 1, "\nnow a new li", "ne")))
    assert "turn 1  now a new line" in lines(app.pane)[line_with(app.pane, "12.3–14.3M")]


async def test_the_cursor_stays_on_its_node_while_the_tree_grows() -> None:
    scribe = Scribe()
    async with searching(list(beginning(scribe)), (100, 14)) as (app, pilot):
        await go_to(pilot, "1.8")
        at = line_with(app.pane, "14.3–16.3M")
        app.pane.fold([*parts_at_work(scribe), *fanned_out(scribe)])
        await pilot.pause()
        assert chosen(pilot) == "1.8"
        assert line_with(app.pane, "14.3–16.3M") == at


async def test_left_and_right_fold_and_unfold(pilot: Pilot[None]) -> None:
    await go_to(pilot, "1.5.2")
    await pilot.press("left")
    assert chosen(pilot) == "1.5"
    await pilot.press("left", "down")
    assert chosen(pilot) == "1.6"
    await pilot.press("up", "right", "right")
    assert chosen(pilot) == "1.5.1"


async def test_finished_calls_are_collapsed_unless_expanded_by_the_user() -> None:
    async with searching(done()) as (app, pilot):
        assert not any("Why did this job" in line for line in lines(app.pane))
        await go_to(pilot, "1.5")
        await pilot.press("right")
        assert any("Why did this job" in line for line in lines(app.pane))


async def test_newest_search_is_first_and_expanded_and_older_ones_collapsed() -> None:
    async with searching([*done("a"), *running()], (100, 40)) as (app, _):
        rows = lines(app.pane)
        assert "2 searches" in rows[0]
        assert rows[1].startswith(" ▾ ●")
        older = rows[line_with(app.pane, "▸ ✓ " + QUERY)]
        assert older.split()[-3:] == ["$0.73", "55.2", "s"]


async def test_only_changes_are_redrawn_even_when_scrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    async with searching(running(), (100, 14)) as (app, pilot):
        await go_to(pilot, "1.10")
        await pilot.pause()
        assert app.pane.scroll_offset.y > 0
        drawn: list[int] = []

        def refresh(*regions: Region, **options: object) -> None:
            drawn.extend(region.y for region in regions)

        monkeypatch.setattr(app.pane, "refresh", refresh)
        scribe = Scribe()
        scribe.seq = 10_000
        app.pane.refresh_changed()
        drawn.clear()
        app.pane.fold(list(scribe.thinks("1.7", 2, "other words")))
        assert line_with(app.pane, "12.3–14.3M") in drawn
        assert line_with(app.pane, "14.3–16.3M") not in drawn


async def test_large_fan_out_is_one_line() -> None:
    async with searching(wide()) as (app, pilot):
        line_with(app.pane, "200 parts: 177 done, 3 failed, 12 running, 8 waiting")
        await go_to(pilot, "1.7")
        await pilot.press("down", "enter")
        assert len(lines(app.pane)) == 29
        assert app.pane.virtual_size.height > 200
        await pilot.press("enter")
        assert app.pane.virtual_size.height < 40


async def test_stop_copy_and_variable_reach_the_controller(
    app: SearchApp, pilot: Pilot[None]
) -> None:
    await go_to(pilot, "1.5")
    await pilot.press("enter", "s", "enter")
    assert app.control.calls == [("stop", "t1", "1.5")]
    await go_to(pilot, "1.1")
    await pilot.press("enter", "y")
    assert app.clipboard == "no failure in this part"
    await pilot.press("enter", "v")
    assert app.control.calls[-1:] == [("make_variable", "no failure in this part")]


async def test_finished_calls_cannot_be_stopped_and_missing_answers_not_copied(
    app: SearchApp, pilot: Pilot[None]
) -> None:
    await go_to(pilot, "1.1")
    await pilot.press("enter", "s", "enter")
    await go_to(pilot, "1.7")
    await pilot.press("enter", "y", "enter", "v")
    assert app.control.calls == []
    assert app.clipboard == ""


async def test_enter_or_click_opens_a_call_and_a_click_on_its_arrow_folds_it(
    app: SearchApp, pilot: Pilot[None]
) -> None:
    await go_to(pilot, "1.3")
    await pilot.press("enter", "enter")
    await wait_for_screen(pilot, NodeScreen)
    await pilot.press("escape")
    await wait_for_close(pilot, NodeScreen)
    at = line_with(app.pane, "8.2–10.2M")
    await pilot.click(SearchTreePane, offset=(lines(app.pane)[at].index("▾"), at))
    assert not any("deploy" in line for line in lines(app.pane))
    await pilot.click(SearchTreePane, offset=(20, at))
    screen = await wait_for_screen(pilot, NodeScreen)
    assert screen.chosen.node.id == "1.5"


async def test_wheel_scrolls_long_content(app: SearchApp, pilot: Pilot[None]) -> None:
    await pilot.resize_terminal(100, 10)
    await until(pilot, lambda: app.pane.max_scroll_y > 0)
    await pilot._post_mouse_events([MouseScrollDown], app.pane, offset=(5, 3))
    await until(pilot, lambda: app.pane.scroll_y > 0)


async def test_waiting_question_is_shown_in_the_tree() -> None:
    async with searching(asking()) as (app, _):
        assert "waits for you" in lines(app.pane)[line_with(app.pane, "12.3–14.3M")]
        line_with(app.pane, "? 200 calls at once, about $0.68: waits for you")


async def test_external_text_is_neither_markup_nor_control_codes() -> None:
    scribe = Scribe()
    hostile = "[red]x[/red] [@click=app.quit]y[/]\x1b]52;c;aGk=\x07\x1b[2J\u202e\nsecond"
    records = [
        scribe.begin("1", hostile, chars=100),
        scribe.begin("1.1", hostile),
        scribe.final("1.1", hostile),
        *scribe.thinks("1", 1, hostile),
    ]
    async with searching(records) as (app, pilot):
        text = "".join(lines(app.pane))
        assert "[red]x[/red] [@click=app.quit]y[/] second" in text
        assert not {"\x1b", "\x07", "\u202e", "\n"} & set(text)
        await pilot.press("enter", "enter")
        await wait_for_screen(pilot, NodeScreen)


async def test_users_keymap_changes_the_keys_of_calls(app: SearchApp, pilot: Pilot[None]) -> None:
    app.set_keymap({"node-stop": "x"})
    await pilot.press("enter", "s", "enter", "x")
    assert app.control.calls == []
    await pilot.press("enter")
    await pilot.pause()
    assert app.control.calls == [("stop", "t1", "1")]


async def test_calls_of_an_earlier_session_are_read_only(
    app: SearchApp, pilot: Pilot[None]
) -> None:
    app.pane.end()
    assert "cut off here" in lines(app.pane)[line_with(app.pane, "12.3–14.3M")]
    await go_to(pilot, "1.7")
    await pilot.press("enter", "s", "enter")
    assert app.control.calls == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("width", [12, 24, 40, 60, 76, 96, 200])
async def test_every_line_fits_the_width(width: int) -> None:
    async with searching([*done("a"), *wide()], (width, 60)) as (app, _):
        pane = app.pane
        widths = {pane.render_line(y).cell_length for y in range(pane.size.height)}
        assert widths == {pane.scrollable_content_region.width}


async def test_timer_runs_only_during_work() -> None:
    async with searching() as (app, _):
        records = done()
        app.pane.fold(records[:200])
        assert app.pane._auto_refresh_timer is not None
        app.pane.fold(records[200:])
        assert app.pane._auto_refresh_timer is None


Search = Callable[[], list[Record]]


@pytest.mark.parametrize(
    ("search", "size"),
    [(running, (54, 30)), (wide, (200, 50))],
    ids=["running-54x30", "wide-200x50"],
)
def test_the_pane(snap_compare: Callable[..., bool], search: Search, size: tuple[int, int]) -> None:
    async def drawn(pilot: Pilot[None]) -> None:
        await pilot.pause()

    assert snap_compare(SearchApp(search()), terminal_size=size, run_before=drawn)


@pytest.mark.parametrize(
    ("theme", "search", "keys", "size"),
    [("mahtab", running, ["down"] * 5, (80, 24)), ("mahtab-day", done, [], (160, 46))],
    ids=["mahtab-running-80x24", "mahtab-day-done-160x46"],
)
def test_a_call(
    snap_compare: Callable[..., bool],
    search: Search,
    keys: list[str],
    size: tuple[int, int],
    theme: str,
) -> None:
    async def open_call(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*keys, "enter", "enter")
        await wait_for_screen(pilot, NodeScreen)
        await pilot.pause()

    app = SearchApp(search(), theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=open_call)
