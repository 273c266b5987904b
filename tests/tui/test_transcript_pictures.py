"""Pictures of the transcript: their space is reserved at once, and a thread draws them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from textual.selection import Selection
from textual.strip import Strip

from mahtab_tui.tui.pictures import block_cache
from mahtab_tui.tui.pictures.picture import SizedPicture
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.tui.editor_app import until
from tests.tui.test_overlay import cell, png
from tests.tui.transcript_app import SIZE, PaneApp, cells, shown

DRAW = block_cache.draw_blocks


class BlockedDrawing:
    """Draws half blocks when `allowed` is released."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.allowed = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def __call__(self, picture: SizedPicture) -> list[Strip]:
        self.begun.append((picture.columns, picture.rows))
        self.threads.append(threading.current_thread())
        assert self.allowed.acquire(timeout=30)
        return DRAW(picture)


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockedDrawing]:
    drawing = BlockedDrawing()
    monkeypatch.setattr(block_cache, "draw_blocks", drawing)
    yield drawing
    drawing.allowed.release(100)


def blocks(pane: TranscriptPane) -> list[int]:
    return [count for row in shown(pane) if (count := row.count("▀"))]


async def test_picture_space_is_reserved_before_drawing(drawing: BlockedDrawing) -> None:
    app = PaneApp([*cell(1, png(160, 80)), *cells(1, 2)])
    async with app.run_test(size=SIZE) as pilot:
        pane = app.pane
        await until(pilot, lambda: drawing.begun == [(20, 5)])
        assert blocks(pane) == []
        pane.fold(cells(1, 3))
        await until(pilot, lambda: "output 3" in "\n".join(shown(pane)))
        height = pane.height_of_all
        rows = shown(pane)
        drawing.allowed.release()
        await until(pilot, lambda: blocks(pane) == [20] * 5)
        assert pane.height_of_all == height
        assert [row.rstrip("▀ ") for row in shown(pane)] == rows


async def test_pictures_of_a_cell_are_redrawn_for_each_width(drawing: BlockedDrawing) -> None:
    app = PaneApp(cell(1, png(800, 80), png(400, 80)))
    async with app.run_test(size=SIZE) as pilot:
        pane = app.pane
        await until(pilot, lambda: bool(drawing.begun))
        (first_drawing,) = drawing.begun
        await pilot.resize_terminal(30, 20)
        await until(pilot, lambda: pane.size.width == 30)
        drawing.allowed.release(3)
        width = pane.visible_size[0]
        await until(pilot, lambda: blocks(pane) == [width] * 3)
        assert first_drawing[0] > width
        assert drawing.begun == [first_drawing, (width, 1), (width, 2)], (
            "none twice for the old width"
        )


async def test_undrawable_picture_becomes_its_text(drawing: BlockedDrawing) -> None:
    broken = png(160, 80)[:60]
    app = PaneApp([*cell(1, broken), *cell(2, png(80, 80)), *cell(3, broken)])
    async with app.run_test(size=SIZE) as pilot:
        pane = app.pane
        drawing.allowed.release(3)
        await until(pilot, lambda: "\n".join(shown(pane)).count("<Figure>") == 2)
        await until(pilot, lambda: blocks(pane) == [10] * 5)


async def test_nothing_happens_after_the_pane_is_removed(drawing: BlockedDrawing) -> None:
    app = PaneApp(cell(1, png(160, 80), png(80, 80)))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: bool(drawing.begun))
        await app.pane.remove()
        drawing.allowed.release(2)
        (thread,) = drawing.threads
        thread.join(30)
        await pilot.pause()
        assert len(drawing.begun) == 1
        await pilot.press("a")


async def test_picture_scrolled_away_before_drawing_is_dropped(drawing: BlockedDrawing) -> None:
    app = PaneApp([*cell(1, png(160, 80)), *cells(30, 2), *cell(40, png(80, 80))])
    async with app.run_test(size=SIZE) as pilot:
        pane = app.pane
        await until(pilot, lambda: drawing.begun == [(10, 5)])
        pane.focus()
        await pilot.press("home")
        drawing.allowed.release(2)
        await until(pilot, lambda: blocks(pane) == [20] * 5)
        drawing.begun.clear()
        await pilot.press("end")
        await until(pilot, lambda: drawing.begun == [(10, 5)])


async def test_copying_a_picture_copies_no_text() -> None:
    app = PaneApp([*cell(1, png(80, 80)), *cells(1, 2)])
    async with app.run_test(size=SIZE) as pilot:
        pane = app.pane
        await until(pilot, lambda: bool(blocks(pane)))
        selected = pane.get_selection(Selection(None, None))
        assert selected is not None
        assert selected[0].startswith("In 1 · you\nplot()\n\n\n\nIn 2 · you\n")
