"""Figures that are marked in an answer, long answers, and hidden entries."""

from __future__ import annotations

import re
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from markdown_it import helpers
from textual.widgets import OptionList

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import AnswerText
from mahtab_tui.bus.records import AnswerFigure, Record
from mahtab_tui.tui.rows import markdown_parser
from mahtab_tui.tui.rows.row import BAR
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, Palette
from mahtab_tui.tui.transcript.words_rows import WordsRows
from tests import tags
from tests.tui.test_transcript_keys import KeysApp, conversation, marked, press
from tests.tui.test_transcript_pane import SESSION, past_record
from tests.tui.transcript_app import SIZE, answer_stream, cell, cells, focused, record, shown
from tests.unit.transcripts import palette_of

# Figures in an answer that no code computed are marked and named.

ANSWER = 'Of 406 cars, **8** have it; `USA` and "Japan" too. It is 10.'
FIGURES = (
    AnswerFigure("406", True),
    AnswerFigure("8", True, 2),
    AnswerFigure("`USA`", True, 1),
    AnswerFigure('"Japan"', False),
    AnswerFigure("10", False),
)
PALETTES = [palette_of(theme) for theme in (MAHTAB, MAHTAB_DAY)]


def answer(text: str = ANSWER, figures: tuple[AnswerFigure, ...] = FIGURES) -> Record:
    return records.AssistantChat(text, turn=1, step=0, party="demo", figures=figures)


def rows_of(
    text: str, figures: tuple[AnswerFigure, ...], palette: Palette = PALETTES[0], width: int = 60
) -> WordsRows:
    words = AnswerText(author="demo", source=text, shows_author=False, figures=figures)
    rows = WordsRows(words, width, palette)
    rows.update()
    return rows


def underlined(rows: WordsRows) -> list[tuple[str, object]]:
    """Underlined pieces and their colours."""
    spans = [span for row in rows for span in row.spans]
    return [(text, style.color) for text, style in spans if style.underline]


@pytest.mark.parametrize("palette", PALETTES, ids=["night", "day"])
def test_uncomputed_figure_is_underlined_and_named_but_not_a_found_one(palette: Palette) -> None:
    rows = rows_of(ANSWER, FIGURES, palette)
    assert [row.text for row in rows] == [
        'Of 406 cars, 8 have it; USA and "Japan" too. It is 10.',
        'not computed: "Japan", 10',
    ]
    assert underlined(rows) == [('"Japan"', palette.muted.color), ("10", palette.muted.color)]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("10 of df10, cell 10, v10, 100 and 10.5", ["10"]),
        ("| n | name |\n| -: | --- |\n| 10 | *10* |", ["10", "10"]),
        ("- 10\n- > **10**\n\n10. ten\n\n# 10\n\n```\n10\n```", ["10", "10"]),
        ("`10` and 1,234,567", ["10"]),
        ("[10](https://a.org/10)", ["10"]),
        ("\x1b[31m10\x1b[0m [bold]10[/bold] <b>10</b>", ["10", "10", "10"]),
    ],
)
def test_figures_are_marked_where_they_are_drawn(text: str, marked: list[str]) -> None:
    figures = (AnswerFigure("10", False), AnswerFigure("`10`", False))
    drawn = underlined(rows_of(text, figures))
    muted = PALETTES[0].muted.color
    assert [text for text, color in drawn if color == muted and "http" not in text] == marked


def test_figure_may_wrap_and_the_line_of_names_is_cut() -> None:
    figures = (AnswerFigure('"a very\x1b[2J long name"', False), AnswerFigure("1,234", False))
    rows = rows_of('It is "a very\x1b[2J long name" of 1,234.', figures, width=16)
    assert rows[-1].text == 'not computed: "…'
    assert "".join(text for text, _ in underlined(rows)) == '"a very long name"1,234'
    assert max(len(row.text) for row in rows) <= 16


