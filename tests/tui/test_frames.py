"""From the frame of a traceback to its source, by keys and by the mouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseDown, MouseMove, MouseUp
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.inspector.tree import TreeView
from mahtab_tui.tui.screens import output as frames_module
from mahtab_tui.tui.screens.output import FramesScreen, PagerScreen, _cut_start
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.inspecting import lines, reads
from tests.tui.story import drawn

SIZE = (100, 30)
MakeApp = Callable[..., MahtabApp]


def records(lib: Path, *, deep: int = 0, printed: str = "") -> list[Record]:
    """A cell that made a function, and one in which it failed in a file, so many frames deep."""
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
    whole = output.split("\n")
    frame_rows = [[*frame, len(whole) - 2 - 2 * number] for number, frame in enumerate(frames)]
    about: dict[str, Any] = {
        "status": "error",
        "duration": 0.1,
        "kinds": [["stdout", len(printed)], ["traceback", len(output)]],
        "frames": frame_rows,
    }
    return [
        made(
            tags.USER_REPL_IN,
            "import lib\ndef f():\n    lib.divide(1, 0)",
            {"cell": 1, "party": "you"},
            1.0,
        ),
        made(
            tags.USER_REPL_OUT,
            "",
            {"cell": 1, "party": "you", "status": "ok", "duration": 0.1, "kinds": []},
            1.0,
        ),
        made(tags.USER_REPL_IN, "x = 1\nf()", {"cell": 2, "party": "you"}, 1.0),
        made(tags.USER_REPL_OUT, printed + output, {"cell": 2, "party": "you", **about}, 1.0),
    ]


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    file = tmp_path / "lib.py"
    file.write_text("def divide(a, b):\n    return a / b\ndef outer():\n    return divide(1, 0)\n")
    return file


async def shown(pilot: Pilot[int]) -> TranscriptPane:
    await drawn(pilot)
    pane = pilot.app.query_one(TranscriptPane)
    pane.focus()
    await pilot.pause()
    return pane


def screen(pilot: Pilot[int]) -> FramesScreen:
    assert isinstance(pilot.app.screen, FramesScreen)
    return pilot.app.screen


def title(pilot: Pilot[int]) -> str:
    return str(screen(pilot).query_one("#output-title", Static).content)


def marked(pilot: Pilot[int]) -> list[str]:
    """The lines of the source that bear the mark."""
    return [line.strip() for line in lines(pilot) if "▸ " in line and "  in " not in line]


@pytest.mark.parametrize("deep", [0, 20], ids=["whole", "folded"])
@pytest.mark.parametrize("key", ["enter", "f"])
async def test_enter_opens_the_source_and_the_arrows_walk_the_frames(
    make_app: MakeApp, lib: Path, deep: int, key: str
) -> None:
    async with make_app(*records(lib, deep=deep)).run_test(size=SIZE) as pilot:
        await shown(pilot)
        await pilot.press("enter", key)
        await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))
        await until(pilot, lambda: "    return a / b" in "\n".join(marked(pilot)))
        assert title(pilot) == f"Error of cell 2  ·  line 2 of {lib}"
        heading = str(screen(pilot).query_one(".exception", Static).content)
        assert heading.split("\n")[0] == "ZeroDivisionError: division by zero, as in"
        await pilot.press("v")
        assert isinstance(pilot.app.focused, TreeView)
        await until(
            pilot, lambda: "kernel" in screen(pilot).query_one(TreeView).render_line(0).text
        )  # there is none that knows them
        await pilot.press("enter", "right", "escape")
        await pilot.press(*["up"] * (deep + 1))
        await until(pilot, lambda: "lib.divide(1, 0)" in "\n".join(marked(pilot)))
        assert title(pilot) == "Error of cell 2  ·  line 3 of In [1]"
        await pilot.press("home")
        await until(
            pilot, lambda: "f()" in "\n".join(marked(pilot)) and "line 2 of In [2]" in title(pilot)
        )
        await pilot.press("enter", "escape", "escape")
        assert len(pilot.app.screen_stack) == 1


async def test_click_opens_only_real_frames(make_app: MakeApp, lib: Path) -> None:
    async with make_app(*records(lib)).run_test(size=SIZE) as pilot:
        pane = await shown(pilot)
        rows = [pane.render_line(y).text for y in range(pane.size.height)]
        forged = next(y for y, row in enumerate(rows) if "/etc/passwd" in row)
        await pilot.click(pane, (10, forged))
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1
        await pilot.click(
            pane, (10, next(y for y, row in enumerate(rows) if '"In [1]", line 3' in row))
        )
        await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))
        await until(pilot, lambda: "lib.divide(1, 0)" in "\n".join(marked(pilot)))


async def test_frames_drawn_while_the_cell_ran_can_be_clicked(make_app: MakeApp, lib: Path) -> None:
    *begin, end = records(lib)
    stream = made(tags.USER_REPL_OUT_STREAM, end.text, {"cell": 2, "kind": "traceback"}, 1.0)
    async with make_app(*begin, stream).run_test(size=SIZE) as pilot:
        pane = await shown(pilot)
        y = next(
            y for y in range(pane.size.height) if '"In [1]", line 3' in pane.render_line(y).text
        )
        pane.fold([end])
        await pilot.click(pane, (10, y))
        await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))


async def test_dragging_over_a_frame_selects_it(make_app: MakeApp, lib: Path) -> None:
    async with make_app(*records(lib)).run_test(size=SIZE) as pilot:
        pane = await shown(pilot)
        y = next(
            y for y in range(pane.size.height) if '"In [1]", line 3' in pane.render_line(y).text
        )
        # As the terminal tells it: Pilot's own mouse makes no click of this.
        for kind, x in ((MouseDown, 5), (MouseMove, 15), (MouseUp, 15)):
            position = (pane.region.x + x, pane.region.y + y)
            pilot.app.post_message(kind(None, *position, 0, 0, 1, False, False, False, *position))
            await pilot.pause()
        await until(pilot, lambda: bool(pane.text_selection))
        assert len(pilot.app.screen_stack) == 1
        assert pilot.app.screen.get_selected_text()


async def test_cell_code_opens_in_our_editor_and_a_file_in_the_users(
    make_app: MakeApp, lib: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited: list[tuple[str, int]] = []

    def edit(app: MahtabApp, path: str, line: int) -> None:
        edited.append((path, line))
        Path(path).write_text("def divide(a, b):\n    return 0 if not b else a / b\n")

    monkeypatch.setattr(frames_module, "open_in_editor", edit)
    async with make_app(*records(lib)).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, MahtabApp)
        await shown(pilot)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, FramesScreen))
        await reads(pilot, "return a / b")
        await pilot.press("e")
        await until(pilot, lambda: edited == [(str(lib), 2)])
        await reads(pilot, "return 0 if not b else a / b")
        await pilot.press("home")
        await reads(pilot, "x = 1")
        await pilot.press("e")
        await until(pilot, lambda: len(app.screen_stack) == 1 and app.editor.text == "x = 1\nf()")


async def test_missing_or_shortened_file_is_reported(make_app: MakeApp, lib: Path) -> None:
    error_records = records(lib)
    lib.write_text("x")
    async with make_app(*error_records).run_test(size=SIZE) as pilot:
        await shown(pilot)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))
        await reads(pilot, "The source has changed: it has no line 2 now.")
        await pilot.press("up")
        lib.unlink()
        await pilot.press("down")
        await reads(pilot, "The file cannot be read: No such file or directory.")
        await pilot.press("e", "s")
        assert isinstance(pilot.app.screen, FramesScreen)


async def test_cleared_cells_are_still_known_to_a_later_error(make_app: MakeApp, lib: Path) -> None:
    error_records = records(lib)
    async with make_app(*error_records[:2]).run_test(size=SIZE) as pilot:
        pane = await shown(pilot)
        pane.clear()
        pane.fold(error_records[2:])
        await pilot.press("enter", "enter", "up")
        await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))
        await until(pilot, lambda: "lib.divide(1, 0)" in "\n".join(marked(pilot)))


async def test_full_output_is_one_key_away_and_first_if_partly_visible(
    make_app: MakeApp, lib: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app(*records(lib, printed="line\n" * 2000)).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, MahtabApp)
        monkeypatch.setattr(app.session, "output", lambda cell: "all of it")
        await shown(pilot)
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, PagerScreen))
        await pilot.press("q", "enter", "f")
        await until(pilot, lambda: isinstance(app.screen, FramesScreen))
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, PagerScreen))
        await reads(pilot, "all of it")


async def test_hostile_names_are_drawn_harmlessly(make_app: MakeApp, tmp_path: Path) -> None:
    hostile = "/x/\x1b]0;y\x07[/red][@click=app.quit]\nz" + "é" * 300
    error_records = records(tmp_path / "lib.py")
    frames = [[hostile, 10**9, hostile, 4], ["\ud800", 0, "", 10**6], [hostile, 3, hostile, 0]]
    error_records[-1] = made(
        tags.USER_REPL_OUT,
        error_records[-1].text,
        {**error_records[-1].attrs, "frames": frames},
        1.0,
    )
    async with make_app(*error_records).run_test(size=SIZE) as pilot:
        await shown(pilot)
        await pilot.press("enter", "f", "up", "up")
        await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))
        await reads(pilot, "cannot be read")
        assert not set("\n".join(lines(pilot)).replace("\n", "")) & set("\x1b\x07\ud800")


@pytest.mark.timeout(60)
def test_end_of_a_long_file_name_is_shown() -> None:
    assert _cut_start("x" * 1_000_000 + "/lib.py:3", 12) == "…xx/lib.py:3"
    assert _cut_start("字" * 1_000_000, 6) == "…字字"
    assert _cut_start("lib.py:3", 12) == "lib.py:3"


async def test_error_without_known_frames_gives_one_sentence(make_app: MakeApp, lib: Path) -> None:
    error_records = records(lib)
    error_records[-1] = made(
        tags.USER_REPL_OUT,
        error_records[-1].text,
        {name: value for name, value in error_records[-1].attrs.items() if name != "frames"},
        1.0,
    )
    async with make_app(*error_records).run_test(size=SIZE) as pilot:
        await shown(pilot)
        await pilot.press("enter", "f")
        await until(
            pilot,
            lambda: (
                [error_records.message for error_records in pilot.app._notifications]
                == ["The location of this error is not known."]
            ),
        )


async def test_very_long_name_is_shown_by_its_end(make_app: MakeApp, tmp_path: Path) -> None:
    async with make_app(*records(tmp_path / ("数" * 200_000) / "lib.py")).run_test(
        size=SIZE
    ) as pilot:
        await shown(pilot)
        await pilot.press("enter", "f")
        await until(pilot, lambda: isinstance(pilot.app.screen, FramesScreen))
        await reads(pilot, "▸ …", "数/lib.py:2  in divide", "In [1]:3  in f")
