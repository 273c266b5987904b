"""The transcript's widget: what it shows, its scroll position, and pictures of it."""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from PIL import Image
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip

from mahtab_tui.bus.records import AssistantReading, Namespace, Record
from mahtab_tui.bus.values import Change
from mahtab_tui.tui.rows.markdown import MarkdownRenderer
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.transcript.cell_rows import MAX_DISPLAY_CHARS
from mahtab_tui.tui.transcript.output_lines import MARKDOWN_COST
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.transcript_app import (
    SIZE,
    PaneApp,
    answer_stream,
    cell,
    cells,
    display_cell,
    focused,
    output_stream,
    record,
    shown,
    shown_app,
    top_text,
)

LINES = 100

ANSWER = """Two days are **far** from the *median* of their weekday; see `daily` and [the manual](https://example.org/median).

1. Sum the revenue of each day.
2. Compare with the median, a robust measure: a few wild days would pull the mean towards themselves.
   - nested, with `code`

| day | revenue | why |
|:----|--------:|-----|
| 2026-03-14 | 48211.50 | a campaign in the north |
| 2026-03-29 | 112.00 | database timeout |

> Somebody said so.

```sql
SELECT day, sum(revenue) FROM sales GROUP BY day; -- all
```

```python
outliers = daily[z.abs() > 3]  # three deviations
f"{outliers!r}"
```
"""

TRACEBACK = """Traceback (most recent call last):
  File "<cell 1>", line 1, in <module>
    1 / 0
    ~~^~~
ZeroDivisionError: division by zero
"""

CHANGES = [
    {"name": "daily", "change": "added", "type": "Series", "summary": "31"},
    {"name": "df", "change": "perhaps", "type": "DataFrame", "summary": "10000 × 5"},
    {"name": "tmp", "change": "deleted", "type": "", "summary": ""},
]

TURN = {"turn": 1, "step": 0, "party": "claude"}
FAILED = {"status": "error", "duration": 0.002, "kinds": [["traceback", len(TRACEBACK)]]}
READ = 'df = pd.read_csv("sales.csv")\ndf.shape'
SHAPE = "(10000, 5)\n\x1b[32mgreen\x1b[0m\n"
DAYS = "day\n2026-03-14    48211.50\n"
NOTICE = "The conversation is back; the namespace is not: run again what you need."


async def press_on(
    pilot: Pilot[None], pane: TranscriptPane, start: tuple[int, int], end: tuple[int, int]
) -> None:
    await pilot.mouse_down(pane, offset=start)
    await pilot.hover(pane, offset=end)
    await pilot.mouse_up(pane, offset=end)


async def test_a_cell_is_drawn_with_its_bar_header_code_and_output() -> None:
    app = PaneApp(cell(3, "df.shape", "(10, 5)\n"))
    async with shown_app(app):
        rows = shown(app.pane)
        assert rows[:5:2] == [" TRANSCRIPT", " ▌ df.shape", " ▌ (10, 5)"]
        assert rows[1].startswith(" ▌ In 3 · you")
        assert rows[1].endswith("0.10 s")


async def test_marks_of_very_many_changes_are_drawn_when_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mahtab_tui.tui.transcript.fold.MAX_FOLDED_CHANGES", 100)
    many = tuple(Change(f"x{number}", "added", None, None) for number in range(350))
    rebound = (Change("x349", "rebound", None, None),)
    app = PaneApp(
        [
            *cell(1, "make()"),
            Namespace(cell=1, party="you", changes=many),
            *cell(2, "print(x349)"),
            *cell(3, "x349 = 0"),
            Namespace(cell=3, party="you", changes=rebound),
        ]
    )
    async with shown_app(app, (60, 40)) as pilot:
        await until(pilot, lambda: "stale: uses `x349`" in "\n".join(shown(app.pane)))


