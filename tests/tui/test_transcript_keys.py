"""Walking the transcript's entries by keys, and what can be done with one."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.find import FindRow
from mahtab_tui.tui.rows.row import MARK
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.tui.transcript_app import SIZE, PaneApp, cell, record

ANSWER = "I look.\n\n```python\nfirst = 1\n```\n\nThen:\n\n```python\nsecond = 2\n```\n"


class KeysApp(PaneApp):
    """Writes down what the pane asks for."""

    def compose(self) -> ComposeResult:
        transcript = TranscriptPane(self.port, id="transcript")
        yield transcript
        yield FindRow(transcript)
        yield Input()

    @property
    def calls(self) -> list[tuple[object, ...]]:
        return self.port.calls

    def copy_to_clipboard(self, text: str) -> None:
        self.calls.append(("copy", text))

    def notify(self, message: str, **kwargs: Any) -> None:
        if not message.startswith("Copied "):
            self.calls.append(("refused", message))


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
    """The rows of the screen that bear the mark."""
    return [
        y for y in range(1, app.pane.size.height) if app.pane.render_line(y).text.startswith(MARK)
    ]


def offered(app: PaneApp) -> set[str]:
    """The commands of the menu that is open."""
    assert isinstance(app.screen, ActionMenu)
    return {command.id for command in app.screen.commands}


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


async def test_arrow_keys_walk_all_entries_except_notices() -> None:
    async with KeysApp(conversation()).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        assert mark_rows(app) == []
        app.pane.focus()
        await pilot.pause()
        assert marked(app) == "second = 2"
        seen = [marked(app)]
        for _ in range(6):
            await press(pilot, "up")
            seen.append(marked(app))
        assert seen == [
            "second = 2",
            "Then:",
            "first = 1",
            "I look.",
            "what is x?",
            "x = 1",
            "x = 1",
        ]
        assert mark_rows(app)
        await press(pilot, "down")
        assert marked(app) == "what is x?"


async def test_long_entry_is_walked_line_by_line() -> None:
    lines = "\n".join(f"line_{number}" for number in range(60))
    async with KeysApp([*cell(1, "before"), *cell(2, lines), *cell(3, "after")]).run_test(
        size=SIZE
    ) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
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
    async with KeysApp([one for number in range(1, 60) for one in cell(number)]).run_test(
        size=SIZE
    ) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
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
    async with KeysApp(cell(1)).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        for number in range(2, 30):
            app.pane.fold(cell(number))
            await pilot.pause()
            assert mark_rows(app)


async def test_stepping_down_from_the_last_entry_shows_the_notices_below_it() -> None:
    notices = [record(tags.NOTICE, f"notice {number}", level="info") for number in range(60)]
    async with KeysApp([*cell(1), *notices]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "home", "down")
        assert "notice 59" in app.pane.render_line(app.pane.size.height - 1).text


async def test_withdrawn_entry_passes_its_mark_to_a_visible_one() -> None:
    async with KeysApp(
        [*cell(1), record(tags.ASSISTANT_CHAT_STREAM, "Words", turn=1, step=0)]
    ).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await pilot.pause()
        assert marked(app) == "Words"
        app.pane.fold([record(tags.ASSISTANT_CHAT, "```python\nx = 1\n```", turn=1, step=0)])
        await press(pilot, "enter", "y")
        assert app.calls == [("copy", "x = 1")]


async def test_all_keys_count_even_faster_than_the_screen_draws() -> None:
    async with KeysApp([one for number in range(1, 60) for one in cell(number)]).run_test(
        size=SIZE
    ) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "home")
        for _ in range(20):
            app.pane.action_walk(1)
        assert marked(app) == "cell_21"
        before = app.pane.scroll_y
        for _ in range(2):
            app.pane.action_page_down()
        assert app.pane.scroll_y == before + 2 * (app.pane.size.height - 2)


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
    async with KeysApp(conversation()).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, *keys.split())
        assert app.calls == [call]


async def test_keys_do_nothing_in_an_empty_transcript() -> None:
    async with KeysApp().run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "up", "down", "space", "enter", "escape")
        assert app.calls == []


async def test_collapsing_leaves_the_first_line_and_expanding_restores_all() -> None:
    async with KeysApp(
        [*cell(1, "\n".join(f"line_{number}" for number in range(8))), *cell(2)]
    ).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "up")
        before, height = (
            [app.pane.render_line(y).text for y in range(1, SIZE[1] - 3)],
            app.pane.virtual_size.height,
        )
        await press(pilot, "space")
        folded = [app.pane.render_line(y).text for y in range(1, SIZE[1] - 3)]
        assert any("rows collapsed" in line for line in folded)
        assert not any("line_7" in line for line in folded)
        assert app.pane.virtual_size.height < height
        await press(pilot, "space")
        assert [app.pane.render_line(y).text for y in range(1, SIZE[1] - 3)] == before


async def test_click_marks_the_entry_under_it() -> None:
    async with KeysApp(conversation()).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
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
    records = [
        record(tags.USER_REPL_IN, "run()", cell=7, party="you"),
        record(
            tags.USER_REPL_OUT,
            traceback,
            cell=7,
            status="error",
            duration=0.1,
            kinds=[["traceback", len(traceback)]],
        ),
    ]
    async with KeysApp(records).run_test(size=(70, 20)) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        seen = [app.pane.render_line(y).text.strip(" ▌") for y in range(app.pane.size.height)]
        error = seen.index("ValueError: no")
        assert seen[error + 1 : error + 3] == [
            "Hint: try it",
            'File "/app/part_0.py", line 0, in call',
        ]
        assert app.pane.viewport.hint == " ↓ more "
        app.pane.focus()
        await press(pilot, "end")
        end = "\n".join(app.pane.render_line(y).text for y in range(app.pane.size.height))
        assert "call_18()" in end
        assert "call_19()" in end
        await press(pilot, "enter", "x", "enter")
        assert app.calls == [("run", "ask", "Explain the error of cell 7, and how to fix it.")]


async def test_error_hidden_from_the_model_cannot_be_explained_by_it() -> None:
    failed = [
        record(tags.USER_REPL_IN, "run()", cell=7),
        record(tags.USER_REPL_OUT, "ValueError: no\n", cell=7, status="error"),
    ]
    async with KeysApp([*failed, record(tags.HIDE, entry="cell 7", hidden=True)]).run_test(
        size=SIZE
    ) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "enter", "x", "enter")
        assert app.calls == [("refused", "This entry is hidden from the model.")]


async def test_successful_cell_has_no_error_to_explain() -> None:
    async with KeysApp(cell(1)).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "enter")
        assert not {"entry-explain", "entry-frames", "entry-mention"} & offered(app)


async def test_only_cells_offer_questions_about_their_pictures() -> None:
    shown = "<Figure>\n"
    records = [
        *cell(1, "x = 1", "printed\n"),
        record(tags.USER_REPL_IN, "plt.show()", cell=7, party="you"),
        record(tags.DISPLAY, shown, cell=7, mime="image/png", data="AAAA"),
        record(
            tags.USER_REPL_OUT,
            shown,
            cell=7,
            status="ok",
            duration=0.1,
            kinds=[["display", len(shown)]],
        ),
    ]
    async with KeysApp(records).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await pilot.pause()
        assert marked(app) == "plt.show()"
        await press(pilot, "enter", "a")
        assert app.calls == [("mention", "@cell:7")]
        while marked(app) != "x = 1":
            await press(pilot, "up")
        await press(pilot, "enter")
        assert "entry-mention" not in offered(app)


async def test_a_table_of_a_cell_opens_its_value_and_scrolls_sideways() -> None:
    html = (
        "<table><tr><th></th>"
        + "".join(f"<th>column{number}</th>" for number in range(30))
        + "</tr><tr><th>0</th>"
        + "<td>1</td>" * 30
        + "</tr></table>"
    )
    records = [
        record(tags.USER_REPL_IN, "df.head()", cell=7, party="you"),
        record(tags.DISPLAY, "df\n", cell=7, mime="text/html", data=html, value="0123456789abcdef"),
        record(
            tags.USER_REPL_OUT, "df\n", cell=7, status="ok", duration=0.1, kinds=[["display", 3]]
        ),
    ]
    async with KeysApp(records).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)

        def seen() -> list[str]:
            return [app.pane.render_line(y).text for y in range(app.pane.size.height)]

        app.pane.focus()
        await press(pilot, "right", "right")
        (y,) = (y for y, line in enumerate(seen()) if "column2 " in line and "column1 " not in line)
        await press(pilot, "left", "left", "left")
        assert "column0" in seen()[y]
        await press(pilot, "enter", "o")
        assert app.calls == [("value", "0123456789abcdef")]
        await pilot.click(TranscriptPane, offset=(12, y))
        assert app.calls == [("value", "0123456789abcdef")] * 2
