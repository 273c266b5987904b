"""A recorded search on its own screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.widgets import Static

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.search_tree import SearchTreePane
from mahtab_tui.tui.replay_app import ReplayApp
from mahtab_tui.tui.screens.edit_query import EditQuery
from mahtab_tui.tui.screens.help import HelpScreen
from mahtab_tui.tui.screens.node import NodeScreen
from tests.tui.editor_app import until
from tests.tui.search_story import done, running


def at_once(records: Sequence[Record]) -> Iterator[tuple[float, Record]]:
    """As they stand in a log: without what was streamed."""
    return ((0.0, record) for record in records if record.tag not in tags.STREAMS)


def slowly(records: Sequence[Record]) -> Iterator[tuple[float, Record]]:
    return ((1000.0 if number == 5 else 0.0, record) for number, record in enumerate(records))


def head(app: ReplayApp) -> str:
    return str(app.query_one("#replay-head", Static).content)


async def test_a_recording_is_shown_to_its_end() -> None:
    app = ReplayApp(at_once(done()))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "ended" in head(app))
        tree = app.query_one(SearchTreePane).trees["t1"]
        assert tree.finished
        assert not any(node.cut for node in tree.nodes.values())
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, NodeScreen))
        await pilot.press("escape", "enter", "s", "enter", "enter", "r", "enter")


async def test_where_a_recording_breaks_off_the_search_is_cut_off() -> None:
    app = ReplayApp(at_once(running()), note="3 lines are damaged [and] were left out.")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "ended" in head(app))
        pane = app.query_one(SearchTreePane)
        assert pane.trees["t1"].finished
        assert any("cut off here" in pane.render_line(y).text for y in range(20))
        assert any("[and]" in notification.message for notification in app._notifications)


async def test_it_pauses_changes_its_pace_and_goes_to_the_end() -> None:
    app = ReplayApp(slowly(done()))
    async with app.run_test(size=(100, 30)) as pilot:
        pane = app.query_one(SearchTreePane)
        await until(pilot, lambda: len(pane.trees) == 1)
        await pilot.press("space")
        await until(pilot, lambda: "paused" in head(app))
        await pilot.press("space", "+", "+", "-")
        await until(pilot, lambda: "2 x" in head(app))
        assert not pane.trees["t1"].finished
        await pilot.press(">")
        await until(pilot, lambda: "ended" in head(app))
        assert pane.trees["t1"].finished


async def test_it_pauses_where_a_call_is_open_and_while_a_dialog_asks_its_keys_are_letters() -> None:
    app = ReplayApp(slowly(done()))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: len(app.query_one(SearchTreePane).trees) == 1)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, NodeScreen))
        await pilot.press("+", "space")
        await until(pilot, lambda: "paused" in head(app))
        assert any("paused" in notification.message for notification in app._notifications)
        await app.push_screen(EditQuery("why"))
        await pilot.press("space", "+")
        assert app.screen.query_one(CodeArea).text == "why +"
        assert (app.player.paused, app.player.pace) == (True, 2.0)


async def test_f1_shows_its_keys_also_over_an_open_call() -> None:
    app = ReplayApp(at_once(done()))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "ended" in head(app))
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, NodeScreen))
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen) and bool(app.screen.query("#help-rows")))
        rows = app.screen.query_one("#help-rows", Static)
        await until(pilot, lambda: str(rows.content).startswith("Replay\n"))


async def test_an_empty_recording_says_so() -> None:
    app = ReplayApp(iter(()))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "ended" in head(app))
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running