async def test_every_row_is_exactly_as_wide_as_the_pane() -> None:
    hostile = (
        "你好 👩‍👩‍👧 e\u0301 \u202eabc\x1b]52;c;aGk=\x07\x00\ud800 [/x] [@click=app.quit]x[/]\n"
        f"{'w' * 500}\n"
    )
    notice = record(tags.NOTICE, hostile, level="error")
    app = PaneApp([*cell(1, "x = '[/red]'" * 20, hostile), notice])
    async with shown_app(app) as pilot:
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
    async with shown_app(app):
        placed: list[bool] = []
        app.pane._update_scroll = lambda: placed.append(True)  # type: ignore[method-assign]
        app.pane.fold([record(tags.RLM_CHAT_STREAM, "of a search", tree="t", node="1", turn=1)])
        assert not placed
        app.pane.fold(cells(1))
        assert placed


async def test_growing_answer_redraws_only_its_end_without_a_layout() -> None:
    app = PaneApp([*cells(10), answer_stream("Some words")])
    async with shown_app(app) as pilot:
        layouts: list[Screen[object]] = []
        app.screen.screen_layout_refresh_signal.subscribe(app.pane, layouts.append)
        drawn: list[int] = []
        render_line = app.pane.render_line

        def counted(y: int) -> Strip:
            drawn.append(y)
            return render_line(y)

        app.pane.render_line = counted  # type: ignore[method-assign]
        app.pane.fold([answer_stream(" and more")])
        await pilot.pause()
        assert set(drawn) == {SIZE[1] - 4}, "only the row of the words, above the input"
        assert render_line(drawn[0]).text.rstrip().endswith("Some words and more")
        app.pane.fold([answer_stream(f"\n\nparagraph {number}") for number in range(20)])
        await pilot.pause()
        assert app.pane.vertical_scrollbar.window_virtual_size == app.pane.virtual_size.height
        assert shown(app.pane)[-1].endswith("paragraph 19")
        assert not layouts


async def test_selected_text_is_copied_without_bars_and_soft_line_breaks() -> None:
    long = "a" * 100
    app = PaneApp(cell(1, "one = 1\ntwo = 2", f"{long}\nend\n"))
    async with shown_app(app) as pilot:
        await press_on(pilot, app.pane, (3, 2), (5, 7))
        assert app.screen.get_selected_text() == f"one = 1\ntwo = 2\n\n{long}\nend"


async def test_double_click_selects_a_word_and_a_third_click_the_whole_line() -> None:
    long = "word " * 40
    app = PaneApp(cell(1, "sales_2024 = df.total", f"{long}\nend\n"))
    async with shown_app(app) as pilot:
        await pilot.click(app.pane, offset=(6, 2), times=2)
        assert app.screen.get_selected_text() == "sales_2024"
        await pilot.click(app.pane, offset=(16, 2), times=2)
        assert app.screen.get_selected_text() == "df"
        await pilot.click(app.pane, offset=(18, 2), times=2)
        assert app.screen.get_selected_text() == "."
        await pilot.click(app.pane, offset=(3, 5), times=3)
        assert app.screen.get_selected_text() == long.rstrip()


async def test_selected_letters_are_visible() -> None:
    app = PaneApp(cell(1, "frame.describe()"))
    async with shown_app(app) as pilot:
        for theme in sorted(app.available_themes):
            app.theme = theme
            await press_on(pilot, app.pane, (3, 2), (7, 2))
            (letter,), (plain,) = (app.pane.render_line(2).crop(x, x + 1) for x in (3, 12))
            assert letter.style is not None
            assert plain.style is not None
            assert letter.style.bgcolor != plain.style.bgcolor, theme
            assert letter.style.color != letter.style.bgcolor, theme