def test_many_figures_of_a_hostile_answer_are_drawn() -> None:
    text = " ".join(f"{number}," for number in range(100_000))
    rows = rows_of(text, tuple(AnswerFigure(str(number), False) for number in range(2, 300)))
    assert "not computed: 2, 3, 4" in rows[-1].text


def drawn_while_streamed(text: str, step: int) -> WordsRows:
    words = AnswerText(author="demo", source="", shows_author=False)
    rows = WordsRows(words, 60, PALETTES[0])
    for end in range(step, len(text) + step, step):
        words.source = text[:end]
        rows.update()
    return rows


@pytest.mark.parametrize("line", ["# {}\n", "- {}\n", "{}\n\n", "{}. item\n", "> {}\n"])
def test_of_very_many_short_lines_only_the_two_ends_are_drawn(line: str) -> None:
    text = "".join(line.format(number) for number in range(5_000))
    for rows in (rows_of(text, ()), drawn_while_streamed(text, 1_000)):
        numbers = [
            int(number) for number in re.findall(r"\d+", "\n".join(row.text for row in rows))
        ]
        assert len(rows) < 3_500
        assert numbers[:3] == [0, 1, 2]
        assert numbers[-3:] == [4_997, 4_998, 4_999]
        assert any("characters left out (Enter shows all)" in row.text for row in rows)


def test_marks_of_a_long_block_are_not_searched_again_for_each_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse = Mock(wraps=markdown_parser.parse)
    monkeypatch.setattr("mahtab_tui.tui.transcript.words_rows.parse", parse)
    text = "".join(f"*a{number}* _b " for number in range(2_000))
    rows = drawn_while_streamed(text, 100)
    drawn = "".join(row.text for row in rows)
    assert re.findall(r"a\d+", drawn) == [f"a{number}" for number in range(2_000)]
    parsed_chars = sum(len(call.args[0]) for call in parse.call_args_list)
    assert parsed_chars < len(text) * 70  # of 230 frames; half of all texts would be 115


def test_brackets_without_a_link_are_not_searched_up_to_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = Mock(wraps=helpers.parseLinkLabel)
    monkeypatch.setattr(helpers, "parseLinkLabel", search)
    words = rows_of("[![" * 1_000, ())
    assert "".join(row.text for row in words) == "[![" * 1_000
    assert not search.called
    assert rows_of("[a](http://b) [![", ())[0].text == "a (http://b) [!["
    assert search.called


def test_near_miss_is_named_with_the_printed_figure() -> None:
    figure = AnswerFigure("3.33", False, near="3.23\x1b[2J")
    assert rows_of("It is 3.33.", (figure,))[-1].text == "not computed: 3.33 (printed: 3.23)"


async def test_a_click_on_a_figure_goes_to_its_cell() -> None:
    app = KeysApp([*cells(19), answer()])
    async with app.run_test(size=SIZE) as pilot:
        y = next(y for y, line in enumerate(shown(app.pane)) if "have it" in line)
        await pilot.click(app.pane, (shown(app.pane)[y].index("406"), y))
        assert marked(app) == ANSWER  # it comes from no cell
        await pilot.click(app.pane, (shown(app.pane)[y].index("8 have"), y))
        assert marked(app) == "cell_2"
        assert any("cell_2" in line for line in shown(app.pane))


async def test_menu_leads_to_the_cells() -> None:
    app = KeysApp([*cell(1), *cell(2), answer()])
    async with focused(app) as pilot:
        await press(pilot, "enter")
        assert isinstance(app.screen, ActionMenu)
        commands = [
            command for command in app.screen.commands if command.id.startswith("entry-figure")
        ]
        assert [command.title for command in commands] == [
            "Go to where 8 comes from (cell 2)",
            "Go to where `USA` comes from (cell 1)",
        ]
        await press(pilot, "up", "enter")
        assert marked(app) == "cell_1"


