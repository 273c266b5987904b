"""A look inside one variable, over a real kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Static, TabbedContent

from mahtab_tui.kernel.base import Detail, Variable
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.detail import DetailScreen
from mahtab_tui.tui.widgets.text_view import TextView
from tests.tui.editor_app import until
from tests.tui.story import drawn, story

MakeApp = Callable[..., MahtabApp]
SIZE = (100, 30)

FUNCTION = 'def far(days, limit=3):\n    """Days far from the median."""\n    return [day for day in days if day > limit]\n'
CLASS = """class Point:
    "A place."
    unit = "m"
    def __init__(self, x):
        self.x = x
    @property
    def boom(self):
        raise SystemExit
    def __repr__(self):
        return f"Point({self.x})"
p = Point(3)
"""


def detail_of(pilot: Pilot[int]) -> DetailScreen:
    assert isinstance(pilot.app.screen, DetailScreen)
    return pilot.app.screen


def shown(pilot: Pilot[int], part: str) -> str:
    return str(detail_of(pilot).query_one(f"#detail-{part}", Static).content)


async def look(pilot: Pilot[int], code: str, name: str) -> None:
    """Run a cell in a real kernel, and open a variable."""
    app = pilot.app
    assert isinstance(app, MahtabApp)
    session = app.session
    await drawn(pilot)
    await asyncio.to_thread(session.kernel.start)
    await asyncio.to_thread(session.cells.run, code)
    await app.push_screen(DetailScreen(name, session.inspect))
    await until(pilot, lambda: "…" not in shown(pilot, "title") or detail_of(pilot).query_one("#detail-error").display)


async def test_the_whole_value_its_type_and_its_size(make_app: MakeApp) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        await look(pilot, "numbers = list(range(5000))", "numbers")
        assert shown(pilot, "title").startswith("numbers  list")
        text = detail_of(pilot).query_one(TextView).text
        assert text.startswith("[0, 1, 2")
        assert text.endswith("4999]")


async def test_a_function_shows_its_source_first_and_its_docstring(make_app: MakeApp) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        await look(pilot, FUNCTION, "far")
        assert detail_of(pilot).query_one(TabbedContent).active == "source-tab"
        assert "In [1]" in shown(pilot, "source")
        assert "return [day for day in days if day > limit]" in shown(pilot, "source")
        assert "Days far from the median." in shown(pilot, "doc")


async def test_attributes_are_listed_and_no_property_is_run(make_app: MakeApp) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        await look(pilot, CLASS, "p")
        assert detail_of(pilot).query_one(TextView).text == "Point(3)"
        rows = {line.split()[0]: line.split()[1] for line in shown(pilot, "attributes").splitlines()}
        assert rows["x"] == "int"
        assert rows["unit"] == "str"
        assert rows["boom"] == "property"
        assert "A place." in shown(pilot, "doc")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("while True: pass", "did not end within"),
        ("raise ValueError('[/x] no')", "raised ValueError: [/x] no"),
        ("raise SystemExit", "raised SystemExit"),
    ],
    ids=["endless", "raises", "exits"],
)
async def test_a_repr_that_misbehaves_is_told_and_the_rest_is_shown(make_app: MakeApp, body: str, said: str) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        await look(pilot, f"class Bad:\n    'Bad.'\n    kept = 1\n    def __repr__(self):\n        {body}\nbad = Bad()", "bad")
        assert said in shown(pilot, "error")
        assert shown(pilot, "title").startswith("bad  Bad")
        assert "kept" in shown(pilot, "attributes")
        assert "Bad." in shown(pilot, "doc")


async def test_a_huge_value_is_cut_and_it_is_said(make_app: MakeApp) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        await look(pilot, "huge = 'x' * 1_000_000", "huge")
        text = detail_of(pilot).query_one(TextView).text
        assert len(text) < 250_000
        assert "800,000 characters or more left out" in text


async def test_a_variable_that_is_gone_is_told(make_app: MakeApp) -> None:
    async with make_app().run_test(size=SIZE) as pilot:
        await look(pilot, "x = 1", "nothing")
        assert "nothing" in shown(pilot, "error")


async def test_looking_again_shows_what_it_is_now_and_escape_closes(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await look(pilot, "x = 'before'", "x")
        await asyncio.to_thread(app.session.cells.run, "x = 'after'")
        await pilot.press("r")
        await until(pilot, lambda: detail_of(pilot).query_one(TextView).text == "'after'")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, DetailScreen))


ATTRIBUTES = tuple(Variable(name, type, summary, "data") for name, type, summary in [("day", "str", "'2026-03-29'"), ("revenue", "float", "112.0")])
PICTURED = Detail(
    name="worst",
    type="Day",
    summary="[/x] of 31",
    text="\n".join(f"Day('2026-03-{day:02}', revenue={day * 1234.5:.2f})" for day in range(1, 32)),
    cut=120,
    attributes=ATTRIBUTES,
    doc="A day of the month.",
    source="",
    where="",
    error="",
)


@pytest.mark.parametrize("size", [(80, 24), (160, 46)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_picture(snap_compare: Callable[..., bool], make_app: MakeApp, size: tuple[int, int]) -> None:
    async def run(pilot: Pilot[int]) -> None:
        await drawn(pilot)
        await pilot.app.push_screen(DetailScreen("worst", lambda name: PICTURED))
        await until(pilot, lambda: "31" in shown(pilot, "title"))

    assert snap_compare(make_app(*story()), terminal_size=size, run_before=run)
