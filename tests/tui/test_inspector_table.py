"""The inspector's table: seen, sorted, filtered and walked into with keys."""

from __future__ import annotations

import asyncio

from mahtab_tui.tui.inspector import InspectorScreen
from tests.tui.editor_app import until
from tests.tui.inspecting import MakeApp, inspector, lines, looking_at, ran, reads, shown

FRAME = """
import pandas as pd
df = pd.DataFrame({"[bold]": range(1000), "city": ["Bonn", None] * 500, "half": [n / 2 for n in range(1000)]})
"""


async def test_frame_is_shown_with_header_and_statistics(screens_app: MakeApp) -> None:
    async with looking_at(screens_app(), FRAME, "df") as pilot:
        await reads(
            pilot, "[bold]", "city", "half", "0.0", "Bonn", "█", "row 1 of 1,000", "mean 499.5"
        )
        assert shown(pilot, "crumbs") == "◐ df"
        assert shown(pilot, "facts") == "DataFrame  1000 × 3"
        assert "—" in lines(pilot)[7]


async def test_sorting_filtering_and_resetting_work(screens_app: MakeApp) -> None:
    async with looking_at(screens_app(), FRAME, "df") as pilot:
        await reads(pilot, "Bonn")
        await pilot.press("s", "s")
        await reads(pilot, "[bold] ▼", "999")
        await pilot.press("right", "slash", *"bonn", "enter")
        await reads(pilot, "city /", "998", "match 1 of 500 (of 1,000 rows)")
        assert not any("999" in line for line in lines(pilot)[6:])
        await pilot.press("x")
        await reads(pilot, "row 1 of 1,000", "—")


async def test_last_row_is_one_key_away_and_a_cell_can_be_opened(screens_app: MakeApp) -> None:
    app = screens_app()
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


async def test_missing_variable_is_reported(screens_app: MakeApp) -> None:
    async with looking_at(screens_app(), "x = 1", "nothing") as pilot:
        assert shown(pilot, "status") == "There is no variable named nothing."
        assert inspector(pilot).view is None


async def test_unusable_filter_is_reported_and_changes_nothing(
    screens_app: MakeApp,
) -> None:
    app = screens_app()
    async with looking_at(app, FRAME, "df") as pilot:
        await reads(pilot, "Bonn")
        await pilot.press("slash", *"> many", "enter")
        await until(
            pilot,
            lambda: (
                [notification.message for notification in app._notifications]
                == ["many cannot be compared with values of int64."]
            ),
        )
        await reads(pilot, "row 1 of 1,000", "Bonn")


SEEN = """
import pandas as pd
df = pd.DataFrame({"n": [3, 1, 2, 4], "city": ["Bonn", None, "Bonn", "Köln"]})
"""


async def test_export_offers_visible_or_all_rows_of_a_sorted_filtered_table(
    screens_app: MakeApp,
) -> None:
    app = screens_app()
    async with looking_at(app, SEEN, "df") as pilot:
        await reads(pilot, "Bonn")
        await pilot.press("s", "right", "slash", *"bonn", "enter")
        await reads(pilot, "match 1 of 2 (of 4 rows)")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: any("2 of 4 rows, sorted by n" in line for line in lines(pilot)))
        assert any("All of it: DataFrame 4 × 2" in line for line in lines(pilot))
        await pilot.press("enter")
        await reads(pilot, "df.csv")
        await pilot.press("enter")
        await until(pilot, lambda: bool(ran(app)))
        result = await asyncio.to_thread(
            app.session.cells.run, f"{ran(app)[0]}\nprint(open('df.csv').read())"
        )
        assert result.output.split() == [",n,city", "2,2,Bonn", "0,3,Bonn"]
        await pilot.press("ctrl+s", "down", "enter")
        await reads(pilot, "df.csv")
        await pilot.press(*["backspace"] * 6, *"all.csv", "enter")
        await until(pilot, lambda: len(ran(app)) == 2)
        result = await asyncio.to_thread(
            app.session.cells.run, f"{ran(app)[1]}\nprint(open('all.csv').read())"
        )
        assert result.output.split() == [",n,city", "0,3,Bonn", "1,1,", "2,2,Bonn", "3,4,Köln"]
        await pilot.press("ctrl+s", "escape")
        assert inspector(pilot).view is not None
        assert len(ran(app)) == 2


async def test_visible_rows_become_a_variable_through_a_cell(screens_app: MakeApp) -> None:
    app = screens_app()
    async with looking_at(app, SEEN, "df") as pilot:
        await reads(pilot, "Bonn")
        await pilot.press("s", "s", "v")
        await reads(pilot, "df_view")
        await pilot.press(*["backspace"] * 7, *"not a name", "enter")
        await reads(pilot, "not a name is not a valid variable name.")
        await pilot.press("v", "enter")
        await until(
            pilot, lambda: ran(app) == ["df_view = table_rows(df, sort='n', descending=True)"]
        )
        result = await asyncio.to_thread(
            app.session.cells.run, f"{ran(app)[0]}\nlist(df_view['n'])"
        )
        assert result.output == "[4, 3, 2, 1]\n"


async def test_statistics_of_a_filtered_table_are_marked_as_covering_all_rows(
    screens_app: MakeApp,
) -> None:
    async with looking_at(screens_app(), SEEN, "df") as pilot:
        await reads(pilot, "1 … 4, mean 2.5")
        assert not any("of all" in line for line in lines(pilot))
        await pilot.press("slash", *"> 2", "enter")
        await reads(pilot, "match 1 of 2 (of 4 rows)", "of all rows:  1 … 4, mean 2.5")
        assert any(line.startswith(" of all ") for line in lines(pilot))
        await pilot.press("x")
        await reads(pilot, "row 1 of 4")
        assert not any("of all" in line for line in lines(pilot))


async def test_export_offers_the_visible_slice_or_the_whole_array(
    screens_app: MakeApp,
) -> None:
    app = screens_app()
    async with looking_at(
        app, "import numpy as np\ncube = np.arange(8).reshape(2, 2, 2)", "cube"
    ) as pilot:
        await reads(pilot, "slice")
        await pilot.press("full_stop")
        await reads(pilot, "[ 1, :, : ]")
        await until(
            pilot,
            lambda: inspector(pilot).view.excerpt.opened.expression.startswith("cube[1"),  # type: ignore[union-attr]
        )
        await pilot.press("ctrl+s")
        await until(pilot, lambda: any("What is shown: [1, :, :]" in line for line in lines(pilot)))
        await pilot.press("enter")
        await reads(pilot, "cube.csv")
        await pilot.press("enter")
        await until(pilot, lambda: bool(ran(app)))
        result = await asyncio.to_thread(
            app.session.cells.run, f"{ran(app)[0]}\nprint(open('cube.csv').read())"
        )
        assert result.output.split() == ["4,5", "6,7"]