async def test_a_selection_stays_with_its_text_while_the_transcript_grows() -> None:
    app = PaneApp([record(tags.USER_REPL_IN, "slow()", cell=99), *cells(10)])
    async with shown_app(app) as pilot:
        last_row = app.pane.size.height - 1
        await press_on(pilot, app.pane, (3, last_row), (8, last_row))
        assert app.screen.get_selected_text() == "output"
        app.pane.fold([output_stream("line\n" * 40, 99), *cells(5, first_number=11)])
        await pilot.pause()
        assert app.screen.get_selected_text() == "output"


def has_row(app: PaneApp, pattern: str) -> bool:
    return any(re.search(pattern, row) for row in shown(app.pane))


async def test_one_spinner_turns_while_the_model_works_and_stops_with_its_answer() -> None:
    app = PaneApp(cells(1))
    async with shown_app(app) as pilot:
        app.pane.fold([record(tags.AGENT, turn=1, step=0, state="thinking", party="claude")])
        await pilot.pause()
        assert has_row(app, r"Claude is thinking · \d+ s")
        app.pane.fold([answer_stream("Yes")])
        await pilot.pause()
        assert shown(app.pane)[6] == " ▌ Claude  Yes"
        assert has_row(app, r"Claude is writing · \d+ s")
        app.pane.fold([record(tags.ASSISTANT_CHAT, "Yes", turn=1, step=0, party="claude")])
        await pilot.pause()
        assert not has_row(app, "Claude is")


async def test_a_bar_shows_how_much_of_a_prompt_the_model_has_read() -> None:
    app = PaneApp(cells(1))
    turn: dict[str, Any] = {"turn": 1, "step": 2, "party": "claude"}
    async with shown_app(app) as pilot:
        app.pane.fold([record(tags.AGENT, state="thinking", **turn)])
        app.pane.fold([AssistantReading(**turn, share=0.45)])
        await pilot.pause()
        bar = "█" * 9 + "░" * 11
        assert has_row(app, rf"Claude is reading {bar} 45% · \d+ s")
        app.pane.fold([AssistantReading(**turn, share=1.0)])
        await pilot.pause()
        assert has_row(app, r"Claude is thinking · step 3 · \d+ s")


async def test_clearing_empties_the_transcript() -> None:
    app = PaneApp(cells(30))
    async with shown_app(app) as pilot:
        app.pane.clear()
        await pilot.pause()
        assert "F1" in "\n".join(shown(app.pane))
        app.pane.fold(cells(1, first_number=31))
        assert shown(app.pane)[2] == " ▌ cell_31"


# Scroll position of the transcript: at its tail, or where the user has scrolled to.


async def test_scrolled_up_transcript_stays() -> None:
    app = PaneApp(cells(30))
    async with focused(app) as pilot:
        await pilot.press("pageup", "pageup")
        old_rows = shown(app.pane)
        app.pane.fold(cells(2, first_number=31))
        await pilot.pause()
        new_rows = shown(app.pane)
        assert new_rows[:-1] == old_rows[:-1]
        assert new_rows[-1].endswith("↓ more")
        await pilot.press("end")
        await pilot.pause()
        assert shown(app.pane)[-1].endswith("▌ output 32")


async def test_scroll_position_stays_while_entries_above_it_grow() -> None:
    app = PaneApp([record(tags.USER_REPL_IN, "slow()", cell=99), *cells(30)])
    async with shown_app(app) as pilot:
        app.pane.action_page_up()
        await pilot.pause()
        old_rows = shown(app.pane)
        app.pane.fold([output_stream("line\n" * 40, 99)])
        await pilot.pause()
        assert shown(app.pane)[:-1] == old_rows[:-1]


