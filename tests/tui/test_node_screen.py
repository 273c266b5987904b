"""The screen of a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.rows.text_source import LocalText
from mahtab_tui.tui.search.call_pane import CallPane
from mahtab_tui.tui.search.call_screen import NodeScreen
from mahtab_tui.tui.search.pane import CallSelection
from mahtab_tui.tui.search.text_pane import TextRows
from tests.tui.editor_app import ThemedApp, static_text, until, wait_for_close, wait_for_screen
from tests.tui.search_app import LINE, SearchApp
from tests.tui.search_records import Scribe, done, running, wide


@asynccontextmanager
async def opened(
    records: Sequence[Record], node: str, size: tuple[int, int] = (150, 40)
) -> AsyncIterator[tuple[Pilot[None], SearchApp]]:
    app = SearchApp(records)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        tree = app.pane.trees["t1"]
        await app.push_screen(
            NodeScreen(CallSelection(tree, tree.nodes[node]), app.control, lambda: app.now)
        )
        await until(pilot, lambda: "".join(shown(app)).strip() != "")
        yield pilot, app


def shown(app: SearchApp) -> list[str]:
    pane = app.screen.query_one(CallPane)
    old_scroll = pane.scroll_y
    pane.scroll_y = 0
    rows = [pane.render_line(y).text.rstrip() for y in range(len(pane._rows))]
    pane.scroll_y = old_scroll
    return rows


def text_rows(app: SearchApp) -> list[str]:
    rows = app.screen.query_one(TextRows)
    return [rows.render_line(y).text for y in range(rows.size.height)]


async def test_turns_show_words_code_and_output() -> None:
    async with opened(done(), "1") as (pilot, app):
        rows = "\n".join(shown(app))
        for words in (
            "Turn 1 of 10",
            "I'll look at the beginning and count the errors",
            'hits = grep(r"2026-03-29.*(ERROR|FATAL)", max_matches=400)',
            "checkout timed out after 5000 ms",
            "Text after its code was dropped",
            "1,180 characters were printed",
            "rests on 3 places of the text",
            "10 calls",
        ):
            assert words in rows
        assert "```" not in rows
        assert "What failed on 2026-03-29" in static_text(pilot, "#node-query > Static")


async def test_failed_turn_shows_its_traceback_and_a_failed_call_the_reason() -> None:
    async with opened(running(), "1.6") as (_pilot, app):
        rows = "\n".join(shown(app))
        error = "TypeError: 'NoneType' object is not subscriptable"
        for words in (error, "It failed", "overloaded after 5 tries"):
            assert words in rows


async def test_screen_follows_new_events() -> None:
    async with opened(running(), "1.7") as (pilot, app):
        scribe = Scribe()
        scribe.seq = 10_000
        app.pane.fold(list(scribe.thinks("1.7", 1, "\n\nand a third cluster")))
        await until(pilot, lambda: "and a third cluster" in "\n".join(shown(app)))
        app.pane.fold(
            [*scribe.turn("1.7", 2, "More.", "print(2)", "2\n"), scribe.final("1.7", "an answer")]
        )
        await until(pilot, lambda: "an answer" in "\n".join(shown(app)))
        await until(pilot, lambda: "done" in static_text(pilot, "#node-crumbs"))
        pane = app.screen.query_one(CallPane)
        app.pane.fold(list(scribe.turn("1.7", 3, "Still more.", "print(3)", "3\n" * 60)))
        await until(pilot, lambda: 0 < pane.max_scroll_y == pane.scroll_offset.y)


async def test_plain_call_that_ends_while_it_is_open_shows_its_answer_once() -> None:
    async with opened(wide(), "1.7.181") as (pilot, app):
        answer = "No, it took 541 s"
        assert answer in "\n".join(shown(app))
        scribe = Scribe()
        scribe.seq = 10_000
        app.pane.fold([scribe.final("1.7.181", answer)])
        await until(pilot, lambda: "Answer" in "\n".join(shown(app)))
        assert "\n".join(shown(app)).count(answer) == 1


async def test_places_that_are_left_out_are_counted() -> None:
    async with opened(wide(), "1.7.181") as (pilot, app):
        scribe = Scribe()
        scribe.seq = 10_000
        spans = [[start, start + 1] for start in range(63)]
        app.pane.fold([scribe.final("1.7.181", "No", spans=spans)])
        await until(pilot, lambda: "rests on 63 places" in "\n".join(shown(app)))
        assert "59–60" in "\n".join(shown(app))
        assert "… and 3 more" in shown(app)[-2]


async def test_answer_links_to_the_text_it_cites() -> None:
    async with opened(done(), "1") as (pilot, app):
        await pilot.press("tab", "tab", "enter")
        rows = app.screen.query_one(TextRows)
        await until(pilot, lambda: rows.span == (9_310_000, 9_318_000))
        assert rows.has_focus
        assert any(f"{9_310_000 // LINE + 1:,} █" in row for row in text_rows(app))


async def test_a_searched_span_that_begins_inside_a_row_is_marked() -> None:
    class TextApp(ThemedApp):
        def compose(self) -> ComposeResult:
            yield TextRows(LocalText("one two\n\nthree\nfour\n"), [(4, 11)])

    async with TextApp().run_test(size=(40, 6)) as pilot:
        rows = pilot.app.query_one(TextRows)
        await until(pilot, lambda: len(rows.lines) == 4)
        bars = ["▌" in rows.render_line(y).text for y in range(4)]
        assert bars == [True, True, True, False]
        colours = {
            segment.text: segment.style.color
            for y in (0, 3)
            for segment in rows.render_line(y)
            if segment.style is not None
        }
        assert colours["two"] != colours["one "] == colours["four"]


@pytest.mark.thorough
async def test_text_has_the_roots_line_numbers_and_can_be_searched() -> None:
    async with opened(running(), "1.5") as (pilot, app):
        line = app.pane.trees["t1"].nodes["1.5"].spans[0][0] // LINE + 1
        rows = app.screen.query_one(TextRows)
        assert f"{line:,}" in text_rows(app)[0] or f"{line + 1:,}" in text_rows(app)[1]
        await pilot.press("t", "slash")
        field = app.screen.query_one("#find", Input)
        await until(pilot, lambda: field.has_focus)
        await pilot.press(*"error db", "enter")
        await until(pilot, lambda: rows.hit is not None)
        first_hit = rows.hit
        assert first_hit is not None
        assert (first_hit[0] // LINE) % 37 == 0
        assert any("ERROR db.pool" in row for row in text_rows(app))
        await pilot.press("n")
        await until(pilot, lambda: rows.hit is not None and rows.hit[0] == first_hit[0] + 37 * LINE)
        await pilot.press("N")
        await until(pilot, lambda: rows.hit == first_hit)
        await pilot.press("slash", "escape")
        assert isinstance(app.screen, NodeScreen)
        assert rows.has_focus
        await pilot.press("escape")
        await wait_for_close(pilot, NodeScreen)


@pytest.mark.thorough
async def test_text_replaces_the_story_on_a_narrow_screen() -> None:
    async with opened(running(), "1.5", size=(80, 24)) as (pilot, app):
        call = app.screen.query_one(CallPane)
        side = app.screen.query_one("#node-side")
        assert call.display
        assert not side.display
        await pilot.press("t")
        await until(pilot, lambda: side.display)
        assert not call.display
        await pilot.press("t")
        assert call.has_focus


async def test_calls_link_to_calls() -> None:
    async with opened(running(), "1.5") as (pilot, app):
        row = next(y for y, text in enumerate(shown(app)) if "Is there a deploy" in text)
        pane = app.screen.query_one(CallPane)
        await pilot.click(CallPane, offset=(10, row - pane.scroll_offset.y))
        await until(
            pilot,
            lambda: isinstance(app.screen, NodeScreen) and app.screen.chosen.node.id == "1.5.2",
        )
        await pilot.press("escape")
        await wait_for_close(pilot, NodeScreen)


async def test_menu_acts_on_the_call() -> None:
    async with opened(done(), "1.1") as (pilot, app):
        await pilot.press("enter", "s", "enter", "enter", "y")
        assert app.control.calls == []
        assert app.clipboard == "no failure in this part"


async def test_missing_text_is_reported() -> None:
    app = SearchApp(done())
    app.control.text = lambda tree, start, end: None  # type: ignore[method-assign]
    async with app.run_test(size=(150, 40)) as pilot:
        await pilot.press("enter", "enter")
        await wait_for_screen(pilot, NodeScreen)
        assert "no longer kept" in static_text(pilot, "TextPane Static")
        await pilot.press("t", "slash", "n", "tab", "enter", "t")


async def test_answer_keeps_its_line_ends_and_a_plain_calls_text_appears_once() -> None:
    scribe = Scribe()
    records = [
        scribe.begin("1", "q"),
        *scribe.answers("1", 1, "words"),
        scribe.final("1", "first line\nsecond line"),
    ]
    async with opened(records, "1") as (_pilot, app):
        rows = shown(app)
        assert any(row.endswith("first line") for row in rows)
        assert any(row.endswith("second line") for row in rows)
    async with opened(running(), "1.5.1") as (_pilot, app):
        assert sum("the job never committed" in row for row in shown(app)) == 1


async def test_click_and_drag_over_words_select_them() -> None:
    async with opened(done(), "1") as (pilot, app):
        query = "#node-query > Static"
        await pilot.mouse_down(query, offset=(0, 0))
        await pilot.hover(query, offset=(11, 0))
        await pilot.mouse_up(query, offset=(11, 0))
        await until(pilot, lambda: (app.screen.get_selected_text() or "").startswith("What failed"))


async def test_closing_before_loading_does_not_fail() -> None:
    app = SearchApp(done())
    async with app.run_test() as pilot:
        await pilot.pause()
        app.pane.action_open_node()
        app.exit()
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0
