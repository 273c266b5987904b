"""The inspector's table: seen, sorted, filtered and walked into with keys."""

from __future__ import annotations

from mahtab_tui.tui.screens.inspector import InspectorScreen
from tests.tui.editor_app import until
from tests.tui.inspecting import MakeApp, inspector, lines, looking_at, reads, shown

FRAME = """
import pandas as pd
df = pd.DataFrame({"[bold]": range(1000), "city": ["Bonn", None] * 500, "half": [n / 2 for n in range(1000)]})
"""


async def test_a_frame_is_seen_with_its_header_and_figures(make_app: MakeApp) -> None:
    async with looking_at(make_app(), FRAME, "df") as pilot:
        await reads(pilot, "[bold]", "city", "half", "0.0", "Bonn", "█", "row 1 of 1,000", "mean 499.5")
        assert shown(pilot, "crumbs") == "◐ df"
        assert shown(pilot, "facts") == "DataFrame  1000 × 3"
        assert "—" in lines(pilot)[7]


async def test_sorting_filtering_and_all_rows_again(make_app: MakeApp) -> None:
    async with looking_at(make_app(), FRAME, "df") as pilot:
        await reads(pilot, "Bonn")
        await pilot.press("s", "s")
        await reads(pilot, "[bold] ▼", "999")
        await pilot.press("right", "slash", *"bonn", "enter")
        await reads(pilot, "city /", "998", "row 1 of 500 that fit of 1,000")
        assert not any("999" in line for line in lines(pilot)[6:])
        await pilot.press("x")
        await reads(pilot, "row 1 of 1,000", "—")


async def test_the_last_row_is_one_key_away_and_a_cell_opens(make_app: MakeApp) -> None:
    app = make_app()
    async with looking_at(app, FRAME, "df") as pilot:
        await pilot.press("ctrl+end")
        await reads(pilot, "row 1,000 of 1,000", "499.5")
        await pilot.press("right", "up", "enter")
        await reads(pilot, "df › city of 998")
        await until(pilot, lambda: shown(pilot, "facts").startswith("str"))
        await pilot.press("escape")
        await reads(pilot, "row 999 of 1,000")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, InspectorScreen))


async def test_a_variable_that_is_gone_is_told(make_app: MakeApp) -> None:
    async with looking_at(make_app(), "x = 1", "nothing") as pilot:
        assert shown(pilot, "status") == "There is no variable named nothing."
        assert inspector(pilot).view is None


async def test_a_filter_that_does_not_fit_is_told_and_all_stays_as_it_was(make_app: MakeApp) -> None:
    app = make_app()
    async with looking_at(app, FRAME, "df") as pilot:
        await reads(pilot, "Bonn")
        await pilot.press("slash", *"> many", "enter")
        await until(pilot, lambda: [told.message for told in app._notifications] == ["many cannot be compared with values of int64."])
        await reads(pilot, "row 1 of 1,000", "Bonn")
