"""The inputs that wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.geometry import Region
from textual.pilot import Pilot

from mahtab_tui.tui.widgets.question_rows import QueueRow
from tests import tags
from tests.tui.editor_app import SIZE, EditorApp, app_of


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        yield pilot


def row_of(pilot: Pilot[None]) -> QueueRow:
    return pilot.app.query_one(QueueRow)


def lines(pilot: Pilot[None]) -> list[str]:
    return row_of(pilot).render().plain.split("\n")


async def queue(pilot: Pilot[None], *codes: str, mode: str = "python") -> None:
    app_of(pilot).fold(
        tags.QUEUE,
        items=[{"id": number, "code": code, "mode": mode} for number, code in enumerate(codes, 1)],
    )
    await pilot.pause()


async def test_row_shows_the_number_and_text_of_waiting_inputs(pilot: Pilot[None]) -> None:
    assert not row_of(pilot).display
    await queue(pilot, "x = 1\ny = 2", "z")
    assert row_of(pilot).display
    assert lines(pilot) == ["queued 2  ❯ x = 1 … ✕ ", "          ❯ z ✕ "]
    await queue(pilot)
    assert not row_of(pilot).display


async def test_screen_layout_changes_only_when_the_row_grows_or_shrinks(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = row_of(pilot)
    layouts: list[bool] = []
    refresh = row.refresh

    def refreshed(
        *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> QueueRow:
        layouts.append(layout)
        return refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    monkeypatch.setattr(row, "refresh", refreshed)
    await queue(pilot, *"abcdef")
    assert layouts.count(True) > 0
    layouts.clear()
    await queue(pilot, *"bcdefgh")
    await queue(pilot, *"cdef")
    assert layouts.count(True) == 0
    assert layouts.count(False) > 0
    assert row.size.height == 4
    await queue(pilot, *"def")
    assert layouts.count(True) > 0
    assert row.size.height == 3


async def test_external_text_is_neither_markup_nor_control_codes(pilot: Pilot[None]) -> None:
    await queue(pilot, "[/x] \x1b]0;t\x07[red]a", mode="ask")
    assert lines(pilot) == ["queued 1  ◈ [/x] ␛]0;t␇[red]a ✕ "]


async def test_a_long_input_is_cut_to_the_width(pilot: Pilot[None]) -> None:
    await queue(pilot, "日本" * 100)
    assert row_of(pilot).render().cell_length <= SIZE[0]
    assert lines(pilot)[0].endswith("… ✕ ")


@pytest.mark.parametrize("offset", [-1, 0, 1])
async def test_clicking_on_or_near_the_cross_withdraws_an_input(
    pilot: Pilot[None], offset: int
) -> None:
    await queue(pilot, "a", "bb")
    await pilot.click(QueueRow, offset=(1 + lines(pilot)[1].index("✕") + offset, 1))
    assert app_of(pilot).actions == [("cancelled", 2)]


@pytest.mark.parametrize("offset", [-2, 2])
async def test_click_farther_from_the_cross_only_selects(pilot: Pilot[None], offset: int) -> None:
    await queue(pilot, "a", "bb")
    await pilot.click(QueueRow, offset=(1 + lines(pilot)[1].index("✕") + offset, 1))
    assert app_of(pilot).actions == []
    await pilot.press("delete")
    assert app_of(pilot).actions == [("cancelled", 2)]


async def test_keys_select_and_withdraw(pilot: Pilot[None]) -> None:
    await queue(pilot, *"abcdef")
    row_of(pilot).focus()
    await pilot.press(
        "up", "down", "down", "down", "down", "down", "down", "down", "up", "backspace"
    )
    assert app_of(pilot).actions == [("cancelled", 5)]
    assert [line.split("❯")[1].strip() for line in lines(pilot)] == ["b ✕", "c ✕", "d ✕", "e ✕"]
    assert row_of(pilot).size.height == 4


async def test_focus_returns_to_the_editor_with_the_last_input(pilot: Pilot[None]) -> None:
    await queue(pilot, "a")
    row_of(pilot).focus()
    await pilot.pause()
    await queue(pilot)
    assert app_of(pilot).area.has_focus
