"""The layout: panes that hide, return, grow and shrink, and the focus meanwhile."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.editor.prompt_area import PromptArea
from mahtab_tui.tui.greeting import SearchExample
from mahtab_tui.tui.search.pane import SearchTreePane
from mahtab_tui.tui.transcript.pane import TranscriptPane
from mahtab_tui.tui.widgets.waiting_code import WaitingCode
from tests import tags
from tests.tui.editor_app import until
from tests.tui.scripted_session import WAITING, MakeApp, drawn, sales_records, showing
from tests.tui.search_records import done, running
from tests.tui.transcript_app import cell, cells, record, shown

SHORT_EXAMPLE = 'RECURSION rlm("question", text) searches a long text'


def focus_is_seen(app: MahtabApp) -> bool:
    focused = app.focused
    return (
        focused is not None
        and all(node.display for node in focused.ancestors_with_self if isinstance(node, Widget))
        and bool(focused.region)
    )


@pytest.fixture
def app(make_app: MakeApp) -> MahtabApp:
    return make_app(*sales_records())


@pytest.fixture
async def pilot(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=(120, 40)) as pilot:
        yield pilot


@pytest.mark.parametrize("by_command", [True, False])
async def test_focus_moves_off_a_hidden_pane(
    by_command: bool, app: MahtabApp, pilot: Pilot[int]
) -> None:
    app.query_one("#namespace").focus()
    await pilot.pause()
    if by_command:
        await app.run_action("command('toggle-side')")
    else:
        await pilot.resize_terminal(80, 24)
    await pilot.pause()
    assert focus_is_seen(app)
    assert app.focused is app.query_one("#code")


@pytest.mark.parametrize(
    ("size", "height", "expected_text"),
    [
        ((110, 35), 5, f"{SHORT_EXAMPLE}; each call shows here"),
        ((140, 35), 2, SHORT_EXAMPLE),
        ((200, 50), 2, SHORT_EXAMPLE),
    ],
)
async def test_example_occupies_few_rows_until_a_search_needs_more(
    make_app: MakeApp, size: tuple[int, int], height: int, expected_text: str
) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        side = app.query_one("#side")
        example = app.query_one(SearchExample)
        assert example.region.bottom == side.region.bottom
        assert example.region.height == height
        words = " ".join(strip.text for strip in example.render_lines(example.size.region)).split()
        assert " ".join(words) == expected_text
        app.panes.fold_searches(running())
        await until(pilot, lambda: any(pane.region for pane in app.query(SearchTreePane)))
        recursion = app.query_one(SearchTreePane)
        assert recursion.region.height > 12
        assert recursion.region.bottom == side.region.bottom
        assert not app.query("#search-example")


async def test_search_has_one_live_line_when_the_tree_is_hidden(make_app: MakeApp) -> None:
    app = make_app(*cell(1, "rlm(question, log)")[:1])
    async with showing(app) as pilot:

        def live() -> list[str]:
            rows = shown(app.query_one(TranscriptPane))
            return [re.sub(r"^\W+|\d+ s · ", "", row) for row in rows if "F3 shows them" in row]

        assert not live()
        app.panes.fold_searches(running())
        await pilot.pause()
        assert live() == ["10 calls · 5 of 10 parts · F3 shows them"]
        await pilot.press("f3")
        assert app.query_one(SearchTreePane).display
        assert not live()
        await pilot.press("f3")
        assert live()
        app.panes.fold_searches(done())
        await pilot.pause()
        assert not live()


@pytest.mark.parametrize(("columns", "side"), [(110, 37), (120, 40), (250, 124)])
async def test_namespace_pane_gets_the_width_left_by_the_transcript(
    app: MahtabApp, columns: int, side: int
) -> None:
    async with showing(app, (columns, 50)):
        assert app.query_one("#side").region.width == side
        assert app.query_one(TranscriptPane).visible_size[0] == min(120, columns - side - 6)


async def test_drawer_state_does_not_survive_a_resize_or_restart(
    app: MahtabApp, make_app: MakeApp
) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f3")
        assert app.query_one("#side").display
        for width, displayed in ((78, True), (120, True), (80, False)):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            assert app.query_one("#side").display is displayed
        await pilot.press("f3")
        assert app.query_one("#side").display
    app.ui_state.save()
    again = make_app(*sales_records())
    async with again.run_test(size=(80, 24)):
        assert not again.query_one("#side").display


async def test_editor_works_next_to_an_open_drawer(app: MahtabApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f3", *"total = 1")
        await pilot.pause()
        assert app.editor.text == "total = 1"
        editor = app.query_one("#editor").region
        side = app.query_one("#side").region
        assert not editor.overlaps(side)
        await pilot.press("enter")
        await pilot.pause()
        assert not app.query_one("#side").display, "the output of the cell is shown"


async def test_jump_to_the_transcript_closes_the_drawer_that_covers_it(app: MahtabApp) -> None:
    async with showing(app, (80, 24)) as pilot:
        await pilot.press("f3")
        assert app.query_one("#side").display
        app.panes.go_to(app.query_one(TranscriptPane))
        await until(pilot, lambda: isinstance(app.focused, TranscriptPane))
        assert not app.query_one("#side").display


async def test_jump_to_a_row_that_was_answered_meanwhile_leaves_the_side_as_it_is(
    app: MahtabApp,
) -> None:
    async with showing(app, (120, 24)):
        side = app.query_one("#side")
        assert side.display
        row = app.query_one("ApprovalRow")
        assert not row.display
        app.panes.go_to(row)
        assert side.display


@pytest.mark.parametrize("columns", [80, 109])
async def test_side_covers_the_transcript_of_a_narrow_screen_below_its_tabs(
    app: MahtabApp, columns: int
) -> None:
    async with showing(app, (columns, 24)) as pilot:
        await pilot.press("f3")
        await pilot.pause()
        side = app.query_one("#side").region
        assert (side.x, side.width) == (0, columns)
        assert app.query_one("#namespace").region.width == columns
        await pilot.click("#pane-tabs", offset=(2, 0))
        await pilot.pause()
        assert not app.query_one("#side").display


@pytest.mark.sample(1)
@pytest.mark.parametrize("pane", ["#transcript", "#namespace", "#editor"])
async def test_pane_can_be_maximised_and_restored(
    pane: str, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await drawn(pilot)
    app.query_one(pane).focus()
    await pilot.pause()
    old_region = app.query_one(pane).region
    await pilot.press("f5")
    await pilot.pause()
    assert app.query_one(pane).region.width >= 118
    assert focus_is_seen(app)
    await pilot.press("f5")
    await pilot.pause()
    assert app.query_one(pane).region == old_region


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", ["f2", "f7", "f3"])
async def test_focusing_another_pane_restores_the_layout(make_app: MakeApp, key: str) -> None:
    app = make_app(*sales_records(), WAITING)
    async with showing(app, (120, 40)) as pilot:
        app.query_one("#namespace").focus()
        await pilot.press("f5")
        await pilot.pause()
        await pilot.press(key)
        await pilot.pause()
        assert focus_is_seen(app)
        assert app.focused in app.screen.focus_chain


async def test_keys_move_the_splitters(app: MahtabApp, pilot: Pilot[int]) -> None:
    app.panes.fold_searches(running())
    await until(pilot, lambda: bool(app.query_one(SearchTreePane).region))
    side = app.query_one("#side")
    namespace = app.query_one("#namespace")
    width = side.region.width
    height = namespace.region.height
    await pilot.press("alt+left", "alt+down")
    await pilot.pause()
    assert side.region.width > width
    assert namespace.region.height > height
    await pilot.press("alt+right", "alt+up")
    await pilot.pause()
    assert (side.region.width, namespace.region.height) == (width, height)


async def test_the_mouse_drags_the_splitters(app: MahtabApp, pilot: Pilot[int]) -> None:
    await pilot.pause()
    await pilot.mouse_down("#side-splitter", offset=(0, 5))
    await pilot.hover("#transcript", offset=(60, 5))
    await pilot.mouse_up("#transcript", offset=(60, 5))
    await pilot.pause()
    assert abs(app.query_one("#side-splitter").region.x - 60) <= 1
    await pilot.mouse_down("#namespace-splitter", offset=(5, 0))
    await pilot.hover("#namespace", offset=(5, 9))
    await pilot.mouse_up("#namespace", offset=(5, 9))
    await pilot.pause()
    assert abs(app.query_one("#namespace-splitter").region.y - 10) <= 1
    assert app.mouse_captured is None


@pytest.mark.parametrize(
    ("letter", "pane"), [("t", "#transcript"), ("e", "#editor"), ("n", "#namespace")]
)
async def test_one_letter_jumps_to_a_pane(
    letter: str, pane: str, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await pilot.press("ctrl+o", letter)
    await pilot.pause()
    assert app.focused is not None
    assert app.query_one(pane) in app.focused.ancestors_with_self


@pytest.mark.parametrize("keys", [(), ("f3",), ("f7", "f5")])
async def test_idle_screen_triggers_no_layout(make_app: MakeApp, keys: tuple[str, ...]) -> None:
    app = make_app(*sales_records(), WAITING)
    async with showing(app) as pilot:
        await pilot.press(*keys)
        for _ in range(5):
            await pilot.pause()
        layouts: list[object] = []
        app.screen.screen_layout_refresh_signal.subscribe(app, layouts.append, immediate=True)
        for _ in range(10):
            await pilot.pause()
        assert not layouts


@pytest.mark.parametrize("size", [(80, 40), (120, 40), (200, 60)])
async def test_answers_appear_right_under_the_waiting_code(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    app = make_app(WAITING)
    async with showing(app, size) as pilot:
        await pilot.pause()
        transcript = app.query_one("#transcript")
        editor = app.query_one("#editor")
        assert (
            app.query_one("ApprovalRow").region.y
            == transcript.region.bottom
            == transcript.region.y + transcript.virtual_size.height
        )
        assert editor.region.bottom == size[1] - 1


@pytest.mark.parametrize("size", [(40, 12), (40, 10), (80, 24)])
async def test_all_answers_are_visible_however_long_the_code_is(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    code = "\n".join(f"column_{number} = {number}" for number in range(60))
    app = make_app(*sales_records(), replace(WAITING, text=code))
    async with showing(app, size) as pilot:
        await until(pilot, lambda: app.query_one(WaitingCode).display)
        await pilot.pause()
        chips = app.query_one("ApprovalRow Chips")
        assert app.screen.get_widget_at(*chips.region.offset)[0] is chips
        text = chips.render_line(0).text
        words = ("y run", "e edit", "n skip", "a ", "r rule", "esc")
        assert [word for word in words if word not in text] == [], text
        assert app.query_one("#editor").region.bottom == size[1] - 1


@pytest.mark.parametrize(("lines", "repeated"), [(3, False), (60, True)])
async def test_waiting_code_is_repeated_only_if_the_transcript_cannot_show_it(
    make_app: MakeApp, lines: int, repeated: bool
) -> None:
    code = "\n".join(f"x = {number}" for number in range(lines))
    text = f"So:\n```python\n{code}\n```"
    answer = record(tags.ASSISTANT_CHAT, text, turn=1, step=1, party="claude")
    app = make_app(answer, replace(WAITING, text=code))
    async with showing(app) as pilot:
        await pilot.pause()
        assert app.query_one(WaitingCode).display is repeated
        assert app.query_one("#editor").region.bottom == 23
        await pilot.press("f3")
        await pilot.pause()
        assert app.query_one(WaitingCode).display, "the drawer covers the transcript"


async def test_page_keys_scroll_the_transcript_from_the_editor(make_app: MakeApp) -> None:
    app = make_app(*cells(20))
    async with showing(app) as pilot:
        transcript = app.query_one(TranscriptPane)
        end = transcript.scroll_y
        await pilot.press(*"y = 1", "pageup", "pageup")
        assert transcript.scroll_y < end - 20
        await pilot.press("pagedown", "pagedown", *"2")
        assert transcript.scroll_y == end
        assert app.editor.text == "y = 12"
        app.editor.text = "\n".join(f"y = {number}" for number in range(40))
        await pilot.pause()
        end = transcript.scroll_y
        await pilot.press("pageup")
        assert transcript.scroll_y == end, "a text longer than the editor is scrolled instead"
        assert app.query_one(PromptArea).cursor_location[0] < 39


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_jump_reopens_a_hidden_pane(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        if size[0] > 100:
            await pilot.press("f3")
        await pilot.pause()
        assert not any(widget.is_on_screen and widget.region for widget in app.query("#namespace"))
        await pilot.press("ctrl+o", "n")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "namespace")
        assert app.query_one("#namespace").region


async def test_removed_panes_are_not_laid_out(app: MahtabApp, pilot: Pilot[int]) -> None:
    await drawn(pilot)
    await app.query_one("#side").remove()  # as when the application closes
    await pilot.pause()


async def test_command_with_an_extra_word_is_reported_and_its_text_returns(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    await pilot.press("f2", *"/clear me", "enter")
    await pilot.pause()
    assert any("/clear" in notice.message for notice in app._notifications)
    assert app.editor.text == "/clear me"
