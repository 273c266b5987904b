"""The pane of searches: its tree, cursor, keys and clicks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from textual.events import MouseScrollDown
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.screens.dialog import EditQuery
from mahtab_tui.tui.search.call_screen import NodeScreen
from mahtab_tui.tui.search.pane import SearchTreePane
from tests.tui.editor_app import screen_text, until
from tests.tui.search_app import SearchApp
from tests.tui.search_story import (
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

# The recursion pane: what it shows, where its cursor stays, what its keys and clicks do.

LEGEND_TEXT = "▂ handed ▄ read ▆ matched █ answers"

SIZE = (100, 30)


def lines(pane: SearchTreePane) -> list[str]:
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


def line_with(pane: SearchTreePane, words: str) -> int:
    found = [y for y, line in enumerate(lines(pane)) if words in line]
    assert found, f"{words!r} is not in\n" + "\n".join(lines(pane))
    return found[0]


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    app = SearchApp(running())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        yield pilot


def app_of(pilot: Pilot[None]) -> SearchApp:
    assert isinstance(pilot.app, SearchApp)
    return pilot.app


def chosen(pilot: Pilot[None]) -> str:
    found = app_of(pilot).pane.chosen
    assert found is not None
    return found.node.id


async def go_to(pilot: Pilot[None], node: str) -> None:
    await pilot.press("home")
    for _ in range(40):
        if chosen(pilot) == node:
            return
        await pilot.press("down")
    raise AssertionError(f"{node} cannot be reached.")


async def test_keys_do_nothing_in_an_empty_pane() -> None:
    app = SearchApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        await pilot.press(
            "enter", "down", "left", "right", "s", "r", "e", "y", "p", "f", "end", "pageup"
        )
        assert app.control.calls == []


async def test_running_search_is_shown(pilot: Pilot[None]) -> None:
    pane = app_of(pilot).pane
    shown = "\n".join(lines(pane))
    assert QUERY in shown
    assert "10 calls · 16.9k tok · $0.04 · depth 2 of 3" in shown
    assert "left: 490 calls · $0.96 · 292 s" in shown
    assert "turn 1  print" in shown
    assert "The model could not be reached" in shown
    assert "overloaded, again in" in shown


async def test_thinking_node_shows_its_latest_line(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    scribe = Scribe()
    scribe.seq = 10_000
    app.pane.fold(list(scribe.thinks("1.7", 1, "\nnow a new li", "ne")))
    assert "turn 1  now a new line" in lines(app.pane)[line_with(app.pane, "12.3–14.3M")]


async def test_the_cursor_stays_on_its_node_while_the_tree_grows() -> None:
    scribe = Scribe()
    app = SearchApp(list(beginning(scribe)))
    async with app.run_test(size=(100, 14)) as pilot:
        await go_to(pilot, "1.8")
        at = line_with(app.pane, "14.3–16.3M")
        app.pane.fold([*parts_at_work(scribe), *fanned_out(scribe)])
        await pilot.pause()
        assert chosen(pilot) == "1.8"
        assert line_with(app.pane, "14.3–16.3M") == at


async def test_new_calls_move_the_scrollbar_without_a_layout() -> None:
    scribe = Scribe()
    app = SearchApp([*beginning(scribe), *parts_at_work(scribe)])
    async with app.run_test(size=(100, 14)) as pilot:
        await pilot.pause()
        pane, layouts = app.pane, list[object]()
        app.screen.screen_layout_refresh_signal.subscribe(pane, layouts.append, immediate=True)
        layouts.append("that of the first picture, which may come late")
        while layouts:
            layouts.clear()
            await pilot.pause(0.1)
        before = pane.virtual_size.height
        assert pane.show_vertical_scrollbar
        pane.fold([scribe.begin(f"1.{part}", QUERY, spans=[[0, 10]]) for part in range(11, 31)])
        await pilot.pause()
        assert (
            pane.virtual_size.height == pane.vertical_scrollbar.window_virtual_size == before + 20
        )
        assert not layouts


async def test_cursor_in_a_collapsed_branch_moves_to_its_parent(pilot: Pilot[None]) -> None:
    await go_to(pilot, "1.5.2")
    await pilot.press("left")
    assert chosen(pilot) == "1.5"
    await pilot.press("left", "down")
    assert chosen(pilot) == "1.6"
    await pilot.press("up", "right", "right")
    assert chosen(pilot) == "1.5.1"


async def test_finished_calls_are_collapsed_unless_expanded_by_the_user() -> None:
    app = SearchApp(done())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert not any("Why did this job" in line for line in lines(app.pane))
        await go_to(pilot, "1.5")
        await pilot.press("right")
        assert any("Why did this job" in line for line in lines(app.pane))


async def test_newest_search_is_first_and_expanded_and_older_ones_collapsed() -> None:
    app = SearchApp([*done("a"), *running()])
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        shown = lines(app.pane)
        assert "2 searches" in shown[0]
        assert shown[1].startswith(" ▾ ●")
        older = shown[line_with(app.pane, "▸ ✓ " + QUERY)]
        assert older.split()[-3:] == ["$0.73", "56.5", "s"]


async def test_only_changes_are_redrawn_even_when_scrolled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = SearchApp(running())
    async with app.run_test(size=(100, 14)) as pilot:
        await go_to(pilot, "1.10")
        await pilot.pause()
        assert app.pane.scroll_offset.y > 0
        drawn: list[int] = []
        monkeypatch.setattr(
            app.pane,
            "refresh",
            lambda *regions, **how: drawn.extend(region.y for region in regions),
        )
        scribe = Scribe()
        scribe.seq = 10_000
        app.pane.refresh_changed()
        drawn.clear()
        app.pane.fold(list(scribe.thinks("1.7", 2, "other words")))
        assert line_with(app.pane, "12.3–14.3M") in drawn
        assert line_with(app.pane, "14.3–16.3M") not in drawn


async def test_large_fan_out_is_one_line_and_a_grid() -> None:
    app = SearchApp(wide())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        at = line_with(app.pane, "200 parts: 177 done, 3 failed, 12 running, 8 waiting")
        field = "".join(lines(app.pane)[at + 1 : at + 4])
        assert [field.count(mark) for mark in "■✗◦·"] == [177, 3, 12, 8]
        await go_to(pilot, "1.7")
        await pilot.press("down", "enter")
        assert len(lines(app.pane)) == 29
        assert app.pane.virtual_size.height > 200
        await pilot.press("enter")
        assert app.pane.virtual_size.height < 40


async def test_stop_retry_copy_and_edit_reach_the_controller(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await go_to(pilot, "1.5")
    await pilot.press("enter", "s", "enter", "enter", "r", "enter")
    assert app.control.calls == [("stop", "t1", "1.5"), ("retry", "t1", "1.5", None)]
    await pilot.press("enter", "e")
    await until(pilot, lambda: isinstance(app.screen, EditQuery))
    area = app.screen.query_one(CodeArea)
    assert area.text.startswith("Which errors of 2026-03-29")
    area.text = "[b]only[/b] the pool?"
    area.move_cursor(area.document.end)
    await pilot.press("ctrl+j", "x", "enter")
    await pilot.pause()
    assert app.control.calls[-1] == ("retry", "t1", "1.5", "[b]only[/b] the pool?\nx")
    await pilot.press("enter", "e")
    await until(pilot, lambda: isinstance(app.screen, EditQuery))
    await pilot.press("x", "escape")
    await pilot.pause()
    assert len(app.control.calls) == 3
    await go_to(pilot, "1.1")
    await pilot.press("enter", "y")
    assert app.clipboard == "no failure in this part"
    await pilot.press("enter", "v")
    assert app.control.calls[-1:] == [("make_variable", "no failure in this part")]


async def test_finished_calls_cannot_be_stopped_and_missing_answers_not_copied(
    pilot: Pilot[None],
) -> None:
    app = app_of(pilot)
    await go_to(pilot, "1.1")
    await pilot.press("enter", "s", "enter")
    await go_to(pilot, "1.7")
    await pilot.press("enter", "y", "enter", "v")
    assert app.control.calls == []
    assert app.clipboard == ""


async def test_keys_go_to_the_parent_and_follow_the_newest_call(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await go_to(pilot, "1.5.2")
    await pilot.press("enter", "p")
    assert chosen(pilot) == "1.5"
    await pilot.press("enter", "p", "enter", "p")
    assert chosen(pilot) == "1"
    await pilot.press("enter", "f")
    assert chosen(pilot) == "1.5.2"
    scribe = Scribe()
    scribe.seq = 10_000
    app.pane.fold([scribe.begin("1.7.1", "a new one")])
    assert chosen(pilot) == "1.7.1"
    await pilot.press("up")
    app.pane.fold([scribe.begin("1.7.2", "another")])
    assert chosen(pilot) != "1.7.2"


async def test_enter_or_click_opens_a_call_and_a_click_on_its_arrow_folds_it(
    pilot: Pilot[None],
) -> None:
    app = app_of(pilot)
    await go_to(pilot, "1.3")
    await pilot.press("enter", "enter")
    await until(pilot, lambda: isinstance(app.screen, NodeScreen))
    await pilot.press("escape")
    await until(pilot, lambda: not isinstance(app.screen, NodeScreen))
    at = line_with(app.pane, "8.2–10.2M")
    await pilot.click(SearchTreePane, offset=(lines(app.pane)[at].index("▾"), at))
    assert not any("deploy" in line for line in lines(app.pane))
    await pilot.click(SearchTreePane, offset=(20, at))
    await until(pilot, lambda: isinstance(app.screen, NodeScreen))
    assert isinstance(app.screen, NodeScreen)
    assert app.screen.chosen.node.id == "1.5"


async def test_wheel_scrolls_long_content(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await pilot.resize_terminal(100, 10)
    await until(pilot, lambda: app.pane.max_scroll_y > 0)
    await pilot._post_mouse_events([MouseScrollDown], app.pane, offset=(5, 3))
    await until(pilot, lambda: app.pane.scroll_y > 0)


async def test_span_of_the_selected_call_is_shown_below_the_bar(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    at = line_with(app.pane, LEGEND_TEXT)
    await go_to(pilot, "1.10")
    marked = lines(app.pane)[at]
    assert marked.strip("▔ ") == ""
    assert len(marked) == app.pane.scrollable_content_region.width - 1 - len(" 100%")


@pytest.mark.parametrize("columns", [40, 200])
async def test_bar_is_fully_explained_even_in_a_narrow_pane(columns: int) -> None:
    app = SearchApp(running())
    async with app.run_test(size=(columns, 40)) as pilot:
        await pilot.pause()
        explained = line_with(app.pane, LEGEND_TEXT)
        assert lines(app.pane)[explained - 1].rstrip().endswith("%")


async def test_waiting_question_is_shown_in_the_tree() -> None:
    app = SearchApp(asking())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
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
    app = SearchApp(records)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        shown = "".join(lines(app.pane))
        assert "[red]x[/red] [@click=app.quit]y[/] second" in shown
        assert not {"\x1b", "\x07", "\u202e", "\n"} & set(shown)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, NodeScreen))


async def test_users_keymap_changes_the_keys_of_calls(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.set_keymap({"node-stop": "x"})
    await pilot.press("enter", "s", "enter", "x")
    assert app.control.calls == []
    await pilot.press("enter")
    await pilot.pause()
    assert app.control.calls == [("stop", "t1", "1")]


async def test_calls_of_an_earlier_session_are_read_only(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.pane.end()
    assert "cut off here" in lines(app.pane)[line_with(app.pane, "12.3–14.3M")]
    await go_to(pilot, "1.7")
    for letter in "sre":
        await pilot.press("enter", letter, "enter")
    assert app.control.calls == []
    assert any("cannot be changed" in notification.message for notification in app._notifications)


@pytest.mark.parametrize("width", [12, 24, 40, 60, 76, 96, 200])
async def test_every_line_fits_the_width(width: int) -> None:
    app = SearchApp([*done("a"), *wide()])
    async with app.run_test(size=(width, 60)) as pilot:
        await pilot.pause()
        assert all(
            app.pane.render_line(y).cell_length == app.pane.scrollable_content_region.width
            for y in range(app.pane.size.height)
        )


async def test_timer_runs_only_during_work() -> None:
    app = SearchApp()
    async with app.run_test(size=SIZE) as pilot:
        records: list[Record] = done()
        app.pane.fold(records[:200])
        assert app.pane._ticking is not None
        app.pane.fold(records[200:])
        assert app.pane._ticking is None
        await pilot.pause()


async def test_search_includes_collapsed_calls() -> None:
    app = SearchApp(done())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert not any("Why did this job" in line for line in lines(app.pane))
        await pilot.press("ctrl+f", *"why", "space", *"did")
        count = app.query_one("#find-count", Static)
        await until(pilot, lambda: str(count.content).startswith("1 of "))
        assert any("Why did this job" in line for line in lines(app.pane)), (
            "what it stands in is unfolded"
        )
        first, number = chosen(pilot), int(str(count.content).rpartition(" ")[2])
        await pilot.press(*["enter"] * number)
        assert chosen(pilot) == first, "behind the last one comes the first"
        await pilot.press("escape")
        assert (app.focused, chosen(pilot)) == (app.pane, first)
        await pilot.press("ctrl+f", *"[/b]")
        await until(pilot, lambda: str(count.content) == "nothing found")
        assert chosen(pilot) == first


async def test_part_of_a_collapsed_fan_out_is_found() -> None:
    app = SearchApp(wide())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        part = next(
            node
            for tree in app.pane.trees
            for node in tree.nodes.values()
            if node.batch is not None and node.batch.of > 12
        )
        assert not any(line.node is part and line.kind == "node" for line in app.pane._view.lines)
        app.pane.find(part.query, 0)
        assert chosen(pilot) == part.id


# Pictures of searches.

_STATES: dict[str, Callable[[], list[Record]]] = {
    "running": running,
    "asking": asking,
    "wide": wide,
    "done": done,
}


async def drawn(pilot: Pilot[None]) -> None:
    await pilot.pause()


@pytest.mark.parametrize(
    ("state", "size"),
    [("running", (54, 30)), ("wide", (200, 50)), ("done", (80, 24))],
    ids=["running-54x30", "wide-200x50", "done-80x24"],
)
def test_the_pane(snap_compare: Callable[..., bool], state: str, size: tuple[int, int]) -> None:
    assert snap_compare(SearchApp(_STATES[state]()), terminal_size=size, run_before=drawn)


def test_the_light_theme(snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(
        SearchApp(done(), theme="mahtab-day"), terminal_size=(100, 30), run_before=drawn
    )


@pytest.mark.parametrize(
    ("theme", "state", "keys", "size"),
    [("mahtab", "running", ["down"] * 5, (80, 24)), ("mahtab-day", "done", [], (160, 46))],
    ids=["mahtab-running-80x24", "mahtab-day-done-160x46"],
)
def test_a_call(
    snap_compare: Callable[..., bool],
    state: str,
    keys: list[str],
    size: tuple[int, int],
    theme: str,
) -> None:
    async def open_call(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*keys, "enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, NodeScreen))
        await pilot.pause()

    assert snap_compare(
        SearchApp(_STATES[state](), theme=theme), terminal_size=size, run_before=open_call
    )


async def test_text_of_a_call_is_shown_at_its_matches() -> None:
    async with SearchApp(done()).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for keys in (("enter", "enter"), ("tab", "enter")):
            await pilot.press(*keys)
            await pilot.pause()
        shown = screen_text(pilot)
    assert "▂ handed ▄ read ▆ matched █ answers" in shown
    assert " 137,530 █ 2026-03-29T03:49:12Z ERROR db.pool  checkout timed out   137529" in shown
