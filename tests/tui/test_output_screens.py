"""All of a long output in a pager, and a cell's pictures on the whole screen."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mahtab_tui.bus.logger import StoreError
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.tui.app import MahtabApp, style_sheets
from mahtab_tui.tui.inspector import array
from mahtab_tui.tui.inspector.array import PictureView
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.screens.output import (
    DisplayedPicture,
    PagerScreen,
    PicturesScreen,
    write_new_file,
)
from mahtab_tui.tui.theme import MAHTAB, role_variables
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.story import drawn

SIZE = (80, 24)


class OutputApp(App[None]):
    """Something to put a screen over."""

    def __init__(self) -> None:
        super().__init__(css_path=list(style_sheets()))
        self.register_theme(MAHTAB)
        self.theme = MAHTAB.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)


@pytest.fixture
def look() -> InspectorClient:
    """Return a client of a kernel that was never started: nothing is asked of it."""
    return InspectorClient(ProcessKernel())


def text(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).content)


def seen(pilot: Pilot[None]) -> str:
    screen = pilot.app.screen
    assert isinstance(screen, PagerScreen | PicturesScreen)
    view = screen.viewer.view
    return (
        "" if view is None else "\n".join(view.render_line(y).text for y in range(view.size.height))
    )


async def opened(pilot: Pilot[None], screen: PagerScreen | PicturesScreen) -> None:
    await pilot.app.push_screen(screen)
    await until(pilot, lambda: bool(seen(pilot).strip()))


def png(*size: int) -> str:
    file = io.BytesIO()
    Image.new("RGB", (size[0], size[1]), (255, 0, 0)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


async def test_long_output_can_be_searched_wrapped_copied_and_saved(
    look: InspectorClient, tmp_path: Path
) -> None:
    lines = "".join(f"\x1b[32mline {number}\x1b[0m\n" for number in range(1_000_000))
    async with OutputApp().run_test(size=SIZE) as pilot:
        await opened(
            pilot, PagerScreen("Output of cell 3", "cell-3.txt", lambda: lines, look, tmp_path)
        )
        assert text(pilot, "#output-title") == "Output of cell 3  ·  1,000,000 lines"
        await until(pilot, lambda: "line 0 " in seen(pilot))
        assert "32m" not in seen(pilot)
        await pilot.press("end")
        await until(pilot, lambda: "1,000,000  line 999999" in seen(pilot))
        await pilot.press("home", "slash", *"line 777777", "enter")
        await until(pilot, lambda: "line 777777" in seen(pilot))
        await pilot.press("y")
        await until(pilot, lambda: "too many for the clipboard" in text(pilot, "#viewing-status"))
        await pilot.press("ctrl+s")
        await pilot.press("enter")
        await until(pilot, lambda: "Saved to" in text(pilot, "#viewing-status"))
        assert (tmp_path / "cell-3.txt").read_text() == "".join(
            f"line {number}\n" for number in range(1_000_000)
        )
        await pilot.press("ctrl+s")
        await pilot.press("enter")
        await until(pilot, lambda: "already" in text(pilot, "#viewing-status"))
        await pilot.press("escape")
        assert len(pilot.app.screen_stack) == 1


async def test_an_output_is_searched_by_a_pattern(look: InspectorClient, tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(300_000))
    async with OutputApp().run_test(size=SIZE) as pilot:
        await opened(
            pilot, PagerScreen("Output of cell 3", "cell-3.txt", lambda: lines, look, tmp_path)
        )
        await pilot.press("x", "slash", *r"^line 2\d{4}7$", "enter")
        await until(pilot, lambda: "line 200007" in seen(pilot))
        await pilot.press("N")
        await until(pilot, lambda: "line 299997" in seen(pilot))
        assert r"pattern ^line 2\d{4}7$" in text(pilot, "#viewing-status")
        await pilot.press("slash", *["backspace"] * 20, "(", "enter")
        await until(
            pilot, lambda: text(pilot, "#viewing-status").startswith("Invalid regular expression: ")
        )
        await pilot.press("x", "slash", *["backspace"] * 20, *"ne 5", "enter")
        await until(pilot, lambda: "line 5 " in seen(pilot))
        await pilot.press("slash", *["backspace"] * 20, *"ne 5.", "enter")
        await until(pilot, lambda: text(pilot, "#viewing-status") == "Not found in the text.")


async def test_a_short_output_goes_to_the_clipboard_and_escape_closes_the_line_first(
    look: InspectorClient, tmp_path: Path
) -> None:
    async with OutputApp().run_test(size=SIZE) as pilot:
        await opened(
            pilot,
            PagerScreen(
                "Output of cell 1", "cell-1.txt", lambda: "one\rtwo\nthree", look, tmp_path
            ),
        )
        assert text(pilot, "#output-title").endswith("2 lines")
        await pilot.press("y")
        assert pilot.app.clipboard == "two\nthree"
        await pilot.press("slash", "escape")
        assert isinstance(pilot.app.screen, PagerScreen)
        await pilot.press("q")
        assert len(pilot.app.screen_stack) == 1


@pytest.mark.parametrize(
    "name",
    ["~nobody-of-this-name/x", "no/such/folder", "a\0b", "\ud800", "x" * 300, "[/x]/[bold]"],
    ids=ascii,
)
async def test_impossible_file_name_is_refused_with_a_sentence(
    look: InspectorClient, tmp_path: Path, name: str
) -> None:
    async with OutputApp().run_test(size=SIZE) as pilot:
        await opened(
            pilot, PagerScreen("Output of cell 1", "cell-1.txt", lambda: "one", look, tmp_path)
        )
        await pilot.press("ctrl+s")
        pilot.app.screen.query_one(Input).value = name
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be written: " in text(pilot, "#viewing-status"))
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
    look: InspectorClient, tmp_path: Path, read: Callable[[], str | None], message: str
) -> None:
    async with OutputApp().run_test(size=SIZE) as pilot:
        await pilot.app.push_screen(
            PagerScreen("Output of cell 1", "cell-1.txt", read, look, tmp_path)
        )
        await until(pilot, lambda: message in text(pilot, "#viewing-status"))
        await pilot.press("y", "ctrl+s")
        assert isinstance(pilot.app.screen, PagerScreen)


async def test_pictures_are_shown_one_by_one_and_saved(
    look: InspectorClient, tmp_path: Path
) -> None:
    pictures = [
        DisplayedPicture("image/png", png(20, 10)),
        DisplayedPicture("image/png", png(4, 40)),
    ]
    async with OutputApp().run_test(size=SIZE) as pilot:
        await opened(pilot, PicturesScreen(2, pictures, look, tmp_path))
        assert text(pilot, "#output-title") == "Picture of cell 2  ·  2 of 2"
        await until(pilot, lambda: "4 × 40 pixels" in text(pilot, "#viewing-status"))
        await pilot.press("right", "left")
        await until(pilot, lambda: "20 × 10 pixels" in text(pilot, "#viewing-status"))
        await pilot.press("ctrl+s")
        await pilot.press("enter")
        await until(
            pilot,
            lambda: (
                (tmp_path / "cell-2-1.png").exists()
                and "Saved to" in text(pilot, "#viewing-status")
            ),
        )
        assert (tmp_path / "cell-2-1.png").read_bytes() == base64.b64decode(pictures[0].data)


async def test_a_picture_opens_in_the_systems_viewer(
    look: InspectorClient, tmp_path: Path, desktop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = DisplayedPicture("image/png", png(20, 10))
    async with OutputApp().run_test(size=SIZE) as pilot:
        monkeypatch.setattr(array, "KEY_REPEAT_S", 3_600.0)
        await opened(pilot, PicturesScreen(2, [picture], look, tmp_path))
        await until(pilot, lambda: "20 × 10 pixels" in text(pilot, "#viewing-status"))
        await pilot.press("o", "o")
        monkeypatch.setattr(array, "KEY_REPEAT_S", 0.0)
        await pilot.press("o")
        await until(
            pilot, lambda: desktop.exists() and "Opened as" in text(pilot, "#viewing-status")
        )
        [path] = map(Path, desktop.read_text().split())
        assert (path.suffix, path.read_bytes()) == (".png", base64.b64decode(picture.data))


async def test_no_program_takes_over_the_terminal_without_a_desktop(
    look: InspectorClient, tmp_path: Path, desktop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(array, "KEY_REPEAT_S", 0.0)
    async with OutputApp().run_test(size=SIZE) as pilot:
        await opened(
            pilot, PicturesScreen(2, [DisplayedPicture("image/png", png(20, 10))], look, tmp_path)
        )
        await until(pilot, lambda: "20 × 10 pixels" in text(pilot, "#viewing-status"))
        await pilot.press("o")
        await until(pilot, lambda: "Ctrl+S saves it" in text(pilot, "#viewing-status"))
        assert not desktop.exists()


async def test_late_loaded_picture_is_the_requested_one(
    look: InspectorClient, tmp_path: Path
) -> None:
    pictures = [
        DisplayedPicture("image/png", png(20, 10)),
        DisplayedPicture("image/png", png(4, 40)),
    ]
    async with OutputApp().run_test(size=SIZE) as pilot:
        await opened(pilot, PicturesScreen(2, pictures, look, tmp_path))
        left = pilot.app.screen.query_one(PictureView)
        await pilot.press("left")
        assert left._file is not None
        assert left._file() == base64.b64decode(pictures[1].data)


async def test_damaged_picture_is_reported(look: InspectorClient, tmp_path: Path) -> None:
    async with OutputApp().run_test(size=SIZE) as pilot:
        await pilot.app.push_screen(
            PicturesScreen(2, [DisplayedPicture("image/png", "QUJD")], look, tmp_path)
        )
        await until(pilot, lambda: "damaged" in text(pilot, "#viewing-status"))


async def test_enter_on_a_cell_opens_its_output_or_its_picture(
    make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = "".join(f"{number}\n" for number in range(5_000))
    about = {"status": "ok", "duration": 0.1}
    records = [
        made(tags.USER_REPL_IN, "plot()", {"cell": 1, "party": "you"}, 1.0),
        made(tags.DISPLAY, "<Figure>\n", {"cell": 1, "mime": "image/png", "data": png(8, 8)}, 1.0),
        made(
            tags.USER_REPL_OUT, "<Figure>\n", {"cell": 1, **about, "kinds": [["display", 9]]}, 1.0
        ),
        made(tags.USER_REPL_IN, "count()", {"cell": 2, "party": "you"}, 1.0),
        made(
            tags.USER_REPL_OUT,
            printed,
            {"cell": 2, **about, "kinds": [["stdout", len(printed)]]},
            1.0,
        ),
        made(tags.USER_REPL_IN, "x = 1", {"cell": 3, "party": "you"}, 1.0),
        made(tags.USER_REPL_OUT, "", {"cell": 3, **about, "kinds": []}, 1.0),
    ]
    async with make_app(*records).run_test(size=(120, 40)) as pilot:
        app = pilot.app
        assert isinstance(app, MahtabApp)
        await drawn(pilot)
        monkeypatch.setattr(app.session, "output", lambda cell: printed if cell == 2 else None)
        pane = app.query_one(TranscriptPane)
        pane.focus()
        await pilot.press("enter")
        assert isinstance(app.screen, ActionMenu)
        assert all(command.id != "entry-open" for command in app.screen.commands)
        await pilot.press("escape")
        pane.marker.entry = pane.viewport.transcript._cells[2]
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, PagerScreen))
        await until(
            pilot,
            lambda: "5,000 lines" in str(app.screen.query_one("#output-title", Static).content),
        )
        await pilot.press("q")
        pane.marker.entry = pane.viewport.transcript._cells[1]
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, PicturesScreen))