async def test_menu_shows_a_figure_without_its_control_characters() -> None:
    figure = AnswerFigure('"a\x1b[2J name"', True, 1)
    app = KeysApp([*cell(1), answer(f"It is {figure.text}.", (figure,))])
    async with focused(app) as pilot:
        await press(pilot, "enter")
        options = app.screen.query_one(OptionList)
        drawn = "".join(options.render_line(y).text for y in range(options.size.height))
        assert "Go to where" in drawn
        assert "\x1b" not in drawn


async def test_text_around_code_names_its_own_figures() -> None:
    text = "Here are 10.\n\n```python\nx = 1\n```\n\nThen 8 and 12."
    figures = (AnswerFigure("10", False), AnswerFigure("12", False))
    app = KeysApp([answer_stream("Here are 10."), answer(text, figures)])
    async with app.run_test(size=SIZE):
        assert [line.strip(" ▌") for line in shown(app.pane) if "not computed" in line] == [
            "not computed: 10",
            "not computed: 12",
        ]
        assert [entry.plain_text for entry in app.pane.viewport.transcript.entries] == [
            "Here are 10.",
            "x = 1",
            "Then 8 and 12.",
        ]


async def test_streamed_text_is_marked_when_the_answer_is_complete() -> None:
    words = "Here are 10.\n\nThen 10."
    app = KeysApp([answer_stream(words)])
    async with app.run_test(size=SIZE):

        def marks() -> list[str]:
            segments = [segment for y in range(SIZE[1] - 4) for segment in app.pane.render_line(y)]
            return [text for text, style, _ in segments if style is not None and style.underline]

        assert marks() == []
        app.pane.fold([answer(words, (AnswerFigure("10", False),))])
        assert marks() == ["10", "10"]


# Entries that the user hides from the model.


def lines(app: KeysApp) -> list[str]:
    return shown(app.pane)[1:]


async def test_a_key_hides_the_marked_entry_and_shows_it_again() -> None:
    app = KeysApp(conversation())
    async with focused(app) as pilot:
        await press(pilot, *["up"] * 4)
        old_lines = lines(app)
        await press(pilot, "enter", "m")
        assert app.calls == [("hide", "question 1", True)]
        app.pane.fold([record(tags.HIDE, entry="question 1", hidden=True)])
        (hidden_line,) = [line for line in lines(app) if "hidden from the model" in line]
        assert "what is x?" in hidden_line
        await press(pilot, "enter", "m")
        assert app.calls[-1] == ("hide", "question 1", False)
        app.pane.fold([record(tags.HIDE, entry="question 1", hidden=False)])
        assert lines(app) == old_lines


async def test_rewound_entry_stays_hidden_with_a_note() -> None:
    replaced = record(tags.REPLACE, "The namespace stays as it is.", entry="question 1")
    app = KeysApp([*conversation(), replaced])
    async with focused(app) as pilot:
        assert any("The namespace stays" in line for line in lines(app))
        assert sum(line.endswith("rewound") for line in lines(app)) == 5
        first_row = 1 + next(y for y, line in enumerate(lines(app)) if line.endswith("rewound"))
        rows = [app.pane.render_line(y) for y in range(first_row, app.pane.size.height)]
        bars = [segment.style for row in rows for segment in row if segment.text == BAR]
        assert len(bars) > 5
        muted = PALETTES[0].muted
        assert all(bar is not None and bar.color == muted.color for bar in bars)
        await press(pilot, "enter", "m")
        assert app.calls == [("refused", "This entry was rewound, so the model does not see it.")]


def test_hidden_entries_are_dimmed(snap_compare: Callable[..., bool]) -> None:
    hidden = [
        past_record(tags.HIDE, entry=entry, hidden=True) for entry in ("cell 3", "answer 1.0")
    ]
    assert snap_compare(KeysApp([*SESSION, *hidden]), terminal_size=(80, 46))