async def test_paging_up_shows_every_row_once_despite_estimated_heights() -> None:
    long = "word " * 60
    outputs = [f"first {number}\n{long}\nlast {number}\n" for number in range(1, 20)]
    app = PaneApp(
        [cell_record for n, text in enumerate(outputs, 1) for cell_record in cell(n, output=text)]
    )
    async with shown_app(app) as pilot:
        pages = [shown(app.pane)[1:]]
        while app.pane.scroll_offset.y:
            app.pane.action_page_up()
            await pilot.pause()
            pages.append(shown(app.pane)[1:])
        tail = [row.strip(" ▌") for row in "\n".join("\n".join(page) for page in pages).split("\n")]
        assert {f"{end} {number}" for end in ("first", "last") for number in range(1, 20)} <= {
            *tail
        }
        for earlier, later in pairwise(pages):
            if later[0].startswith(" ▌ In 1 ·"):
                break
            assert earlier[0] == later[-1]


async def test_top_line_stays_when_the_width_changes() -> None:
    text = "".join(f"{number} " + "x " * 35 + "\n" for number in range(45))
    app = PaneApp(cell(1, output=text))
    async with shown_app(app) as pilot:
        app.pane.scroll_to(y=51, animate=False)
        await pilot.pause()
        line = top_text(app.pane).split()[0]
        for width in (100, 40, 60):
            await pilot.resize_terminal(width, 20)
            await pilot.pause()
            assert top_text(app.pane).split()[0] == line


