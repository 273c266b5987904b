"""Figures in an answer: those that nobody computed are marked and named, the others lead to their
cells."""

from __future__ import annotations

import pytest
from rich.style import Style
from textual.pilot import Pilot

from mahtab_tui.bus import records
from mahtab_tui.bus.conversation import Words
from mahtab_tui.bus.records import AnswerFigure, Record
from mahtab_tui.tui.rows.markdown import FIGURE
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, Palette, role_variables
from mahtab_tui.tui.transcript.layout import WordsRows
from tests.tui.test_transcript_keys import KeysApp, marked, press
from tests.tui.transcript_app import SIZE, cell, shown

ANSWER = 'Of 406 cars, **8** have it; `USA` and "Japan" too. It is 10.'
FIGURES = (
    AnswerFigure("406", True),
    AnswerFigure("8", True, 2),
    AnswerFigure("`USA`", True, 1),
    AnswerFigure('"Japan"', False),
    AnswerFigure("10", False),
)
PALETTES = [
    Palette.of(
        {
            **role_variables(theme),
            "foreground": theme.foreground or "",
            "surface": theme.surface or "",
            "panel": theme.panel or "",
        }
    )
    for theme in (MAHTAB, MAHTAB_DAY)
]


def answer(text: str = ANSWER, figures: tuple[AnswerFigure, ...] = FIGURES) -> Record:
    return records.AssistantChat(text, turn=1, step=0, party="demo", figures=figures)


def rows_of(
    text: str, figures: tuple[AnswerFigure, ...], palette: Palette = PALETTES[0], width: int = 60
) -> WordsRows:
    rows = WordsRows(
        Words(author="demo", source=text, named=False, figures=figures), width, palette
    )
    rows.update()
    return rows


def pieces(rows: WordsRows) -> list[tuple[str, Style]]:
    return [span for row in rows for span in row.spans]


@pytest.mark.parametrize("palette", PALETTES, ids=["night", "day"])
def test_uncomputed_figure_is_underlined_and_named_but_not_a_found_one(
    palette: Palette,
) -> None:
    rows = rows_of(ANSWER, FIGURES, palette)
    assert [row.text for row in rows] == [
        'Of 406 cars, 8 have it; USA and "Japan" too. It is 10.',
        'not computed: "Japan", 10',
    ]
    assert [(text, style.color) for text, style in pieces(rows) if style.underline] == [
        ('"Japan"', palette.muted.color),
        ("10", palette.muted.color),
    ]
    assert [(text, style.meta[FIGURE]) for text, style in pieces(rows) if FIGURE in style.meta] == [
        ("8", 2),
        ("USA", 1),
    ]
    assert next(style for text, style in pieces(rows) if text == "8").bold


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ("10 of df10, cell 10, `x = 10`, v10, 100 and 10.5", ["10"]),
        ("| n | name |\n| -: | --- |\n| 10 | *10* |", ["10", "10"]),
        ("- 10\n- > **10**\n\n10. ten\n\n# 10\n\n```\n10\n```", ["10", "10"]),
        ("`10` and 1,234,567", ["10"]),
        ("**1**0 [10](https://a.org/10)", ["1", "0", "10"]),
        ("\x1b[31m10\x1b[0m [bold]10[/bold] <b>10</b>", ["10", "10", "10"]),
    ],
)
def test_figures_are_marked_where_they_are_drawn(text: str, underlined: list[str]) -> None:
    figures = (AnswerFigure("10", False), AnswerFigure("`10`", False))
    rows = rows_of(text, figures)
    drawn = [
        text
        for text, style in pieces(rows)
        if style.underline and style.color == PALETTES[0].muted.color
    ]
    assert [text for text in drawn if "http" not in text] == underlined


