"""The terminal's own graphics cover pictures at rest, and nothing else."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from PIL import Image
from textual.geometry import Region
from textual.pilot import Pilot

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.pictures.terminal_answers import GraphicsProtocol
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.pictures import graphics, overlay
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.tui.editor_app import screen_text, until
from tests.tui.graphics_terminal import GraphicsTerminal
from tests.tui.scripted_session import MakeApp, drawn, showing

pytestmark = pytest.mark.terminal
SIZE = (120, 40)


def png(width: int, height: int, colour: str = "red") -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def cell(number: int, *pictures: str) -> list[Record]:
    text = "<Figure>\n"
    about: dict[str, Any] = {"cell": number, "time": 1.0}
    kinds = (("display", len(text)),) * len(pictures)
    return [
        records.UserReplIn("plot()", party="you", **about),
        *(records.DisplayRecord(text, mime="image/png", data=data, **about) for data in pictures),
        records.UserReplOut(text * len(pictures), status="ok", kinds=kinds, **about),
    ]


def use_terminal(monkeypatch: pytest.MonkeyPatch, protocol: GraphicsProtocol) -> GraphicsTerminal:
    terminal = GraphicsTerminal(protocol)
    monkeypatch.setattr(MahtabApp, "terminal", terminal)
    return terminal


@pytest.fixture(params=["kitty", "sixel"])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> GraphicsTerminal:
    return use_terminal(monkeypatch, request.param)


@pytest.fixture
def sixel(monkeypatch: pytest.MonkeyPatch) -> GraphicsTerminal:
    return use_terminal(monkeypatch, "sixel")


@pytest.fixture
def kitty(monkeypatch: pytest.MonkeyPatch) -> GraphicsTerminal:
    return use_terminal(monkeypatch, "kitty")


class Watcher:
    """Collects, at each update, pictures over cells that show none."""

    def __init__(self, pilot: Pilot[int], terminal: GraphicsTerminal) -> None:
        self.pilot = pilot
        self.terminal = terminal
        self.misplaced: list[Region] = []
        pilot.app.post_display_hook = self.check  # type: ignore[method-assign]

    def check(self) -> None:
        self.misplaced += self.terminal.misplaced(self.pilot.app)

    async def standing(self, pictures: int) -> list[Region]:
        await until(self.pilot, lambda: len(self.terminal.standing) == pictures)
        return sorted(self.terminal.standing.values(), key=lambda region: region.y)

    @property
    def pane(self) -> TranscriptPane:
        return self.pilot.app.query_one(TranscriptPane)


def half_blocks(pilot: Pilot[int]) -> list[int]:
    """Return the lines that show some."""
    return [y for y, line in enumerate(screen_text(pilot).split("\n")) if "▀" in line]


async def test_pictures_replace_their_half_blocks(
    make_app: MakeApp, terminal: GraphicsTerminal
) -> None:
    async with showing(make_app(*cell(1, png(80, 80), png(160, 48))), SIZE) as pilot:
        pane = pilot.app.query_one(TranscriptPane)
        if terminal.protocol == "kitty":
            regions = await Watcher(pilot, terminal).standing(2)
            assert not terminal.misplaced(pilot.app)
        else:
            await until(pilot, lambda: len(terminal.drawn) == 2)
            regions = terminal.drawn
        places = [(region.x - pane.region.x, region.size) for region in regions]
        assert places == [(3, (10, 5)), (3, (20, 3))]
        assert half_blocks(pilot) == [y for region in regions for y in region.line_range]
        assert terminal.asked == 1


async def test_typing_redraws_no_picture(make_app: MakeApp, terminal: GraphicsTerminal) -> None:
    async with showing(make_app(*cell(1, png(80, 80))), SIZE) as pilot:
        await until(pilot, lambda: bool(terminal.standing or terminal.drawn))
        sent = len(terminal.sent)
        await pilot.press(*"print", "left_parenthesis")
        await pilot.app.query_one("#header").recompose()
        await pilot.pause(3 * overlay.IDLE_DELAY_S)
        assert len(terminal.sent) == sent


async def test_terminal_is_not_queried_without_a_picture(
    make_app: MakeApp, terminal: GraphicsTerminal
) -> None:
    async with showing(make_app(*cell(1)), SIZE) as pilot:
        await pilot.press(*"1+1")
        await pilot.pause(2 * overlay.IDLE_DELAY_S)
        assert (terminal.asked, terminal.sent) == (0, [])


async def test_partially_scrolled_picture_is_cropped(
    make_app: MakeApp, kitty: GraphicsTerminal
) -> None:
    async with showing(make_app(*cell(1, png(320, 320))), (120, 24)) as pilot:
        watched = Watcher(pilot, kitty)
        (below,) = await watched.standing(1)
        # On a busy machine, it is also sent before the panes have their final size.
        sent_count = len([data for data in kitty.sent if "a=t" in data])
        (placement,) = kitty.standing
        top, height = kitty.cut[placement]
        assert top + height == 20 * 20, "not scrolled to its end"
        assert height == below.height * 20 < 400
        kitty.cut.clear()
        watched.pane.focus()
        await pilot.press("pageup")
        await until(pilot, lambda: bool(kitty.cut))
        (above,) = kitty.standing.values()
        assert kitty.cut == {next(iter(kitty.standing)): (0, above.height * 20)}
        assert above.y > below.y
        assert watched.misplaced == []
        assert len([data for data in kitty.sent if "a=t" in data]) == sent_count, "sent twice"


async def test_moving_picture_is_not_drawn(
    make_app: MakeApp, kitty: GraphicsTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with showing(make_app(*cell(1, png(320, 320)), *cell(2, png(320, 320))), SIZE) as pilot:
        watched = Watcher(pilot, kitty)
        await watched.standing(2)
        monkeypatch.setattr(overlay, "IDLE_DELAY_S", 1_000.0)
        watched.pane.focus()
        await pilot.press("up")
        await watched.standing(0)
        assert watched.misplaced == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("covering", ["help", "toast", "palette", "full screen"])
async def test_covered_picture_is_removed_first_and_restored(
    make_app: MakeApp, kitty: GraphicsTerminal, covering: str
) -> None:
    async with make_app(*cell(1, png(1600, 700))).run_test(
        size=(100, 40), notifications=True
    ) as pilot:
        await drawn(pilot)
        watched = Watcher(pilot, kitty)
        old_drawings = await watched.standing(1)
        match covering:
            case "help":
                await pilot.press("f1")
            case "toast":
                pilot.app.notify("over it\n" * 20, timeout=1_000)
            case "palette":
                await pilot.press("ctrl+p")
            case "full screen":
                watched.pane.focus()
                await pilot.press("enter", "o")
                await until(pilot, lambda: list(kitty.standing.values()) not in ([], old_drawings))
        if covering != "full screen":
            await watched.standing(0)
        if covering == "toast":
            pilot.app.clear_notifications()
        else:
            await pilot.press("escape")
        await until(pilot, lambda: list(kitty.standing.values()) == old_drawings)
        # It was over a toast once, for one update, on a very busy machine.
        if covering != "toast":
            assert watched.misplaced == []


async def test_resize_and_theme_change_redraw_pictures(
    make_app: MakeApp, kitty: GraphicsTerminal
) -> None:
    async with showing(make_app(*cell(1, png(320, 320))), SIZE) as pilot:
        watched = Watcher(pilot, kitty)
        await watched.standing(1)
        await pilot.press("f10")
        await watched.standing(1)
        await pilot.resize_terminal(80, 24)

        def heights() -> list[int]:
            return [region.height for region in kitty.standing.values()]

        await until(pilot, lambda: len(heights()) == 1 and heights()[0] < 20)
        kitty.standing.clear()  # as some terminals do it then
        kitty.stored.clear()
        await pilot.resize_terminal(200, 50)
        await until(pilot, lambda: heights() == [20])
        assert watched.misplaced == []
        assert len(kitty.stored) == 1


async def test_sixel_is_redrawn_when_its_cells_were_painted(
    make_app: MakeApp, sixel: GraphicsTerminal
) -> None:
    async with showing(make_app(*cell(1, png(80, 80), png(160, 48))), SIZE) as pilot:
        await until(pilot, lambda: len(sixel.drawn) == 2)
        first_picture, second_picture = sixel.drawn
        pilot.app.screen.refresh(Region(second_picture.x + 2, second_picture.y + 1, 1, 1))
        await until(pilot, lambda: len(sixel.drawn) > 2)
        assert sixel.drawn[2:] == [second_picture]
        pilot.app.screen.refresh()
        await until(pilot, lambda: len(sixel.drawn) > 4)
        assert sixel.drawn[3:] == [first_picture, second_picture]


async def test_sixel_is_cropped_to_its_visible_part(
    make_app: MakeApp, sixel: GraphicsTerminal
) -> None:
    async with showing(make_app(*cell(1, png(320, 320))), (120, 24)) as pilot:
        pane = pilot.app.query_one(TranscriptPane)
        for key in ("end", "home"):
            pane.focus()
            sixel.drawn.clear()
            await pilot.press(key)
            pilot.app.screen.refresh()
            await until(pilot, lambda: bool(sixel.drawn))
            assert list(sixel.drawn[-1].line_range) == half_blocks(pilot)
            assert sixel.drawn[-1].height < 20


@pytest.mark.thorough
async def test_only_few_invisible_pictures_are_retained(
    make_app: MakeApp, kitty: GraphicsTerminal
) -> None:
    pictures = [png(320, 320, f"rgb({number},0,0)") for number in range(12)]
    async with showing(make_app(*cell(1, *pictures)), (120, 30)) as pilot:
        watched = Watcher(pilot, kitty)
        watched.pane.focus()
        for _ in range(12):
            await until(pilot, lambda: bool(kitty.standing))
            assert len(kitty.stored) <= overlay.MAX_ENCODED_PICTURES
            kitty.sent.clear()
            await pilot.press("pageup")
            await until(pilot, lambda: bool(kitty.sent))
        assert watched.misplaced == []


async def test_undrawable_pictures_stay_half_blocks(
    make_app: MakeApp, kitty: GraphicsTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def broken(*args: object) -> Image.Image:
        tried.append("")
        raise OSError("broken")

    monkeypatch.setattr(graphics, "encode_kitty", broken)
    async with showing(make_app(*cell(1, png(80, 80))), SIZE) as pilot:
        await until(pilot, lambda: bool(tried))
        await pilot.pause(3 * overlay.IDLE_DELAY_S)
        # The place may have moved once while the screen was laid out.
        attempts = len(tried)
        pilot.app.screen.refresh()
        await pilot.pause(3 * overlay.IDLE_DELAY_S)
        assert (len(tried), kitty.sent) == (attempts, [])


async def test_suspended_terminal_gets_pictures_again_and_the_setting_removes_them(
    make_app: MakeApp, kitty: GraphicsTerminal
) -> None:
    async with showing(make_app(*cell(1, png(80, 80))), SIZE) as pilot:
        watched = Watcher(pilot, kitty)
        (placement,) = await watched.standing(1)
        kitty.release_count += 1
        kitty.standing.clear()
        kitty.stored.clear()
        pilot.app.refresh(layout=True)
        assert await watched.standing(1) == [placement]
        kitty.graphics = None
        pilot.app.screen.refresh()
        await watched.standing(0)
