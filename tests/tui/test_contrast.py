"""Our themes can be read: WCAG's level AA for each pair of colours that they use. Each picture of the
other tests is read, too (`snap_compare` of `conftest.py`)."""

from __future__ import annotations

from itertools import product

import pytest
from textual.color import Color
from textual.theme import Theme

from mahtab_tui.tui.theme import AGENT_COLOURS, CONTRAST_THEMES, OUR_THEMES
from tests import tags
from tests.records import made
from tests.tui.contrast import SHAPE_RATIO, TEXT_RATIO, contrast_ratio, find_faults
from tests.tui.scripted_session import WAITING, MakeApp, log, sales_records, showing

WORDS = ("person", "model", "highlight", "good", "bad", *AGENT_COLOURS)
"""The roles that colour words on every background, that of a selected row included."""
SURFACES = ("background", "surface", "panel")
AAA_RATIO = 7.0
ERROR = 'Traceback (most recent call last):\n  File "<cell 5>", line 1, in <module>\nZeroDivisionError: division by zero\n'


def colour(theme: Theme, name: str) -> Color:
    return Color.parse(theme.variables.get(name) or getattr(theme, name))


@pytest.mark.parametrize("theme", OUR_THEMES, ids=lambda theme: theme.name)
def test_every_role_can_be_read_on_every_background(theme: Theme) -> None:
    words = [*product((*WORDS, "foreground"), (*SURFACES, "selected-row"))]
    words += product(["muted"], SURFACES)
    # On the keys of a row that asks something.
    words += product(["background"], ["good", "person", "highlight"])
    edges = product(["edge"], SURFACES)
    needed_ratios = {**dict.fromkeys(words, TEXT_RATIO), **dict.fromkeys(edges, SHAPE_RATIO)}
    ratios = {
        pair: contrast_ratio(colour(theme, pair[0]), colour(theme, pair[1]))
        for pair in needed_ratios
    }
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < needed_ratios[pair]} == {}


@pytest.mark.parametrize("theme", CONTRAST_THEMES, ids=lambda theme: theme.name)
def test_high_contrast_reaches_level_aaa_and_its_lines_are_visible(theme: Theme) -> None:
    for surface in SURFACES:
        background = colour(theme, surface)
        for role in (*WORDS, "muted", "foreground"):
            assert contrast_ratio(colour(theme, role), background) >= AAA_RATIO
        assert contrast_ratio(colour(theme, "hairline"), background) >= SHAPE_RATIO


def test_contrast_is_computed_as_the_guidelines_say() -> None:
    assert contrast_ratio(Color.parse("#fff"), Color.parse("#000")) == pytest.approx(21)
    # The example of the guidelines' tools: the lightest grey that can be read on white.
    assert contrast_ratio(Color.parse("#767676"), Color.parse("#fff")) == pytest.approx(
        4.54, abs=0.01
    )


@pytest.mark.parametrize(
    "keys",
    [
        [],
        ["ctrl+p"],
        ["f1"],
        ["ctrl+o"],
        [*"def f(x):return (None, 's', 1) # note", "shift+home"],
        ["ctrl+f", *"day"],
        ["f7", "e"],
        ["f3"],
        [*"f2", *"/theme", "enter"],
        ["ctrl+q"],
    ],
    ids=["story", "palette", "help", "jump", "selected", "find", "edit", "side", "theme", "quit"],
)
async def test_screens_can_be_read(make_app: MakeApp, keys: list[str]) -> None:
    async with showing(make_app(*sales_records(), WAITING), size=(100, 30)) as pilot:
        failed = made(tags.USER_REPL_OUT, ERROR, {"cell": 5, "status": "error"}, 1.0)
        await log(pilot, made(tags.USER_REPL_IN, "1 / 0", {"cell": 5}, 1.0), failed)
        pilot.app.notify("Copied.")
        pilot.app.notify("It was not saved.", severity="error")
        await pilot.press(*keys)
        await pilot.pause()
        assert await find_faults(pilot) == []