async def test_tail_is_still_followed_after_a_resize() -> None:
    app = PaneApp(cells(30))
    async with shown_app(app) as pilot:
        for size in ((30, 20), (80, 12), (60, 30)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert shown(app.pane)[-1] == " ▌ output 30"


async def test_a_resumed_session_of_thousands_of_records_shows_its_tail() -> None:
    app = PaneApp(cells(5_000))
    async with shown_app(app) as pilot:
        assert shown(app.pane)[-1] == " ▌ output 5000"
        app.pane.action_scroll_home()
        await pilot.pause()
        assert shown(app.pane)[2] == " ▌ cell_1"


# Texts that are read from their beginning, such as help, are shown from there.


@pytest.fixture
def drawing_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads on which Markdown is drawn."""
    names: list[str] = []
    draw = MarkdownRenderer.document

    def note_and_draw(*args: Any) -> list[Row]:
        names.append(threading.current_thread().name)
        return draw(*args)

    monkeypatch.setattr(MarkdownRenderer, "document", note_and_draw)
    return names


def reading(number: int, code: str, mime: str, *, text_after: str = "") -> list[Record]:
    """A cell that shows a long text, and prints something after it."""
    text = "".join(f"line {line}\n\n" for line in range(LINES))
    kinds = [["display", len(text)], *([["stdout", len(text_after)]] if text_after else [])]
    started, output_record = cell(number, code, text + text_after, kinds=kinds)
    data = "" if mime == "text/plain" else text
    return [started, record(tags.DISPLAY, text, cell=number, mime=mime, data=data), output_record]


@pytest.mark.parametrize("mime", ["text/plain", "text/markdown"])
@pytest.mark.parametrize("text_after", ["", "\n"])
async def test_long_text_is_shown_from_its_start_with_the_code_above(
    mime: str, text_after: str
) -> None:
    app = PaneApp(cells(10))
    async with shown_app(app) as pilot:
        app.pane.fold(reading(11, "df?", mime, text_after=text_after))
        await pilot.pause()
        rows = shown(app.pane)
        assert rows[3].endswith("df?")
        assert rows[5] == " ▌ line 0"
        assert rows[-1].endswith("↓ more")


@pytest.mark.parametrize("count", [1, 3])
async def test_long_markdown_is_drawn_on_a_thread(count: int, drawing_threads: list[str]) -> None:
    source = "- one of *many* words\n" * (MAX_DISPLAY_CHARS // MARKDOWN_COST // 10)
    shown_data = {"mime": "text/markdown", "data": source}
    texts = [f"text {number}" for number in range(count)]
    started, output_record = cell(1, "show()", "".join(texts), kinds=[["display", 6]] * count)
    displays = [record(tags.DISPLAY, text, cell=1, **shown_data) for text in texts]
    app = PaneApp([started, *displays, output_record])
    async with shown_app(app) as pilot:
        await until(pilot, lambda: "• one of many words" in shown(app.pane)[-2])
        await until(pilot, lambda: len(app.pane.viewport) > count * source.count("\n"))
    assert drawing_threads == ["display"] * count


async def test_keys_reach_the_end_of_the_text_and_the_next_cell_replaces_it() -> None:
    app = PaneApp(reading(1, "df?", "text/plain"))
    async with focused(app) as pilot:
        await pilot.press("end")
        await pilot.pause()
        assert shown(app.pane)[-1].endswith(f"▌ line {LINES - 1}")
        app.pane.fold(reading(2, "other?", "text/plain"))
        await pilot.pause()
        assert "other?" in shown(app.pane)[3]
        await pilot.press("pagedown")
        await pilot.pause()
        assert shown(app.pane)[2].endswith("▌ line 6")
        app.pane.action_scroll_end()
        app.pane.fold(cells(1, first_number=3))
        await pilot.pause()
        assert shown(app.pane)[-1].endswith("▌ output 3")


def past_record(tag: str, text: str = "", /, **attrs: Any) -> Record:
    return made(tag, text, attrs)


SESSION = [
    past_record(tags.USER_REPL_IN, "1 / 0", cell=1, party="you"),
    past_record(tags.USER_REPL_OUT, TRACEBACK, cell=1, **FAILED),
    past_record(tags.USER_REPL_IN, READ, cell=3, party="you"),
    past_record(tags.USER_REPL_OUT, SHAPE, cell=3, status="ok", duration=0.08),
    past_record(tags.USER_CHAT, "which days are outliers, and why?", turn=1),
    past_record(tags.ASSISTANT_CHAT, ANSWER, **TURN),
    past_record(tags.ASSISTANT_REPL_IN, "outliers = daily[z.abs() > 3]", cell=4, block=0, **TURN),
    past_record(tags.ASSISTANT_REPL_OUT, DAYS, cell=4, status="ok", duration=0.21),
    past_record(tags.NAMESPACE, cell=4, party="claude", changes=CHANGES),
    past_record(tags.NOTICE, NOTICE, level="info"),
]


@pytest.mark.parametrize(
    ("theme", "size"),
    [("mahtab", (80, 24)), ("mahtab-day", (120, 46))],
    ids=["mahtab-80x24", "mahtab-day-120x46"],
)
def test_session_snapshot(
    snap_compare: Callable[..., bool], size: tuple[int, int], theme: str
) -> None:
    app = PaneApp(SESSION)
    app.theme = theme
    assert snap_compare(app, terminal_size=size)


def _gradient() -> str:
    image = Image.new("RGB", (240, 120))
    file = io.BytesIO()
    image.putdata([(x, 2 * y, 128) for y in range(120) for x in range(240)])
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_displays_snapshot(snap_compare: Callable[..., bool]) -> None:
    columns = "".join(f"<th>column {number}</th>" for number in range(12))
    lines = "".join(
        f"<tr><th>{line}</th>{''.join(f'<td>{line * number / 7:.4f}</td>' for number in range(12))}</tr>"
        for line in range(4)
    )
    frame = f"<table><tr><th></th>{columns}</tr>{lines}</table><p>4 rows × 12 columns</p>"
    displays = {
        "text/html": frame,
        "text/markdown": "## Found\n\n- *one*\n- `two`",
        "image/png": _gradient(),
    }
    shown_data = [{"mime": mime, "data": data} for mime, data in displays.items()]
    records = display_cell(1, "display(df, words, figure)", *shown_data, duration=0.2)

    async def pictured(pilot: Pilot[None]) -> None:
        pane = pilot.app.query_one(TranscriptPane)
        await until(pilot, lambda: any("▀" in row for row in shown(pane)))

    assert snap_compare(PaneApp(records), terminal_size=(120, 46), run_before=pictured)
