"""The transcript's widget: what it shows, and gives to the clipboard."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.tui.transcript_app import SIZE, PaneApp, cell, cells, record, shown


async def press_on(
    pilot: Pilot[None], pane: TranscriptPane, start: tuple[int, int], end: tuple[int, int]
) -> None:
    """Draw the mouse from one place to another."""
    await pilot.mouse_down(pane, offset=start)
    await pilot.hover(pane, offset=end)
    await pilot.mouse_up(pane, offset=end)


async def test_empty_transcript_explains_itself_asking_and_the_keys() -> None:
    app = PaneApp()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        text = "\n".join(shown(app.pane))
        assert "namespace" in text
        assert "`" in text
        assert "F1" in text
        app.pane.fold(cells(1))
        assert "F1" not in "\n".join(shown(app.pane))


async def test_a_cell_is_drawn_with_its_bar_header_code_and_output() -> None:
    app = PaneApp(cell(3, "df.shape", "(10, 5)\n"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        rows = shown(app.pane)
        assert rows[0] == " TRANSCRIPT"
        assert rows[1].startswith(" ▌ In 3 · you")
        assert rows[1].endswith("0.10 s")
        assert rows[2] == " ▌ df.shape"
        assert rows[4] == " ▌ (10, 5)"


async def test_every_row_is_exactly_as_wide_as_the_pane() -> None:
    hostile = (
        "你好 👩‍👩‍👧 e\u0301 \u202eabc\x1b]52;c;aGk=\x07\x00\ud800 [/x] [@click=app.quit]x[/]\n"
        + "w" * 500
        + "\n"
    )
    app = PaneApp(
        [*cell(1, "x = '[/red]'" * 20, hostile), record(tags.NOTICE, hostile, level="error")]
    )
    async with app.run_test(size=SIZE) as pilot:
        for width in (60, 20, 7, 100):
            await pilot.resize_terminal(width, 20)
            await pilot.pause()
            pane = app.pane
            widths = {pane.render_line(y).cell_length for y in range(pane.size.height)}
            assert widths == {pane.scrollable_content_region.width}
        text = "\n".join(shown(app.pane))
        assert "[/x] [@click=app.quit]x[/]" in text
        assert not set(text) & set("\x1b\x07\x00\u202e\ud800")


async def test_records_for_other_panes_cost_the_transcript_nothing() -> None:
    app = PaneApp(cells(3))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        placed: list[bool] = []
        app.pane._update_scroll = lambda: placed.append(True)  # type: ignore[method-assign]
        app.pane.fold(
            [record(tags.RLM_CHAT_STREAM, "words of a search", tree="t", node="1", turn=1)]
        )
        assert not placed
        app.pane.fold(cells(1))
        assert placed


async def test_growing_answer_redraws_only_its_end_without_a_layout() -> None:
    def token(text: str) -> Record:
        return record(
            tags.ASSISTANT_CHAT_STREAM, text, turn=1, step=0, party="claude", kind="chat", block=0
        )

    app = PaneApp([*cells(10), token("Some words")])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        layouts: list[Screen[object]] = []
        app.screen.screen_layout_refresh_signal.subscribe(app.pane, layouts.append)
        drawn: list[int] = []
        render_line = app.pane.render_line

        def counted(y: int) -> Strip:
            drawn.append(y)
            return render_line(y)

        app.pane.render_line = counted  # type: ignore[method-assign]
        app.pane.fold([token(" and more")])
        await pilot.pause()
        assert set(drawn) == {SIZE[1] - 4}, "only the row of the words, above the input"
        assert render_line(drawn[0]).text.rstrip().endswith("Some words and more")
        app.pane.fold([token(f"\n\nparagraph {number}") for number in range(20)])
        await pilot.pause()
        assert app.pane.vertical_scrollbar.window_virtual_size == app.pane.virtual_size.height
        assert shown(app.pane)[-1].endswith("paragraph 19")
        assert not layouts


async def test_selected_text_is_copied_without_bars_and_soft_line_breaks() -> None:
    long = "a" * 100
    app = PaneApp(cell(1, "one = 1\ntwo = 2", f"{long}\nend\n"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await press_on(pilot, app.pane, (3, 2), (5, 7))
        assert app.screen.get_selected_text() == f"one = 1\ntwo = 2\n\n{long}\nend"


async def test_selected_letters_are_visible() -> None:
    app = PaneApp(cell(1, "frame.describe()"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for theme in sorted(app.available_themes):
            app.theme = theme
            await press_on(pilot, app.pane, (3, 2), (7, 2))
            (letter,), (plain,) = (app.pane.render_line(2).crop(x, x + 1) for x in (3, 12))
            assert letter.style is not None
            assert plain.style is not None
            assert letter.style.bgcolor != plain.style.bgcolor, theme
            assert letter.style.color != letter.style.bgcolor, theme


async def test_selection_starting_on_the_bar_starts_with_the_line() -> None:
    app = PaneApp(cell(1, "one = 1"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await press_on(pilot, app.pane, (1, 2), (5, 2))
        assert app.screen.get_selected_text() == "one"


async def test_a_selection_stays_with_its_text_while_the_transcript_grows() -> None:
    app = PaneApp([record(tags.USER_REPL_IN, "slow()", cell=99), *cells(10)])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        last = app.pane.size.height - 1
        await press_on(pilot, app.pane, (3, last), (8, last))
        assert app.screen.get_selected_text() == "output"
        app.pane.fold(
            [
                record(tags.USER_REPL_OUT_STREAM, "line\n" * 40, cell=99, kind="stdout"),
                *cells(5, first=11),
            ]
        )
        await pilot.pause()
        assert app.screen.get_selected_text() == "output"


@pytest.mark.parametrize(("times", "text"), [(2, "frame"), (3, "frame.describe()")])
async def test_double_click_selects_the_word_and_triple_click_the_line(
    times: int, text: str
) -> None:
    app = PaneApp(cell(1, "frame.describe()"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.click(app.pane, offset=(5, 2), times=times)
        await pilot.pause()
        assert app.screen.get_selected_text() == text


async def test_the_title_is_bright_while_the_pane_has_the_focus() -> None:
    app = PaneApp(cells(1))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        quiet = app.pane.render_line(0)
        app.pane.focus()
        await pilot.pause()
        assert app.pane.render_line(0) != quiet


async def test_another_theme_recolours_the_shown_rows() -> None:
    app = PaneApp(cells(1))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        night = app.pane.render_line(1)
        for theme in sorted({*app.available_themes} - {"mahtab"}):
            app.theme = theme
            await pilot.pause()
            assert app.pane.render_line(1).text == night.text
            assert app.pane.render_line(1) != night


async def test_one_spinner_turns_while_the_model_works_and_stops_with_its_answer() -> None:
    app = PaneApp(cells(1))
    async with app.run_test(size=SIZE) as pilot:
        app.pane.fold([record(tags.AGENT, turn=1, step=0, state="thinking", party="claude")])
        await pilot.pause()
        assert [row for row in shown(app.pane) if "Claude is thinking · 0 s" in row]
        word = record(
            tags.ASSISTANT_CHAT_STREAM, "Yes", turn=1, step=0, party="claude", kind="chat", block=0
        )
        app.pane.fold([word])
        await pilot.pause()
        assert shown(app.pane)[6] == " ▌ Claude  Yes"
        assert [row for row in shown(app.pane) if "Claude is writing · 0 s" in row]
        app.pane.fold([record(tags.ASSISTANT_CHAT, "Yes", turn=1, step=0, party="claude")])
        await pilot.pause()
        assert not [row for row in shown(app.pane) if "Claude is" in row]


async def test_clearing_empties_the_transcript() -> None:
    app = PaneApp(cells(30))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.pane.clear()
        await pilot.pause()
        assert "F1" in "\n".join(shown(app.pane))
        app.pane.fold(cells(1, first=31))
        assert shown(app.pane)[2] == " ▌ cell_31"
