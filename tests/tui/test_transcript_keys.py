"""The transcript by keys: walking entries, their menu, and searching."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.records import Record, UserChat
from mahtab_tui.tui.find import FindRow
from mahtab_tui.tui.rows.row import MARK
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.tui.editor_app import static_text
from tests.tui.transcript_app import (
    SIZE,
    PaneApp,
    cell,
    cells,
    display_cell,
    focused,
    output_stream,
    record,
    shown,
)

ANSWER = "I look.\n\n```python\nfirst = 1\n```\n\nThen:\n\n```python\nsecond = 2\n```\n"


class KeysApp(PaneApp):
    def compose(self) -> ComposeResult:
        transcript = TranscriptPane(id="transcript")
        yield transcript
        yield FindRow(transcript)
        yield Input()

    def copy_to_clipboard(self, text: str) -> None:
        self.calls.append(("copy", text))

    def notify(self, message: str, **kwargs: Any) -> None:
        if not message.startswith("Copied "):
            self.calls.append(("refused", message))


async def test_focus_marks_the_newest_entry_if_one_came_after_the_last_visit() -> None:
    app = KeysApp(conversation())
    async with app.run_test(size=SIZE) as pilot:
        pane = app.query_one(TranscriptPane)
        pane.focus()
        await pilot.press("up", "up")
        visited = pane.marker.marked
        app.query_one(Input).focus()
        await pilot.pause()
        pane.focus()
        await pilot.pause()
        assert pane.marker.marked is visited
        app.query_one(Input).focus()
        await pilot.pause()
        pane.fold(cell(2, "later = 1", "more\n"))
        pane.focus()
        await pilot.pause()
        newest = pane.marker.marked
        assert isinstance(newest, Cell)
        assert newest.number == 2


def conversation() -> list[Record]:
    return [
        *cell(1, "x = 1", "printed\n"),
        record(tags.USER_CHAT, "what is x?", turn=1),
        record(tags.ASSISTANT_CHAT, ANSWER, turn=1, step=0, party="demo"),
        record(tags.NOTICE, "Something was noticed.", level="info"),
    ]


def marked(app: PaneApp) -> str:
    entry = app.pane.marker.marked
    return "" if entry is None else entry.plain_text


def mark_rows(app: PaneApp) -> list[int]:
    return [
        y for y in range(1, app.pane.size.height) if app.pane.render_line(y).text.startswith(MARK)
    ]


def offered(app: PaneApp) -> set[str]:
    assert isinstance(app.screen, ActionMenu)
    return {command.id for command in app.screen.commands}


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


async def test_arrow_keys_walk_all_entries_except_notices() -> None:
    app = KeysApp(conversation())
    async with app.run_test(size=SIZE) as pilot:
        assert mark_rows(app) == []
        app.pane.focus()
        await pilot.pause()
        assert marked(app) == "second = 2"
        for above in ("Then:", "first = 1", "I look.", "what is x?", "x = 1", "x = 1"):
            await press(pilot, "up")
            assert marked(app) == above
        assert mark_rows(app)
        await press(pilot, "down")
        assert marked(app) == "what is x?"


@pytest.mark.thorough
async def test_long_entry_is_walked_line_by_line() -> None:
    lines = "\n".join(f"line_{number}" for number in range(60))
    app = KeysApp([*cell(1, "before"), *cell(2, lines), *cell(3, "after")])
    async with focused(app) as pilot:
        await press(pilot, "up")
        assert marked(app) == lines
        top = app.pane.scroll_y
        await press(pilot, "up")
        assert (marked(app), app.pane.scroll_y) == (lines, top - 1)
        await press(pilot, *["up"] * 80)
        assert marked(app) == "before"
        await press(pilot, *["down"] * 100)
        assert marked(app) == "after"


async def test_mark_scrolled_out_of_view_moves_to_a_visible_entry() -> None:
    app = KeysApp(cells(59))
    async with focused(app) as pilot:
        await press(pilot, "home")
        assert (marked(app), mark_rows(app)[0]) == ("cell_1", 1)
        await press(pilot, "pagedown", "pagedown")
        assert mark_rows(app)[0] <= 3
        await press(pilot, "end")
        assert (marked(app), mark_rows(app)[-1]) == ("cell_59", SIZE[1] - 4)
        await press(pilot, "pageup", "enter", "y")
        assert mark_rows(app)
        assert app.calls == [("copy", marked(app))]


async def test_mark_stays_visible_while_output_arrives() -> None:
    app = KeysApp(cell(1))
    async with focused(app) as pilot:
        for number in range(2, 30):
            app.pane.fold(cell(number))
            await pilot.pause()
            assert mark_rows(app)


async def test_withdrawn_entry_passes_its_mark_to_a_visible_one() -> None:
    app = KeysApp([*cell(1), record(tags.ASSISTANT_CHAT_STREAM, "Words", turn=1, step=0)])
    async with focused(app) as pilot:
        assert marked(app) == "Words"
        app.pane.fold([record(tags.ASSISTANT_CHAT, "```python\nx = 1\n```", turn=1, step=0)])
        await press(pilot, "enter", "y")
        assert app.calls == [("copy", "x = 1")]


async def test_all_keys_count_even_faster_than_the_screen_draws() -> None:
    app = KeysApp(cells(59))
    async with focused(app) as pilot:
        await press(pilot, "home")
        for _ in range(20):
            app.pane.action_walk(1)
        assert marked(app) == "cell_21"
        old_scroll = app.pane.scroll_y
        for _ in range(2):
            app.pane.action_page_down()
        assert app.pane.scroll_y == old_scroll + 2 * (app.pane.size.height - 2)


@pytest.mark.parametrize(
    ("keys", "call"),
    [
        ("enter y", ("copy", "second = 2")),
        ("enter enter", ("copy", "second = 2")),
        ("enter r enter", ("run", "python", "second = 2")),
        ("enter e", ("edit", "python", "second = 2")),
        ("up enter y", ("copy", "Then:")),
        ("up up up up enter r enter", ("run", "ask", "what is x?")),
        ("up up up up up enter Y", ("copy", "printed")),
    ],
)
async def test_the_menu_acts_on_the_marked_entry(keys: str, call: tuple[str, ...]) -> None:
    app = KeysApp(conversation())
    async with focused(app) as pilot:
        await press(pilot, *keys.split())
        assert app.calls == [call]


@pytest.mark.parametrize(("keys", "explains"), [("enter", True), ("up enter", False)])
async def test_the_menu_explains_its_mark_only_where_a_row_has_it(
    keys: str, explains: bool
) -> None:
    app = KeysApp(conversation())
    async with focused(app) as pilot:
        await press(pilot, *keys.split())
        menu = app.screen
        assert isinstance(menu, ActionMenu)
        assert any(command.confirm for command in menu.commands) is explains
        words = " ".join(str(line.content) for line in menu.query(Static))
        assert ("↵ waits for Enter" in words) is explains


async def test_collapsing_leaves_the_first_line_and_expanding_restores_all() -> None:
    app = KeysApp([*cell(1, "\n".join(f"line_{number}" for number in range(8))), *cell(2)])
    async with focused(app) as pilot:
        await press(pilot, "up")
        old_rows = shown(app.pane)[1:]
        height = app.pane.virtual_size.height
        await press(pilot, "space")
        folded = "\n".join(shown(app.pane))
        assert "rows collapsed" in folded
        assert "line_7" not in folded
        assert app.pane.virtual_size.height < height
        await press(pilot, "space")
        assert shown(app.pane)[1:] == old_rows


async def test_click_marks_the_entry_under_it() -> None:
    app = KeysApp(conversation())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.click(TranscriptPane, offset=(6, 1))
        await pilot.pause()
        assert 1 in mark_rows(app)


async def test_long_traceback_is_shown_from_its_error_and_a_key_asks_about_it() -> None:
    frames = [
        f'  File "/app/part_{number}.py", line {number}, in call\n    call_{number}()\n'
        for number in range(20)
    ]
    traceback = "".join(
        ["Traceback (most recent call last):\n", *frames, "ValueError: no\nHint: try it\n"]
    )
    failed = {"status": "error", "kinds": [["traceback", len(traceback)]]}
    app = KeysApp(cell(7, "run()", traceback, **failed))
    async with app.run_test(size=(70, 20)) as pilot:
        texts = [line.strip(" ▌") for line in shown(app.pane)]
        error = texts.index("ValueError: no")
        assert texts[error + 1 : error + 3] == [
            "Hint: try it",
            'File "/app/part_0.py", line 0, in call',
        ]
        assert app.pane.viewport.hint == " ↓ more "
        app.pane.focus()
        await press(pilot, "end")
        end = "\n".join(shown(app.pane))
        assert "call_18()" in end
        assert "call_19()" in end
        await press(pilot, "enter", "x", "enter")
        assert app.calls == [("run", "ask", "Explain the error of cell 7, and how to fix it.")]


async def test_error_hidden_from_the_model_cannot_be_explained_by_it() -> None:
    failed = cell(7, "run()", "ValueError: no\n", status="error")
    app = KeysApp([*failed, record(tags.HIDE, entry="cell 7", hidden=True)])
    async with focused(app) as pilot:
        await press(pilot, "enter", "x", "enter")
        assert app.calls == [("refused", "This entry is hidden from the model.")]


async def test_only_cells_offer_questions_about_their_pictures() -> None:
    figure = {"mime": "image/png", "data": "AAAA"}
    app = KeysApp([*cell(1, "x = 1", "printed\n"), *display_cell(7, "plt.show()", figure)])
    async with focused(app) as pilot:
        assert marked(app) == "plt.show()"
        await press(pilot, "enter", "a")
        assert app.calls == [("mention", "@cell:7")]
        while marked(app) != "x = 1":
            await press(pilot, "up")
        await press(pilot, "enter")
        assert "entry-mention" not in offered(app)


async def test_a_table_of_a_cell_opens_its_value_and_scrolls_sideways() -> None:
    columns = "".join(f"<th>column{number}</th>" for number in range(30))
    row = f"<tr><th>0</th>{'<td>1</td>' * 30}</tr>"
    html = f"<table><tr><th></th>{columns}</tr>{row}</table>"
    value = "0123456789abcdef"
    app = KeysApp(display_cell(7, "df.head()", {"mime": "text/html", "data": html, "value": value}))
    async with focused(app) as pilot:
        await press(pilot, "right", "right")
        lines = enumerate(shown(app.pane))
        (y,) = (y for y, line in lines if "column2 " in line and "column1 " not in line)
        await press(pilot, "left", "left", "left")
        assert "column0" in shown(app.pane)[y]
        await press(pilot, "enter", "o")
        assert app.calls == [("value", value)]
        await pilot.click(TranscriptPane, offset=(12, y))
        assert app.calls == [("value", value)] * 2


async def test_a_cell_with_omitted_output_opens_all_of_it_rather_than_its_table() -> None:
    html = "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"
    table = {"mime": "text/html", "data": html, "value": "0123456789abcdef"}
    printed = "".join(f"{number}\n" for number in range(5_000))
    started, display, _ = display_cell(7, "show(df)", table)
    kinds = [["stdout", len(printed)], ["display", len("text\n")]]
    _, output_record = cell(7, "show(df)", f"{printed}text\n", kinds=kinds)
    app = KeysApp([started, display, output_record])
    async with focused(app) as pilot:
        await press(pilot, "enter", "o")
        assert app.calls == [("output", 7)]


async def test_a_text_too_long_to_be_drawn_opens_whole() -> None:
    app = KeysApp([UserChat("why " * 20_000, turn=1)])
    async with focused(app) as pilot:
        await press(pilot, "enter", "o")
        assert app.calls == [("pager", "Whole text", "why " * 20_000)]


async def find(pilot: Pilot[None], words: str = "") -> str:
    pilot.app.query_one(FindRow).open()
    await press(pilot, *words)
    return count_text(pilot)


def count_text(pilot: Pilot[None]) -> str:
    return static_text(pilot, "#find-count")


async def test_background_output_of_a_cell_is_copied_and_found_too() -> None:
    app = KeysApp([*cell(1, "start()"), output_stream("from a thread\n", 1, late=True)])
    async with focused(app) as pilot:
        await press(pilot, "enter", "Y")
        assert app.calls == [("copy", "output 1\nfrom a thread")]
        assert await find(pilot, "thread") == "1 of 1"


async def test_search_counts_all_matches_starts_at_the_end_and_continues_by_keys() -> None:
    outputs = ["straw\n" if number % 2 else "" for number in range(1, 60)]
    cells = [cell(n, f"name_{n} = 'Straw'", output) for n, output in enumerate(outputs, 1)]
    app = KeysApp([record for records in cells for record in records])
    async with app.run_test(size=SIZE) as pilot:
        assert await find(pilot, "straw") == "89 of 89"
        assert marked(app) == "name_59 = 'Straw'"
        await press(pilot, "up", "up")
        assert marked(app) == "name_58 = 'Straw'"
        await press(pilot, "up")
        assert marked(app) == "name_57 = 'Straw'"
        assert "straw" in "\n".join(shown(app.pane))
        await press(pilot, "down", "down", "down", "enter", "escape")
        assert app.pane.has_focus
        assert marked(app) == "name_1 = 'Straw'"
        assert "name_1 " in "\n".join(shown(app.pane))


async def test_matches_are_marked_while_the_row_is_open_or_the_pane_has_focus() -> None:
    app = KeysApp(cell(1, "straw", "none\n"))
    async with app.run_test(size=SIZE) as pilot:

        def marks() -> list[str]:
            segments = [segment for y in range(SIZE[1] - 3) for segment in app.pane.render_line(y)]
            return [text for text, style, _ in segments if style is not None and style.reverse]

        await find(pilot, "straw")
        assert marks() == ["straw"]
        await press(pilot, "escape")
        assert marks() == ["straw"]
        await press(pilot, "tab")
        assert not app.pane.has_focus
        assert marks() == []


async def test_search_includes_new_entries_and_excludes_cleared_ones() -> None:
    app = KeysApp([*cell(1, "run()")[:1], output_stream("straw\n", 1)])
    async with app.run_test(size=SIZE) as pilot:
        assert await find(pilot, "straw") == "1 of 1"
        streamed_record = output_stream("a straw\n\x1b]52;c;straw\x07Straw\n", 1)
        app.pane.fold([streamed_record, *cell(2, "straw")])
        await press(pilot, "escape")
        assert await find(pilot) == "4 of 4"
        await press(pilot, "up")
        assert count_text(pilot) == "3 of 4"
        app.pane.clear()
        await press(pilot, "enter")
        assert count_text(pilot) == "nothing found"
        app.pane.fold(cell(3, "straw"))
        await press(pilot, "enter")
        assert count_text(pilot) == "1 of 1"
