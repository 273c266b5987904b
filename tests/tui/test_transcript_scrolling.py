"""Scroll position of the transcript: at its tail, or where the person has scrolled to."""

from __future__ import annotations

from itertools import pairwise

from textual.events import MouseScrollUp

from tests import tags
from tests.tui.transcript_app import SIZE, PaneApp, cell, cells, record, shown, top_text


async def test_transcript_follows_the_tail() -> None:
    app = PaneApp()
    async with app.run_test(size=SIZE) as pilot:
        for number in range(1, 30):
            app.pane.fold(cell(number))
        await pilot.pause()
        assert shown(app.pane)[-1] == " ▌ output 29"


async def test_scrolled_up_transcript_stays_and_counts_new_entries() -> None:
    app = PaneApp(cells(30))
    async with app.run_test(size=SIZE) as pilot:
        app.pane.focus()
        await pilot.press("pageup", "pageup")
        before = shown(app.pane)
        app.pane.fold(cells(2, first=31))
        await pilot.pause()
        after = shown(app.pane)
        assert after[:-1] == before[:-1]
        assert after[-1].endswith("↓ 2 new")
        await pilot.press("end")
        await pilot.pause()
        assert shown(app.pane)[-1].endswith("▌ output 32")


async def test_user_actions_and_foreign_records_do_not_count_as_new() -> None:
    app = PaneApp(cells(30))
    async with app.run_test(size=SIZE) as pilot:
        app.pane.focus()
        await pilot.press("home", "space")
        await pilot.pause()
        assert app.pane.marker.marked is not None
        assert app.pane.marker.marked.collapsed
        app.pane.fold([record(tags.USAGE, cost=0.1)])
        assert "↓" not in shown(app.pane)[-1]
        app.pane.fold(cells(1, first=31))
        assert shown(app.pane)[-1].endswith("↓ 1 new")


async def test_clicking_the_hint_goes_to_the_tail() -> None:
    app = PaneApp(cells(30))
    async with app.run_test(size=SIZE) as pilot:
        app.pane.action_page_up()
        app.pane.fold(cells(1, first=31))
        await pilot.pause()
        await pilot.click(app.pane, offset=(app.pane.size.width - 4, app.pane.size.height - 1))
        await pilot.pause()
        assert shown(app.pane)[-1].endswith("▌ output 31")


async def test_scroll_position_stays_while_entries_above_it_grow() -> None:
    app = PaneApp([record(tags.USER_REPL_IN, "slow()", cell=99), *cells(30)])
    async with app.run_test(size=SIZE) as pilot:
        app.pane.action_page_up()
        await pilot.pause()
        before = shown(app.pane)
        app.pane.fold([record(tags.USER_REPL_OUT_STREAM, "line\n" * 40, cell=99, kind="stdout")])
        await pilot.pause()
        assert shown(app.pane)[:-1] == before[:-1]


async def test_paging_up_shows_every_row_once_despite_estimated_heights() -> None:
    long = "word " * 60
    records = [
        each
        for number in range(1, 20)
        for each in cell(number, output=f"first {number}\n{long}\nlast {number}\n")
    ]
    app = PaneApp(records)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        pages = [shown(app.pane)[1:]]
        while app.pane.scroll_offset.y:
            app.pane.action_page_up()
            await pilot.pause()
            pages.append(shown(app.pane)[1:])
        tail = [row.strip(" ▌") for row in "\n".join("\n".join(page) for page in pages).split("\n")]
        for number in range(1, 20):
            assert f"first {number}" in tail
            assert f"last {number}" in tail
        for earlier, later in pairwise(pages):
            if later[0].startswith(" ▌ In 1 ·"):
                break
            assert earlier[0] == later[-1]


async def test_top_line_stays_when_the_width_changes() -> None:
    text = "".join(f"{number} " + "x" * 70 + "\n" for number in range(200))
    app = PaneApp(cell(1, output=text))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.pane.scroll_to(y=101, animate=False)
        await pilot.pause()
        line = top_text(app.pane).split()[0]
        for width in (100, 40, 60):
            await pilot.resize_terminal(width, 20)
            await pilot.pause()
            assert top_text(app.pane).split()[0] == line


async def test_tail_is_still_followed_after_a_resize() -> None:
    app = PaneApp(cells(30))
    async with app.run_test(size=SIZE) as pilot:
        for size in ((30, 20), (80, 12), (60, 30)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert shown(app.pane)[-1] == " ▌ output 30"


async def test_a_resumed_session_of_thousands_of_records_shows_its_tail() -> None:
    app = PaneApp(cells(5_000))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert shown(app.pane)[-1] == " ▌ output 5000"
        app.pane.action_scroll_home()
        await pilot.pause()
        assert shown(app.pane)[2] == " ▌ cell_1"


async def test_the_wheel_scrolls() -> None:
    app = PaneApp(cells(30))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        before = app.pane.scroll_offset.y
        app.pane._on_mouse_scroll_up(MouseScrollUp(app.pane, 5, 5, 0, 0, 0, False, False, False))
        await pilot.pause()
        assert app.pane.scroll_offset.y < before