def test_figure_may_wrap_and_the_line_of_names_is_cut() -> None:
    figures = (AnswerFigure('"a very\x1b[2J long name"', False), AnswerFigure("1,234", False))
    rows = rows_of('It is "a very\x1b[2J long name" of 1,234.', figures, width=16)
    assert [row.text for row in rows][-1] == 'not computed: "…'
    assert (
        "".join(text for text, style in pieces(rows) if style.underline)
        == '"a very long name"1,234'
    )
    assert max(len(row.text) for row in rows) <= 16


def test_many_figures_of_a_hostile_answer_are_drawn() -> None:
    text = " ".join(f"{number}," for number in range(100_000))
    rows = rows_of(text, tuple(AnswerFigure(str(number), False) for number in range(2, 300)))
    assert "not computed: 2, 3, 4" in rows[-1].text


def lines_of(pilot: Pilot[None]) -> list[str]:
    app = pilot.app
    assert isinstance(app, KeysApp)
    return shown(app.pane)


async def test_a_click_on_a_figure_goes_to_its_cell() -> None:
    async with KeysApp(
        [*cell(1), *cell(2), *(one for number in range(3, 20) for one in cell(number)), answer()]
    ).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        y = next(y for y, line in enumerate(lines_of(pilot)) if "have it" in line)
        await pilot.click(app.pane, (lines_of(pilot)[y].index("406"), y))
        assert marked(app) == ANSWER  # it comes from no cell
        await pilot.click(app.pane, (lines_of(pilot)[y].index("8 have"), y))
        assert marked(app) == "cell_2"
        assert any("cell_2" in line for line in lines_of(pilot))


async def test_figure_is_underlined_on_hover_and_in_the_marked_entry() -> None:
    async with KeysApp([*cell(1), *cell(2), answer()]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        y = next(y for y, line in enumerate(lines_of(pilot)) if "have it" in line)

        def underlined() -> list[str]:
            return [
                text
                for text, style, _ in app.pane.render_line(y)
                if style is not None and style.underline
            ]

        quiet = underlined()
        await pilot.hover(app.pane, (lines_of(pilot)[y].index("8 have"), y))
        assert underlined() == ["8", *quiet]
        await pilot.hover(app.pane, (1, 0))
        assert underlined() == quiet
        app.pane.focus()
        await pilot.pause()
        assert underlined() == ["8", "USA", *quiet]


async def test_menu_leads_to_the_cells() -> None:
    async with KeysApp([*cell(1), *cell(2), answer()]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "enter")
        assert isinstance(app.screen, ActionMenu)
        titles = [
            command.title
            for command in app.screen.commands
            if command.id.startswith("entry-figure")
        ]
        assert titles == [
            "Go to where 8 comes from (cell 2)",
            "Go to where `USA` comes from (cell 1)",
        ]
        await press(pilot, "up", "enter")
        assert marked(app) == "cell_1"


async def test_cleared_cell_is_refused() -> None:
    async with KeysApp([answer()]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        app.pane.focus()
        await press(pilot, "enter", "up", "enter")
        assert app.calls == [("refused", "Cell 1 is no longer in the transcript.")]


async def test_text_around_code_names_its_own_figures() -> None:
    parts = answer(
        "Here are 10.\n\n```python\nx = 1\n```\n\nThen 8 and 12.",
        (AnswerFigure("10", False), AnswerFigure("12", False)),
    )
    stream = records.AssistantChatStream("Here are 10.", turn=1, step=0, party="demo")
    async with KeysApp([stream, parts]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)
        assert [line.strip(" ▌") for line in lines_of(pilot) if "not computed" in line] == [
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
    async with KeysApp([records.AssistantChatStream(words, turn=1, step=0, party="demo")]).run_test(
        size=SIZE
    ) as pilot:
        app = pilot.app
        assert isinstance(app, KeysApp)

        def underlined() -> list[str]:
            return [
                text
                for y in range(SIZE[1] - 4)
                for text, style, _ in app.pane.render_line(y)
                if style is not None and style.underline
            ]

        assert underlined() == []
        app.pane.fold([answer(words, (AnswerFigure("10", False),))])
        assert underlined() == ["10", "10"]
