"""The inspector's views and their keys, over a real kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from mahtab_tui.tui.inspector.screen import InspectorScreen
from tests.tui.editor_app import screen_text, until, wait_for_close
from tests.tui.inspecting import (
    Inspect,
    exported,
    inspector,
    lines,
    look,
    looking_at,
    ran,
    reads,
    shown,
)
from tests.tui.scripted_session import MakeApp, notices

SIZE = (100, 30)

FRAME = """
import pandas as pd
df = pd.DataFrame({"[bold]": range(1000), "city": ["Bonn", None] * 500, "half": [n / 2 for n in range(1000)]})
"""

SEEN = """
import pandas as pd
df = pd.DataFrame({"n": [3, 1, 2, 4], "city": ["Bonn", None, "Bonn", "Köln"]})
"""

SMALL = (80, 24)
MIDDLE = (120, 36)
PICTURED_FRAME = """
import pandas as pd
df = pd.DataFrame({
    "day": pd.date_range("2026-03-01", periods=500, freq="h"),
    "shop": [n * 7919 % 13 for n in range(500)],
    "revenue": [None if n % 50 == 7 else (n * 7919 % 1000) ** 2 / 250 for n in range(500)],
    "city": [("Bonn", "Ulm", "Aachen", None)[n % 4] for n in range(500)],
    "[bold]": [n % 3 == 0 for n in range(500)],
})
"""
CUBE = "import numpy as np; cube = np.add.outer(np.arange(3.0), np.add.outer(np.sin(np.arange(60) / 6), np.cos(np.arange(80) / 9)))"
WAVE = "import numpy as np; wave = np.sin(np.arange(10_000) / 700)"
TREE = """
conf = {"name": "mahtab", "list": [1, 2.5, None, b"x"], "nested": {"a": (1, "two"), "[/b]": {3}}, 7: range(9)}
conf["self"] = conf
"""
PICTURE = """
import numpy as np
rgb = np.zeros((60, 100, 3), dtype="uint8")
rgb[:, :, 0] = np.arange(100) * 2
rgb[:, :, 2] = np.arange(60)[:, None] * 4
"""

VIEWS = {
    "table": (PICTURED_FRAME, "df", SMALL, (), ("row 1 of 500", "2026-03-21 19:00, mean")),
    "array": (CUBE, "cube", MIDDLE, ("full_stop",), ("[ 1, :, : ]", "row 1 of 60", "mean ")),
    "heat": (CUBE, "cube", SMALL, ("tab",), ("heat map",)),
    "plot": (WAVE, "wave", MIDDLE, ("tab",), ("values by position",)),
    "tree": (TREE, "conf", SMALL, ("down", "down", "right", "down", "right"), ("'two'",)),
    "picture": (PICTURE, "rgb", SMALL, ("3",), ("100 × 60 pixels", "▀▀")),
}


async def test_tree_expands_marks_cycles_and_opens_children(inspect: Inspect) -> None:
    code = "d = {'[bold]': [10, 20, {'deep': 1}], 'n': 5}\nd['me'] = d"
    async with inspect(code, "d", SIZE) as pilot:
        cycle = "↺ 'me'", "the object that contains it"
        await reads(pilot, "▸ '[bold]'", "list", "3 items", *cycle, "1 of 3")
        await pilot.press("right", "down", "down", "down", "right")
        await reads(pilot, "▾ '[bold]'", "'deep'", "4 of 7")
        await pilot.press("enter")
        await reads(pilot, "d › 2", "'deep'", "1 of 1")
        await pilot.press("y", "escape", "left", "left", "left")
        await reads(pilot, "▸ '[bold]'", "1 of 3")


async def test_list_of_ten_million_items_is_paged(inspect: Inspect) -> None:
    async with inspect("n = list(range(10_000_000))", "n", SIZE) as pilot:
        await reads(pilot, "10,000,000 inside")
        await pilot.press("end")
        await reads(pilot, "9999999", "10,000,000 of 10,000,000")


async def test_property_is_evaluated_only_on_demand(inspect: Inspect) -> None:
    code = "class P:\n    def __init__(self): self.asked = []\n    @property\n    def p(self):\n        self.asked.append(1)\n        return [7]\np = P()"
    async with inspect(code, "p", SIZE) as pilot:
        await reads(pilot, "(…)", "0 items")
        await pilot.press("down", "enter")
        await reads(pilot, "1 item")
        await pilot.press("enter")
        await reads(pilot, "p › p", "7")
        await pilot.press("escape", "r")
        await reads(pilot, "1 item", "(…)")


async def test_a_text_is_coloured_and_searched(inspect: Inspect) -> None:
    code = "import json; t = json.dumps({'k' + str(n): 'v' * 200 for n in range(200)}, indent=1)"
    async with inspect(code, "t", SIZE) as pilot:
        await reads(pilot, '"k0"', "json", "line 1")
        await pilot.press("slash", *"k150", "enter")
        await reads(pilot, '"k150"', "/ k150")
        await pilot.press("end")
        await reads(pilot, "202  }")


async def test_status_names_the_line_of_which_the_middle_is_visible(inspect: Inspect) -> None:
    async with inspect("t = 'first\\nsecond\\n' + 'x' * 40_000", "t", SIZE) as pilot:
        await reads(pilot, "line 1")
        await pilot.press("end")
        await reads(pilot, "line 3")


async def test_question_about_a_text_becomes_a_search_cell(inspect: Inspect) -> None:
    async with inspect("logs = {'today': 'one\\ntwo'}", "logs", SIZE) as pilot:
        await reads(pilot, "'today'")
        await pilot.press("enter")
        await reads(pilot, "line 1", "two")
        await pilot.press("ctrl+a", *"what?", "enter")
        await until(pilot, lambda: ran(pilot) == ["rlm('what?', logs['today'])"])


async def test_long_text_is_fetched_where_it_is_visible(inspect: Inspect) -> None:
    code = "t = 'line\\n' * 1_000_000 + 'the needle'"
    async with inspect(code, "t", SIZE) as pilot:
        await reads(pilot, "5,000,010 characters", "line")
        await pilot.press("slash", *"needle", "enter")
        await reads(pilot, "1,000,001  the needle")
        await pilot.press("slash", *"x", "enter")
        await reads(pilot, "Not found in the text.")


async def test_start_of_bytes_is_shown_as_repr_and_searched(inspect: Inspect) -> None:
    async with inspect("b = b'\\x00needle' + bytes(99_999)", "b", SIZE) as pilot:
        await reads(pilot, "b'\\x00needle\\x00", "Repr")
        await pilot.press("end")
        await reads(pilot, "… it goes on …")
        await pilot.press("slash", *"needle", "enter")
        await reads(pilot, "/ needle", "b'\\x00needle")


async def test_function_shows_its_signature_and_source(make_app: MakeApp) -> None:
    code = 'a = 1\ndef far(days, limit: int = 3) -> list:\n    """Days far from the median."""\n    return [day for day in days if day > limit]\n'
    async with looking_at(make_app(), code, "far", SIZE) as pilot:
        signature = "far(days, limit: int = 3)"
        await reads(
            pilot, f"{signature} -> list", "In [1]:2", f"2  def {signature}", "4      return [day"
        )
        assert sum("Days far from the median." in line for line in lines(pilot)) == 2
        assert not {"▐", "▕"} & set(screen_text(pilot)), "it must fit without a scrollbar"


async def test_three_dimensional_array_is_shown_by_slices_and_as_a_plot(inspect: Inspect) -> None:
    code = "import numpy as np; a = np.arange(2 * 30 * 40.0).reshape(2, 30, 40)"
    async with inspect(code, "a", SIZE) as pilot:
        await reads(
            pilot, "row 1 of 30", "2 × 30 × 40  float64  19.2 kB", "0 … 2,399  mean 1,199.5"
        )
        await pilot.press("full_stop")
        await reads(pilot, "row 1 of 30", "1,200 … ")
        await pilot.press("g", *["backspace"] * 20, *"9,:", "enter")
        await reads(pilot, "Enter a number or : for each dimension of 2 × 30 × 40")
        await pilot.press("g", *["backspace"] * 20, *"0, :, 5", "enter")
        await reads(pilot, "row 1 of 30", "5 … 1,165")
        await pilot.press("tab")
        await reads(pilot, "values by position")
        await pilot.press("h")
        await reads(pilot, "histogram")


async def test_misbehaving_repr_gives_one_sentence(inspect: Inspect) -> None:
    code = "class Bad:\n    def __repr__(self): raise ValueError('[/x] no')\nbad = Bad()"
    async with inspect(code, "bad", SIZE) as pilot:
        await pilot.press("2")
        await reads(pilot, "Its __repr__ raised ValueError: [/x] no")
        assert shown(pilot, "facts") == "Bad"


async def test_missing_variable_is_reported(inspect: Inspect) -> None:
    async with inspect("x = 1", "nothing") as pilot:
        assert shown(pilot, "status") == "There is no variable named nothing."
        assert inspector(pilot).view is None


async def test_object_is_exported_by_a_visible_cell(inspect: Inspect) -> None:
    async with inspect("conf = {'a': [1]}", "conf", SIZE) as pilot:
        await reads(pilot, "'a'")
        await pilot.press("ctrl+s")
        await reads(pilot, "conf.json")
        await pilot.press(*"conf.csv", "enter")
        await reads(pilot, "Only tables and arrays can be written as CSV, not a dict.")
        await pilot.press("ctrl+s", "enter")
        output = await exported(pilot, "print(open('conf.json').read())")
        assert "".join(output.split()) == '{"a":[1]}'


@pytest.mark.thorough
async def test_tree_is_searched_even_where_its_lines_are_not_loaded(inspect: Inspect) -> None:
    code = "d = {f'key {n}': n for n in range(3_000)}\nd['key 2500'] = ['a needle', {'deep': 1}]"
    async with inspect(code, "d") as pilot:
        await reads(pilot, "'key 3'")
        await pilot.press("slash", *"KEY", "space", *"2500", "enter")
        await reads(pilot, "2,501 of 3,000", "'key 2500'")
        await pilot.press("right")
        await reads(pilot, "2,501 of 3,002")
        await pilot.press("slash", *["backspace"] * 8, *"needle", "enter")
        await reads(pilot, "2,502 of 3,002")
        await pilot.press("slash", *["backspace"] * 6, *"key", "space", *"17", "enter")
        await reads(pilot, "18 of 3,002")
        await pilot.press("n")
        await reads(pilot, "171 of 3,002")
        await pilot.press("N")
        await reads(pilot, "18 of 3,002")
        await pilot.press("slash", *["backspace"] * 6, *"deep", "enter")
        await reads(pilot, "Nothing found in 3,002 lines. Collapsed parts are not searched.")


@pytest.mark.thorough
async def test_plot_uses_the_colours_of_a_new_theme(make_app: MakeApp) -> None:
    code = "import numpy as np\nn = np.array([1.0, 2.5, 2.0, 8.0])"
    async with looking_at(make_app(), code, "n") as pilot:
        views = shown(pilot, "tabs").split()
        await pilot.press(views[views.index("Plot") - 1])
        await reads(pilot, "values by position")

        def colours() -> set[str]:
            return {
                str(segment.style.color.triplet)
                for strip in pilot.app.screen._compositor.render_strips()
                for segment in strip
                if any("\u2800" < character <= "\u28ff" for character in segment.text)
                if segment.style is not None and segment.style.color is not None
            }

        await until(pilot, lambda: bool(colours()))
        night = colours()
        await pilot.press("f10")
        await until(pilot, lambda: bool(colours()) and not colours() & night)


async def test_frame_is_shown_sorted_filtered_and_walked_into(inspect: Inspect) -> None:
    async with inspect(FRAME, "df") as pilot:
        expected_texts = (
            "[bold]",
            "city",
            "half",
            "0.0",
            "Bonn",
            "█",
            "row 1 of 1,000",
            "mean 499.5",
        )
        await reads(pilot, *expected_texts)
        assert shown(pilot, "crumbs") == "◐ df"
        assert shown(pilot, "facts") == "DataFrame  1,000 × 3"
        assert "—" in lines(pilot)[7]
        await pilot.press("slash", *"> many", "enter")
        message = "many cannot be compared with values of int64."
        await until(pilot, lambda: notices(pilot) == [message])
        await reads(pilot, "row 1 of 1,000", "Bonn")
        await pilot.press("s", "s")
        await reads(pilot, "[bold] ▼", "999")
        await pilot.press("right", "slash", *"bonn", "enter")
        await reads(pilot, "city /", "998", "match 1 of 500 (of 1,000 rows)")
        assert not any("999" in line for line in lines(pilot)[6:])
        await pilot.press("x")
        await reads(pilot, "row 1 of 1,000", "—")
        await pilot.press("ctrl+end")
        await reads(pilot, "row 1,000 of 1,000", "499.5")
        await pilot.press("up", "enter")
        await reads(pilot, "df › city of 998")
        await until(pilot, lambda: shown(pilot, "facts").startswith("str"))
        await pilot.press("escape")
        await reads(pilot, "row 999 of 1,000")
        await pilot.press("escape")
        await wait_for_close(pilot, InspectorScreen)


async def test_visible_rows_of_a_sorted_filtered_table_are_exported(inspect: Inspect) -> None:
    async with inspect(SEEN, "df") as pilot:
        await reads(pilot, "Bonn")
        await pilot.press("s", "right", "slash", *"bonn", "enter")
        await reads(pilot, "match 1 of 2 (of 4 rows)")
        await pilot.press("ctrl+s")
        await reads(pilot, "export 2 of 4 rows, sorted by n: df.csv")
        await pilot.press("enter")
        output = await exported(pilot, "print(open('df.csv').read())")
        assert output.split() == [",n,city", "2,2,Bonn", "0,3,Bonn"]


async def test_statistics_cover_all_rows_and_visible_rows_become_a_variable(
    inspect: Inspect,
) -> None:
    async with inspect(SEEN, "df") as pilot:
        await reads(pilot, "Bonn", "1 … 4, mean 2.5")
        await pilot.press("slash", *"> 2", "enter")
        await reads(pilot, "match 1 of 2 (of 4 rows)", "of all rows:  1 … 4, mean 2.5")
        await pilot.press("x")
        await reads(pilot, "row 1 of 4")
        await pilot.press("s", "s", "v")
        await reads(pilot, "df_view")
        await pilot.press(*["backspace"] * 7, *"not a name", "enter")
        await reads(pilot, "not a name is not a valid variable name.")
        await pilot.press("v", "enter")
        assert await exported(pilot, "list(df_view['n'])") == "[4, 3, 2, 1]\n"
        assert ran(pilot) == ["df_view = table_rows(df, sort='n', descending=True)"]


async def test_visible_slice_of_an_array_is_exported(inspect: Inspect) -> None:
    code = "import numpy as np\ncube = np.arange(8).reshape(2, 2, 2)"
    async with inspect(code, "cube") as pilot:
        await reads(pilot, "slice")
        await pilot.press("full_stop")
        await reads(pilot, "[ 1, :, : ]")
        view: Any = inspector(pilot).view
        await until(pilot, lambda: view.excerpt.opened.expression.startswith("cube[1"))
        await pilot.press("ctrl+s")
        await reads(pilot, "export [1, :, :]: cube.csv")
        await pilot.press("enter")
        assert (await exported(pilot, "print(open('cube.csv').read())")).split() == ["4,5", "6,7"]


@pytest.mark.parametrize("view", VIEWS)
def test_snapshot_of_each_view(
    snap_compare: Callable[..., bool], make_app: MakeApp, view: str
) -> None:
    code, name, size, keys, expected_texts = VIEWS[view]

    async def run(pilot: Pilot[int]) -> None:
        await look(pilot, code, name)
        await pilot.press(*keys)
        await reads(pilot, *expected_texts)
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=size, run_before=run)
