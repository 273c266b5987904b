"""Pictures of the transcript have their place at once, and are drawn there when a thread has made
them ready."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from rich.style import Style
from textual.pilot import Pilot
from textual.selection import Selection
from textual.strip import Strip

from mahtab_tui.tui import pictures
from mahtab_tui.tui.pictures import Picture
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.tui.editor_app import until
from tests.tui.test_overlay import cell, png
from tests.tui.transcript_app import PaneApp, cells, shown

SIZE = (60, 20)


DRAW = pictures.half_blocks


class BlockedDrawing:
    """Draws no half blocks until it is told to."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.go_on = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def __call__(self, picture: Picture) -> list[Strip]:
        self.begun.append((picture.columns, picture.rows))
        self.threads.append(threading.current_thread())
        assert self.go_on.acquire(timeout=30)
        return DRAW(picture)


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockedDrawing]:
    drawing = BlockedDrawing()
    monkeypatch.setattr(pictures, "half_blocks", drawing)
    yield drawing
    drawing.go_on.release(100)


def pane_of(pilot: Pilot[None]) -> TranscriptPane:
    return pilot.app.query_one(TranscriptPane)


def blocks(pane: TranscriptPane) -> list[int]:
    return [count for row in shown(pane) if (count := row.count("▀"))]


def styles(pane: TranscriptPane) -> set[Style | None]:
    return {
        segment.style
        for y in range(pane.size.height)
        for segment in pane.render_line(y)
        if "▀" in segment.text
    }


async def test_picture_space_is_reserved_before_drawing(drawing: BlockedDrawing) -> None:
    async with PaneApp([*cell(1, png(160, 80)), *cells(1, 2)]).run_test(size=SIZE) as pilot:
        pane = pane_of(pilot)
        await until(pilot, lambda: drawing.begun == [(20, 5)])
        assert blocks(pane) == []
        pane.fold(cells(1, 3))
        await until(pilot, lambda: "output 3" in "\n".join(shown(pane)))
        height, rows = pane.height_of_all, shown(pane)
        drawing.go_on.release()
        await until(pilot, lambda: blocks(pane) == [20] * 5)
        assert pane.height_of_all == height
        assert [row.rstrip("▀ ") for row in shown(pane)] == rows, "nothing has moved"


async def test_pictures_of_a_cell_are_redrawn_for_each_width(drawing: BlockedDrawing) -> None:
    async with PaneApp(cell(1, png(800, 80), png(400, 80))).run_test(size=SIZE) as pilot:
        pane = pane_of(pilot)
        await until(pilot, lambda: bool(drawing.begun))
        (first,) = drawing.begun
        await pilot.resize_terminal(30, 20)
        await until(pilot, lambda: pane.size.width == 30)
        drawing.go_on.release(3)
        width = pane.room[0]
        await until(pilot, lambda: blocks(pane) == [width] * 3)
        assert first[0] > width
        assert drawing.begun == [first, (width, 1), (width, 2)], (
            "one after the other, and none for a width that is no more"
        )


async def test_undrawable_picture_becomes_its_text(drawing: BlockedDrawing) -> None:
    broken = png(160, 80)[:60]
    async with PaneApp([*cell(1, broken), *cell(2, png(80, 80)), *cell(3, broken)]).run_test(
        size=SIZE
    ) as pilot:
        pane = pane_of(pilot)
        drawing.go_on.release(3)
        await until(
            pilot,
            lambda: "\n".join(shown(pane)).count("<Figure>") == 2 and blocks(pane) == [10] * 5,
        )


async def test_nothing_happens_after_the_pane_is_removed(drawing: BlockedDrawing) -> None:
    async with PaneApp(cell(1, png(160, 80), png(80, 80))).run_test(size=SIZE) as pilot:
        await until(pilot, lambda: bool(drawing.begun))
        await pane_of(pilot).remove()
        drawing.go_on.release(2)
        (thread,) = drawing.threads
        thread.join(30)
        await pilot.pause()
        assert len(drawing.begun) == 1
        await pilot.press("a")


async def test_picture_scrolled_away_before_drawing_is_dropped(drawing: BlockedDrawing) -> None:
    async with PaneApp([*cell(1, png(160, 80)), *cells(30, 2), *cell(40, png(80, 80))]).run_test(
        size=SIZE
    ) as pilot:
        pane = pane_of(pilot)
        await until(pilot, lambda: drawing.begun == [(10, 5)])
        pane.focus()
        await pilot.press("home")
        drawing.go_on.release(2)
        await until(pilot, lambda: blocks(pane) == [20] * 5)
        drawing.begun.clear()
        await pilot.press("end")
        await until(pilot, lambda: drawing.begun == [(10, 5)])


async def test_copying_a_picture_copies_no_text() -> None:
    async with PaneApp([*cell(1, png(80, 80)), *cells(1, 2)]).run_test(size=SIZE) as pilot:
        pane = pane_of(pilot)
        await until(pilot, lambda: bool(blocks(pane)))
        selected = pane.get_selection(Selection(None, None))
        assert selected is not None
        assert selected[0].split("\n")[:6] == ["In 1 · you", "plot()", "", "", "", "In 2 · you"], (
            "it is one empty line"
        )
