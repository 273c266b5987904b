"""Searching the transcript."""

from __future__ import annotations

from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.find import FindRow
from tests import tags
from tests.tui.test_transcript_keys import KeysApp, conversation, marked, press
from tests.tui.transcript_app import SIZE, cell, record


async def find(pilot: Pilot[None], words: str) -> str:
    """Search for words; what the row says."""
    app = pilot.app
    assert isinstance(app, KeysApp)
    row = app.query_one(FindRow)
    row.open()
    await press(pilot, *words)
    return str(row.query_one("#find-count", Static).content)


async def test_background_output_of_a_cell_is_copied_and_found_too() -> None:
    late = record(tags.USER_REPL_OUT_STREAM, "from a thread\n", cell=1, kind="stdout", late=True)
    async with KeysApp([*cell(1, "start()"), late]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "enter", "Y")
        assert app.calls == [("copy", "output 1\nfrom a thread")]
        assert await find(pilot, "thread") == "1 of 1"


async def test_search_counts_all_matches_starts_at_the_end_and_continues_by_keys() -> None:
    records = [
        one
        for number in range(1, 60)
        for one in cell(number, f"name_{number} = 'Straw'", "straw\n" if number % 2 else "")
    ]
    async with KeysApp(records).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        assert await find(pilot, "straw") == f"{59 + 30} of {59 + 30}"
        assert marked(app) == "name_59 = 'Straw'"
        await press(pilot, "up", "up")
        assert marked(app) == "name_58 = 'Straw'"
        await press(pilot, "up")
        assert marked(app) == "name_57 = 'Straw'"
        assert any("straw" in app.pane.render_line(y).text for y in range(SIZE[1]))
        await press(pilot, "down", "down", "down", "enter", "escape")
        assert app.pane.has_focus
        assert marked(app) == "name_1 = 'Straw'"
        assert any("name_1 " in app.pane.render_line(y).text for y in range(SIZE[1]))


async def test_matches_are_marked_while_the_row_is_open_or_the_pane_has_focus() -> None:
    async with KeysApp(cell(1, "straw", "none\n")).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)

        def marks() -> list[str]:
            strips = [app.pane.render_line(y) for y in range(app.pane.size.height)]
            return [
                segment.text
                for strip in strips
                for segment in strip
                if segment.style is not None and segment.style.reverse
            ]

        await find(pilot, "straw")
        assert marks() == ["straw"]
        await press(pilot, "escape")
        assert marks() == ["straw"]
        await press(pilot, "tab")
        assert not app.pane.has_focus
        assert marks() == []


async def test_search_includes_new_entries_and_excludes_cleared_ones() -> None:
    records = [
        record(tags.USER_REPL_IN, "run()", cell=1, party="you"),
        record(tags.USER_REPL_OUT_STREAM, "straw\n", cell=1, kind="stdout"),
    ]
    async with KeysApp(records).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        assert await find(pilot, "straw") == "1 of 1"
        app.pane.fold(
            [
                record(
                    tags.USER_REPL_OUT_STREAM,
                    "a straw\n\x1b]52;c;straw\x07Straw\n",
                    cell=1,
                    kind="stdout",
                ),
                *cell(2, "straw"),
            ]
        )
        await press(pilot, "escape")
        app.query_one(FindRow).open()
        await pilot.pause()
        assert str(app.query_one("#find-count", Static).content) == "4 of 4"
        await press(pilot, "up")
        assert str(app.query_one("#find-count", Static).content) == "3 of 4"
        app.pane.clear()
        await press(pilot, "enter")
        assert str(app.query_one("#find-count", Static).content) == "nothing found"
        app.pane.fold(cell(3, "straw"))
        await press(pilot, "enter")
        assert str(app.query_one("#find-count", Static).content) == "1 of 1"


async def test_missing_match_is_reported_and_an_empty_search_is_silent() -> None:
    async with KeysApp(conversation()).run_test(size=SIZE) as pilot:
        assert await find(pilot, "nowhere") == "nothing found"
        await press(pilot, *["backspace"] * 7)
        app = pilot.app
        assert isinstance(app, KeysApp)
        assert str(app.query_one("#find-count", Static).content) == ""
        assert app.pane.search.pattern is None


async def test_withdrawn_text_is_not_found() -> None:
    words = record(tags.ASSISTANT_CHAT_STREAM, "straw", turn=1, step=0)
    async with KeysApp(
        [words, record(tags.ASSISTANT_CHAT, "```python\nx = 1\n```", turn=1, step=0)]
    ).run_test(size=SIZE) as pilot:
        assert await find(pilot, "straw") == "nothing found"
