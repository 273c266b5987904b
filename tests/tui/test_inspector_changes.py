"""The open inspector, while its variable, kernel or terminal changes, or keys come fast."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.inspector.array import ArrayView, choose_slice
from mahtab_tui.tui.inspector.table_view import TableView
from mahtab_tui.tui.inspector.token_colours import colour_text
from tests.tui.editor_app import until, wait_for_close
from tests.tui.inspecting import Inspect, cell, inspector, lines, looking_at, reads, shown
from tests.tui.scripted_session import MakeApp

FRAME = "import pandas as pd; df = pd.DataFrame({'old': range(1000), 'b': 1})"


async def wait_for_status(pilot: Pilot[int], expected_text: str) -> None:
    await until(pilot, lambda: expected_text in shown(pilot, "status"))


async def test_rebound_variable_is_reported_and_shown_after_a_reload(inspect: Inspect) -> None:
    async with inspect(FRAME, "df") as pilot:
        await reads(pilot, "old", "row 1 of 1,000")
        await cell(pilot, "df = pd.DataFrame({'new': range(1000, 2000), 'b': 1})")
        await pilot.press("ctrl+end")
        await wait_for_status(pilot, "df is now a different object; press r to reload.")
        assert not any("1999" in line for line in lines(pilot))
        await pilot.press("enter", "r")
        await reads(pilot, "new", "1999", "row 1,000 of 1,000")


async def test_rows_added_to_a_table_are_never_mixed_with_older_ones(inspect: Inspect) -> None:
    async with inspect(FRAME, "df") as pilot:
        await reads(pilot, "row 1 of 1,000", "mean 499.5")
        await cell(pilot, "df.drop(index=range(0, 500), inplace=True)")
        await pilot.press("pagedown", *["pagedown"] * 8)
        await reads(pilot, "of 500", "mean 749.5")
        await pilot.press("ctrl+home")
        await reads(pilot, "row 1 of 500")
        await until(pilot, lambda: ["500", "500", "1"] in [line.split() for line in lines(pilot)])


async def test_reloaded_array_does_not_show_old_statistics(inspect: Inspect) -> None:
    async with inspect("import numpy as np; a = np.arange(8.0).reshape(2, 2, 2)", "a") as pilot:
        await reads(pilot, "mean 3.5")
        view = inspector(pilot).view
        assert isinstance(view, ArrayView)
        view.reload()
        view._draw_head()  # before the new statistics have come
        assert "mean" not in str(view.query_one(".array-head", Static).content)


async def test_empty_array_has_no_rows(inspect: Inspect) -> None:
    code = "import numpy as np; a = np.zeros((0, 3, 4))"
    async with inspect(code, "a") as pilot:
        await reads(pilot, "0 × 3 × 4", "[ :, 0, : ]", "It has no rows.")
        await pilot.press("tab")
        await reads(pilot, "There are no numbers.")


@pytest.mark.parametrize(
    ("shape", "slice"),
    [
        ((2, 3), None),
        ((2, 3, 4), (0, None, None)),
        ((0, 3, 4), (None, 0, None)),
        ((2, 0, 0, 4), (0, None, None, 0)),
    ],
)
def test_first_slice_exists(shape: tuple[int, ...], slice: tuple[int | None, ...] | None) -> None:
    assert choose_slice(shape) == slice


async def test_inserted_columns_are_reported(inspect: Inspect) -> None:
    async with inspect(FRAME, "df") as pilot:
        await reads(pilot, "row 1 of 1,000")
        await cell(pilot, "df.insert(0, 'first', -7)")
        await pilot.press("ctrl+end")
        await wait_for_status(pilot, "The table's columns have changed; r reloads it.")
        assert not any("-7" in line for line in lines(pilot))
        await pilot.press("r")
        await reads(pilot, "first", "-7")


async def test_expanded_item_of_a_changed_kind_is_collapsed(inspect: Inspect) -> None:
    async with inspect("d = {'a': [10, 20], 'b': 1}", "d") as pilot:
        await pilot.press("right")
        await reads(pilot, "▾ 'a'", "20", "1 of 4")
        await cell(pilot, "d['a'] = d")
        await pilot.press("r")
        await reads(pilot, "↺ 'a'", "1 of 2")


async def test_second_enter_of_a_bunch_acts_once(inspect: Inspect) -> None:
    async with inspect("d = {'a': {'b': [1]}}", "d") as pilot:
        await reads(pilot, "'a'")
        view = inspector(pilot).view
        assert view is not None
        for _ in range(3):
            view.call_later(view.run_action, "open_row")
        await reads(pilot, "d › 'a'", "'b'")
        await pilot.pause()
        assert inspector(pilot).labels == ["d", "'a'"]


async def test_dead_kernel_is_reported_and_the_next_one_is_used(make_app: MakeApp) -> None:
    app = make_app()
    async with looking_at(app, "numbers = list(range(1000))", "numbers") as pilot:
        await reads(pilot, "1,000 inside")
        await cell(pilot, "import os; os._exit(3)")
        await pilot.press("end")
        await until(pilot, lambda: "inside" not in shown(pilot, "status"))
        await cell(pilot, "numbers = [7]")
        await pilot.press("r")
        await reads(pilot, "7", "1 of 1")
        await pilot.press("q")
        await wait_for_close(pilot)


async def test_type_and_key_names_are_plain_text(inspect: Inspect) -> None:
    code = "import pyarrow as pa; t = pa.table({'a\\x1b]0;x\\x07b': pa.array([{'[bold]\\x1b[2Jf': 1}])}); d = {'t': t}"
    async with inspect(code, "d") as pilot:
        await reads(pilot, "'t'")
        await pilot.press("enter")
        await reads(pilot, "struct<[bold]f: int64>", "row 1 of 1")
        assert not {"\x1b", "\x07"} & set("".join(lines(pilot)))


async def test_long_paths_and_wide_letters_stay_on_their_line(inspect: Inspect) -> None:
    code = "d = {'数' * 30: {'key': {'very long key ' * 5: {'t\\tab': [1] * 3}}}}"
    async with inspect(code, "d") as pilot:
        for inside, path_start, facts in (
            ("'key'", "◐ d › '数数", "dict  1 item"),
            ("'very long", "◐ d › ", "dict  1 item"),
            ("'t", "◐ d › … › 'key' › 'very long", "dict  1 item"),
            ("0", "◐ d › … › 'very long", "list  3 items"),
        ):
            await pilot.press("enter")
            await reads(pilot, inside)
            await until(pilot, lambda facts=facts: lines(pilot)[0].rstrip().endswith(facts))  # type: ignore[misc]
            top = lines(pilot)[0]
            assert cell_len(top) <= 80
            assert top.strip().startswith(path_start)


async def test_all_characters_of_long_lines_with_high_numbers_are_visible(inspect: Inspect) -> None:
    code = "t = '\\n' * 1_200_000 + ''.join(f'<{n}>' for n in range(200))"
    async with inspect(code, "t") as pilot:
        await reads(pilot, "line 1")
        await pilot.press("end")
        await reads(pilot, "<199>", "1,200,001")
        rows = [line[len("1,200,001   ") : 79].strip() for line in lines(pilot)[3:-2]]
        assert "".join(rows) == "".join(f"<{n}>" for n in range(200))


async def test_changed_theme_and_size_redraw_the_open_view(inspect: Inspect) -> None:
    async with inspect(FRAME, "df") as pilot:
        await reads(pilot, "row 1 of 1,000", "mean 499.5")
        await pilot.press("ctrl+end")
        await reads(pilot, "row 1,000 of 1,000", "999")
        table = pilot.app.screen.query_one(TableView)
        old_palette = table.palette
        pilot.app.theme = "mahtab-day"
        await until(pilot, lambda: table.palette != old_palette)
        for size in ((20, 5), (200, 50), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await reads(pilot, "row 1,000 of 1,000", "999", "b")


def test_text_that_is_slow_to_highlight_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.tui.inspector.token_colours.LEXER_TIMEOUT_S", 0.0)
    assert colour_text("<!--" * 50_000, "xml") is None


def test_text_in_an_unknown_language_stays_plain() -> None:
    assert colour_text("words", "no such language") is None


async def test_view_of_a_packaged_inspector_is_recreated_on_reload(
    make_app: MakeApp, tmp_path: Path
) -> None:
    (tmp_path / "lamp.py").write_text(
        "class Lamp: state = 'dark'\ndef inspect(lamp): return {'Tree\\n[bold]': {'state': lamp.state}}\n"
    )
    info = tmp_path / "lamp-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lamp\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mahtab_tui.inspectors]\nlamp.Lamp = lamp:inspect\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r})\nimport lamp; it = lamp.Lamp()"
    async with looking_at(make_app(), code, "it") as pilot:
        await reads(pilot, "1 Tree [bold]   2 Inside", "'state'", "'dark'")
        await cell(pilot, "it.state = 'bright'")
        await pilot.press("r")
        await reads(pilot, "'state'", "'bright'")
