"""Screens of outputs: pager, pictures, and the sources of a traceback's frames."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from textual.events import MouseDown, MouseMove, MouseUp
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.records import Record, Undo, UserReplIn
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.tui.app import MahtabApp, style_sheets
from mahtab_tui.tui.inspector.text import TextView
from mahtab_tui.tui.inspector.tree import TreeView
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.screens.frames import FramesScreen
from mahtab_tui.tui.screens.output import PagerScreen, PicturesScreen, write_new_file
from mahtab_tui.tui.screens.skills import MarkdownPreview
from mahtab_tui.tui.transcript.pane import TranscriptPane
from mahtab_tui.tui.widgets.bars import KeyLine
from mahtab_tui.tui.widgets.waiting_code import WaitingCode
from tests.tui.editor_app import ThemedApp, static_text, until, wait_for_screen
from tests.tui.inspecting import lines, reads
from tests.tui.scripted_session import MakeApp, log, showing
from tests.tui.transcript_app import cell, display_cell, shown

SIZE = (80, 24)
Point = tuple[int, int]
"""Column and row in a widget."""
Pager = Callable[[Callable[[], str | None]], PagerScreen]
ShowPictures = Callable[..., PicturesScreen]


class OutputApp(ThemedApp):
    def __init__(self) -> None:
        super().__init__(css_path=style_sheets())


def seen(pilot: Pilot[None]) -> str:
    screen = pilot.app.screen
    assert isinstance(screen, PagerScreen | PicturesScreen)
    view = screen.viewer.view
    return "\n".join(view.render_line(y).text for y in range(view.size.height)) if view else ""


def status(pilot: Pilot[None]) -> str:
    return static_text(pilot, "#viewing-status")


async def opened(pilot: Pilot[None], screen: PagerScreen | PicturesScreen) -> None:
    await pilot.app.push_screen(screen)
    await until(pilot, lambda: bool(seen(pilot).strip()))


def png(*size: int) -> str:
    file = io.BytesIO()
    Image.new("RGB", (size[0], size[1]), (255, 0, 0)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    async with OutputApp().run_test(size=SIZE) as pilot:
        yield pilot


@pytest.fixture
def pager(tmp_path: Path) -> Pager:
    client = InspectorClient(ProcessKernel())

    class PreparedOutput(PagerScreen):
        """Shows what a function reads."""

        def __init__(self, read: Callable[[], str | None]) -> None:
            super().__init__("Output of cell 3", "cell-3.txt", client, tmp_path)
            self._read = read

        def read_text(self) -> str | None:
            return self._read()

    return PreparedOutput


@pytest.fixture
def show_pictures(tmp_path: Path) -> ShowPictures:
    client = InspectorClient(ProcessKernel())
    return lambda *pictures: PicturesScreen(
        2, [("image/png", data) for data in pictures], client, tmp_path
    )


async def test_long_output_can_be_searched_wrapped_copied_and_saved(
    pager: Pager, tmp_path: Path, pilot: Pilot[None]
) -> None:
    text = "".join(f"line {number}\n" for number in range(1_000_000))
    await opened(pilot, pager(lambda: text.replace("line", "\x1b[32mline\x1b[0m")))
    assert static_text(pilot, "#output-title") == "Output of cell 3  ·  1,000,000 lines"
    await until(pilot, lambda: "line 0 " in seen(pilot))
    assert "32m" not in seen(pilot)
    await pilot.press("end")
    await until(pilot, lambda: "1,000,000  line 999999" in seen(pilot))
    await pilot.press("home", "slash", *"line 777777", "enter")
    await until(pilot, lambda: "line 777777" in seen(pilot))
    await pilot.press("y")
    (notification,) = pilot.app._notifications
    assert "too many for the clipboard" in notification.message
    await pilot.press("ctrl+s", "enter")
    await until(pilot, lambda: "Saved to" in status(pilot))
    assert (tmp_path / "cell-3.txt").read_text() == text
    await pilot.press("ctrl+s", "enter")
    await until(pilot, lambda: "already" in status(pilot))
    await pilot.press("escape")
    assert len(pilot.app.screen_stack) == 1


async def test_a_short_output_goes_to_the_clipboard_and_escape_closes_the_line_first(
    pager: Pager, pilot: Pilot[None]
) -> None:
    await opened(pilot, pager(lambda: "one\rtwo\nthree"))
    assert static_text(pilot, "#output-title").endswith("2 lines")
    await pilot.press("y")
    assert pilot.app.clipboard == "two\nthree"
    await pilot.press("slash", "escape")
    assert isinstance(pilot.app.screen, PagerScreen)
    await pilot.press("q")
    assert len(pilot.app.screen_stack) == 1


async def drag(pilot: Pilot[None], widget: Widget, start: Point, end: Point) -> str | None:
    """Return what is selected after the mouse was dragged."""
    await pilot.mouse_down(widget, offset=start)
    await pilot.hover(widget, offset=end)
    await pilot.mouse_up(widget, offset=end)
    return pilot.app.screen.get_selected_text()


async def test_dragging_selects_text_of_a_long_text_without_its_line_numbers(
    pager: Pager, pilot: Pilot[None]
) -> None:
    lines = [f"{number} {'word ' * 40}end" for number in range(100)]
    await opened(pilot, pager(lambda: "\n".join(lines)))
    view = pilot.app.screen.query_one(TextView)
    text_start = seen(pilot).index("0 word")
    # The second line begins in the fourth row.
    assert "1 word" in seen(pilot).splitlines()[3]
    selected = await drag(pilot, view, (text_start + 2, 3), (text_start + 4, 6))
    assert selected == f"{lines[1][2:]}\n2 wor"
    assert await drag(pilot, view, (0, 3), (text_start + 1, 3)) == "1 "

    number, _, letter = (
        view.render_line(3).crop(text_start + x, text_start + x + 1) for x in range(3)
    )
    backgrounds = {
        segment.style.bgcolor for strip in (number, letter) for segment in strip if segment.style
    }
    assert len(backgrounds) == 2, "what is selected has a background of its own"


async def test_dragging_selects_rows_of_markdown_and_code_that_waits() -> None:
    app = OutputApp()
    async with app.run_test(size=SIZE) as pilot:
        preview = MarkdownPreview()
        await app.mount(preview)
        preview.show("Some *words* of a skill.\n\nAnd more.")
        await pilot.pause()
        assert await drag(pilot, preview, (8, 0), (6, 2)) == "words of a skill.\n\nAnd"
        await preview.remove()
        code = WaitingCode()
        await app.mount(code)
        code.show("one = 1\ntwo = 2")
        await pilot.pause()
        assert await drag(pilot, code, (0, 0), (2, 1)) == "one = 1\ntwo"


@pytest.mark.parametrize(
    "name",
    ["~nobody-of-this-name/x", "no/such/folder", "a\0b", "\ud800", "x" * 300, "[/x]/[bold]"],
    ids=ascii,
)
async def test_impossible_file_name_is_refused_with_a_sentence(
    pager: Pager, tmp_path: Path, name: str, pilot: Pilot[None]
) -> None:
    await opened(pilot, pager(lambda: "one"))
    await pilot.press("ctrl+s")
    pilot.app.screen.query_one(Input).value = name
    await pilot.press("enter")
    await until(pilot, lambda: "cannot be written: " in status(pilot))
    assert list(tmp_path.iterdir()) == []


def test_partially_written_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    def opened(path: Path, mode: str) -> Full:
        path.touch()
        return Full()

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(KernelError, match="cannot be written: No space left on device"):
        write_new_file(tmp_path / "out", b"data")
    assert list(tmp_path.iterdir()) == []


def gone() -> str | None:
    raise StoreError("The session file cannot be used.")


@pytest.mark.parametrize(
    ("read", "message"),
    [(gone, "The session file cannot be used."), (lambda: None, "was not kept")],
)
async def test_unreadable_output_is_reported(
    pager: Pager, read: Callable[[], str | None], message: str, pilot: Pilot[None]
) -> None:
    await pilot.app.push_screen(pager(read))
    await until(pilot, lambda: message in status(pilot))
    await pilot.press("y", "ctrl+s")
    assert isinstance(pilot.app.screen, PagerScreen)


async def test_pictures_are_shown_one_by_one_and_saved(
    show_pictures: ShowPictures, tmp_path: Path, pilot: Pilot[None]
) -> None:
    pictures = [png(20, 10), png(4, 40)]
    await opened(pilot, show_pictures(*pictures))
    assert static_text(pilot, "#output-title") == "Picture of cell 2  ·  2 of 2"
    await until(pilot, lambda: "4 × 40 pixels" in status(pilot))
    await pilot.press("right", "left")
    await until(pilot, lambda: "20 × 10 pixels" in status(pilot))
    await pilot.press("ctrl+s", "enter")
    await until(pilot, lambda: "Saved to" in status(pilot))
    assert (tmp_path / "cell-2-1.png").read_bytes() == base64.b64decode(pictures[0])


async def test_a_picture_opens_in_the_systems_viewer(
    show_pictures: ShowPictures, desktop: Path, pilot: Pilot[None]
) -> None:
    picture = png(20, 10)
    await opened(pilot, show_pictures(picture))
    await until(pilot, lambda: "20 × 10 pixels" in status(pilot))
    await pilot.press("o")
    await until(pilot, lambda: desktop.exists() and "Opened as" in status(pilot))
    [path] = map(Path, desktop.read_text().split())
    assert (path.suffix, path.read_bytes()) == (".png", base64.b64decode(picture))


async def test_no_program_takes_over_the_terminal_without_a_desktop(
    show_pictures: ShowPictures,
    desktop: Path,
    monkeypatch: pytest.MonkeyPatch,
    pilot: Pilot[None],
) -> None:
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    await opened(pilot, show_pictures(png(20, 10)))
    await until(pilot, lambda: "20 × 10 pixels" in status(pilot))
    await pilot.press("o")
    await until(pilot, lambda: "Ctrl+S saves it" in status(pilot))
    assert not desktop.exists()


async def test_damaged_picture_is_reported(show_pictures: ShowPictures, pilot: Pilot[None]) -> None:
    await pilot.app.push_screen(show_pictures("QUJD"))
    await until(pilot, lambda: "damaged" in status(pilot))


async def test_enter_on_a_cell_opens_its_output_or_its_picture(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = "".join(f"{number}\n" for number in range(5_000))
    records = [
        *display_cell(1, "plot()", {"mime": "image/png", "data": png(8, 8)}),
        *cell(2, "count()", printed, kinds=[["stdout", len(printed)]]),
        *cell(3, "x = 1", ""),
    ]
    app = make_app(*records)
    async with showing(app, (120, 40)) as pilot:
        monkeypatch.setattr(app.session, "output", lambda cell: printed if cell == 2 else None)
        pane = app.query_one(TranscriptPane)
        pane.focus()
        await pilot.press("enter")
        menu = await wait_for_screen(pilot, ActionMenu)
        assert all(command.id != "entry-open" for command in menu.commands)
        await pilot.press("escape")
        pane.marker.entry = pane.viewport.transcript._cells[2]
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, PagerScreen))
        await until(pilot, lambda: "5,000 lines" in static_text(pilot, "#output-title"))
        await pilot.press("q")
        pane.marker.entry = pane.viewport.transcript._cells[1]
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, PicturesScreen))


def records(lib: Path, *, deep: int = 0, **fields: Any) -> list[Record]:
    """A cell with a function, and one that fails in it. more: fields of its last record."""
    frames: list[tuple[str, int, str]] = [
        ("In [2]", 2, "<module>"),
        ("In [1]", 3, "f"),
        *[(str(lib), 4, "outer")] * deep,
        (str(lib), 2, "divide"),
    ]
    text = ["Traceback (most recent call last):"]
    for file, line, function in frames:
        text += [f'  File "{file}", line {line}, in {function}', "    some source"]
    text.append('ZeroDivisionError: division by zero, as in\n  File "/etc/passwd", line 1, in root')
    output = "\n".join(text) + "\n"
    last_row = output.count("\n") - 1
    failed: dict[str, Any] = {
        "status": "error",
        "kinds": [["traceback", len(output)]],
        "frames": [[*frame, last_row - 2 * number] for number, frame in enumerate(frames)],
    }
    return [
        *cell(1, "import lib\ndef f():\n    lib.divide(1, 0)", ""),
        *cell(2, "x = 1\nf()", output, **failed | fields),
    ]


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    file = tmp_path / "lib.py"
    file.write_text("def divide(a, b):\n    return a / b\ndef outer():\n    return divide(1, 0)\n")
    return file


def pane_of(pilot: Pilot[int]) -> TranscriptPane:
    return pilot.app.query_one(TranscriptPane)


@asynccontextmanager
async def in_transcript(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with showing(app, (100, 30)) as pilot:
        pane_of(pilot).focus()
        await pilot.pause()
        yield pilot


@pytest.fixture
async def frames(make_app: MakeApp, lib: Path) -> AsyncIterator[Pilot[int]]:
    async with in_transcript(make_app(*records(lib))) as pilot:
        yield pilot


async def open_frames(pilot: Pilot[int], *keys: str) -> None:
    await pilot.press(*keys)
    await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))


def screen(pilot: Pilot[int]) -> FramesScreen:
    assert isinstance(pilot.app.screen, FramesScreen)
    return pilot.app.screen


def title(pilot: Pilot[int]) -> str:
    return static_text(pilot, "#output-title")


def marked(pilot: Pilot[int]) -> list[str]:
    return [line.strip() for line in lines(pilot) if "▸ " in line and "  in " not in line]


@pytest.mark.sample(1)
@pytest.mark.parametrize("deep", [0, 20], ids=["whole", "folded"])
@pytest.mark.parametrize("key", ["enter", "o"])
async def test_enter_opens_the_source_and_the_arrows_walk_the_frames(
    make_app: MakeApp, lib: Path, deep: int, key: str
) -> None:
    async with in_transcript(make_app(*records(lib, deep=deep))) as pilot:
        await open_frames(pilot, "enter", key)
        await until(pilot, lambda: "    return a / b" in "\n".join(marked(pilot)))
        assert title(pilot) == f"Error of cell 2  ·  line 2 of {lib}"
        heading = static_text(pilot, ".exception")
        assert heading.split("\n")[0] == "ZeroDivisionError: division by zero, as in"
        await pilot.press("v")
        assert isinstance(pilot.app.focused, TreeView)
        tree = screen(pilot).query_one(TreeView)
        await until(pilot, lambda: "kernel" in tree.render_line(0).text)
        await pilot.press("enter", "right", "escape")
        await pilot.press(*["up"] * (deep + 1))
        await until(pilot, lambda: "lib.divide(1, 0)" in "\n".join(marked(pilot)))
        assert title(pilot) == "Error of cell 2  ·  line 3 of In [1]"
        await pilot.press("home")
        await until(pilot, lambda: "f()" in "\n".join(marked(pilot)))
        await until(pilot, lambda: "line 2 of In [2]" in title(pilot))
        await pilot.press("enter", "escape", "escape")
        assert len(pilot.app.screen_stack) == 1


async def test_one_key_in_the_footer_opens_the_frames_of_the_newest_error(
    frames: Pilot[int],
) -> None:
    def footer() -> list[str]:
        return [key.description for key in frames.app.screen_stack[0].query_one(KeyLine).keys]

    await until(frames, lambda: "Frames" in footer())
    await frames.press("f6")
    await until(frames, lambda: isinstance(frames.app.screen, FramesScreen))
    await frames.press("escape")
    await log(frames, UserReplIn("later = 1", cell=99, party="you"))
    await until(frames, lambda: "Frames" not in footer())


async def test_an_undone_error_offers_no_frames(frames: Pilot[int]) -> None:
    line = frames.app.screen_stack[0].query_one(KeyLine)
    await until(frames, lambda: "Frames" in line.render_line(0).text)
    await log(frames, Undo(cells=(2,), undone=True))
    await until(frames, lambda: "Frames" not in line.render_line(0).text)


async def test_click_opens_only_real_frames(lib: Path, frames: Pilot[int]) -> None:
    pane = pane_of(frames)
    rows = shown(pane)
    forged = next(y for y, row in enumerate(rows) if "/etc/passwd" in row)
    await frames.click(pane, (10, forged))
    await frames.pause()
    assert len(frames.app.screen_stack) == 1
    real = next(y for y, row in enumerate(rows) if '"In [1]", line 3' in row)
    await frames.click(pane, (10, real))
    await until(frames, lambda: isinstance(frames.app.screen, FramesScreen))
    await until(frames, lambda: "lib.divide(1, 0)" in "\n".join(marked(frames)))


async def test_dragging_over_a_frame_selects_it(frames: Pilot[int]) -> None:
    pane = pane_of(frames)
    y = next(y for y, row in enumerate(shown(pane)) if '"In [1]", line 3' in row)
    # Events as a terminal sends them, because Pilot's mouse would not make a click of them.
    for kind, x in ((MouseDown, 5), (MouseMove, 15), (MouseUp, 15)):
        position = (pane.region.x + x, pane.region.y + y)
        frames.app.post_message(kind(None, *position, 0, 0, 1, False, False, False, *position))
        await frames.pause()
    await until(frames, lambda: bool(pane.text_selection))
    assert len(frames.app.screen_stack) == 1
    assert frames.app.screen.get_selected_text()


async def test_missing_or_shortened_file_is_reported(make_app: MakeApp, lib: Path) -> None:
    error_records = records(lib)
    lib.write_text("x")
    async with in_transcript(make_app(*error_records)) as pilot:
        await open_frames(pilot, "enter", "enter")
        await reads(pilot, "The source has changed: it has no line 2 now.")
        await pilot.press("up")
        lib.unlink()
        await pilot.press("down")
        await reads(pilot, "The file cannot be read: No such file or directory.")


async def test_hostile_names_are_drawn_harmlessly(make_app: MakeApp, tmp_path: Path) -> None:
    hostile = "/x/\x1b]0;y\x07[/red][@click=app.quit]\nz" + "é" * 300
    frames = [[hostile, 10**9, hostile, 4], ["\ud800", 0, "", 10**6], [hostile, 3, hostile, 0]]
    app = make_app(*records(tmp_path / "lib.py", frames=frames))
    async with in_transcript(app) as pilot:
        await open_frames(pilot, "enter", "o", "home")
        await reads(pilot, "cannot be read")
        assert not set("\n".join(lines(pilot)).replace("\n", "")) & set("\x1b\x07\ud800")
