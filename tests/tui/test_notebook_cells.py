"""The cells of a notebook in the transcript: drawn as not run yet, and run from there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.commands.session import run_notebook
from mahtab_tui.tui.screens.dialog import Confirm
from tests import tags
from tests.hostile import HOSTILE as HOSTILE_TEXTS
from tests.notebooks import PIXEL
from tests.records import made
from tests.tui.editor_app import wait_for_close, wait_for_screen
from tests.tui.scripted_session import IDLE, MakeApp
from tests.tui.test_app import pressing
from tests.tui.test_transcript_keys import KeysApp, marked, offered, press
from tests.tui.transcript_app import SIZE, cell, shown

HOSTILE = "\n".join(HOSTILE_TEXTS)
TABLE = "<table><thead><tr><th>name</th></tr></thead><tbody><tr><td>pear</td></tr></tbody></table><script>x</script>"

MORE = [
    records.NotebookCell(f"cell_{number}", position=number, kind="code") for number in range(5, 80)
]

TRACEBACK = (
    "\x1b[31mTraceback (most recent call last)\x1b[0m\nZeroDivisionError: division by zero\n"
)


def notebook(first_position: int = 1) -> list[Record]:
    return [
        records.NotebookOpened(
            "a.ipynb: cells 1 to 4", file="/a.ipynb", digest="d", first=first_position, cells=4
        ),
        records.NotebookCell("# Title\n\nwith *words*", position=first_position, kind="markdown"),
        records.NotebookCell("x = 1", position=first_position + 1, kind="code"),
        records.NotebookOutput("stored\n", position=first_position + 1),
        records.NotebookOutput(
            "<table>\n", position=first_position + 1, kind="display", mime="text/html", data=TABLE
        ),
        records.NotebookCell("plot()", position=first_position + 2, kind="code"),
        records.NotebookOutput(
            "<Figure>\n", position=first_position + 2, kind="display", mime="image/png", data=PIXEL
        ),
        records.NotebookCell("raw ``` text", position=first_position + 3, kind="raw"),
    ]


def executed(code: str, output: str = "", *, cell: int) -> list[Record]:
    """Records of the notebook's second cell, run as this cell."""
    about: dict[str, Any] = {"cell": cell, "party": "you", "position": 2, "time": 1.0}
    output_record = records.UserReplOut(output, status="ok", duration=0.5, **about)
    return [records.UserReplIn(code, **about), output_record]


def text(app: KeysApp) -> str:
    return "\n".join(shown(app.pane))


async def test_cells_are_shown_with_stored_outputs_and_marked_as_not_run() -> None:
    app = KeysApp(notebook())
    async with app.run_test(size=(100, 45)) as pilot:
        await pilot.pause()
        drawn = text(app)
        assert drawn.count("not run") == 2
        for words in ("Title", "with words", "Cell 2 · notebook", "stored", "pear", "raw ``` text"):
            assert words in drawn
        assert "script" not in drawn
        app.pane.fold(executed("x = 1", "new\n", cell=7))
        await press(pilot, "home")
        assert "ran as In 7" in text(app)
        assert "In 7 · you · cell 2 of the notebook" in text(app)


async def test_long_notebook_is_shown_from_its_start_until_something_happens() -> None:
    app = KeysApp([*cell(1, "before"), *notebook(), *MORE])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "a.ipynb: cells 1 to 4" in shown(app.pane)[2]
        app.pane.focus()
        await press(pilot, "end")
        assert "cell_79" in text(app)
        await press(pilot, "home")
        assert "before" in text(app)
        app.pane.fold([])
        await pilot.pause()
        assert "before" in text(app)
        await press(pilot, "end")
        app.pane.fold(cell(2, "after"))
        await pilot.pause()
        assert "after" in text(app)


async def test_notices_do_not_scroll_a_notebook_until_the_user_does() -> None:
    app = KeysApp([*notebook(), *MORE])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.pane.fold([records.Notice("Something waits.", time=1.0)])
        await pilot.pause()
        assert "a.ipynb: cells 1 to 4" in text(app)
        app.pane.action_scroll_end()
        await pilot.pause()
        app.pane.fold([records.Notice("It was saved.", time=1.0)])
        await pilot.pause()
        assert "It was saved." in text(app)


async def test_cell_is_run_edited_and_inspected_from_its_menu() -> None:
    app = KeysApp(notebook())
    async with app.run_test(size=(100, 45)) as pilot:
        await pilot.pause()
        app.pane.focus()
        await press(pilot, "up")
        assert marked(app) == "plot()"
        await press(pilot, "alt+r", "enter")
        assert {"entry-edit", "entry-hide", "entry-open"} <= offered(app)
        assert not {"entry-replace", "entry-undo", "entry-mention", "entry-explain"} & offered(app)
        for keys in (["e"], ["enter", "r", "enter"], ["enter", "m"], ["enter", "o"]):
            await press(pilot, *keys)
        await press(pilot, "up", "enter", "o")
        assert app.calls == [
            ("place", 3, "plot()"),
            ("replace", "python", "plot()", "place 3"),
            ("place", 3, "plot()"),
            ("hide", "place 3", True),
            ("pictures", 3),
            ("stored output", 2),
        ]


async def test_executed_cell_is_rerun_and_edited_as_that_cell() -> None:
    app = KeysApp([*notebook(), *executed("x = 5", cell=7)])
    async with app.run_test(size=SIZE) as pilot:
        app.pane.focus()
        await press(pilot, "alt+r", "enter", "e")
        assert app.calls == [("place", 2, "x = 5"), ("replace", "python", "x = 5", "place 2")]


async def test_reloaded_file_replaces_the_shown_cells() -> None:
    app = KeysApp([*notebook(), *cell(1), *notebook(first_position=5)])
    async with app.run_test(size=SIZE):
        entries = [entry for entry in app.pane.viewport.transcript.entries if entry.key]
        assert [entry.removed for entry in entries] == ["replaced"] * 4 + [""] * 5
        app.pane.clear()
        app.pane.fold([executed("x", cell=9)[0], records.NotebookOutput("late", position=6)])
        assert isinstance(app.pane.viewport.transcript.entries[0], Cell)


async def test_hostile_cells_are_plain_text() -> None:
    sales_records: list[Record] = [
        records.NotebookOpened(HOSTILE, file=HOSTILE, digest="", first=1, cells=9)
    ]
    for index, kind in enumerate(("markdown", "code", "raw", "other"), 1):
        sales_records.append(records.NotebookCell(HOSTILE, position=index, kind=kind))
    for mime in ("", "text/html", "text/markdown", "image/png", HOSTILE):
        output = records.NotebookOutput(HOSTILE, position=2, mime=mime, data=HOSTILE)
        sales_records.append(output.changed(kind="display" if mime else "traceback"))
    app = KeysApp(sales_records)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for key in ("home", "pagedown", "end"):
            app.pane.focus()
            await press(pilot, key)
            assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(shown(app.pane)))


def opened() -> list[Record]:
    return [
        records.SessionRecord(name="sales", model="demo", approval="ask", time=1.0),
        made(tags.KERNEL, "", IDLE, 1.0),
        *notebook(),
        records.NotebookCell("1 / 0", position=5, kind="code"),
        records.NotebookOutput(TRACEBACK, position=5, kind="traceback"),
    ]


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_notebook_snapshot(
    snap_compare: Callable[..., bool], make_app: MakeApp, size: tuple[int, int]
) -> None:
    assert snap_compare(make_app(*opened()), terminal_size=size, run_before=pressing())


def test_notebook_with_an_executed_cell_snapshot(
    snap_compare: Callable[..., bool], make_app: MakeApp
) -> None:
    app = make_app(*opened(), *executed("x = 2", "new\n", cell=1), theme="mahtab-day")
    assert snap_compare(app, terminal_size=(120, 50), run_before=pressing())


async def test_notebook_of_another_language_runs_only_after_a_question(make_app: MakeApp) -> None:
    app = make_app()
    ran = list[str]()
    session: Any = SimpleNamespace(
        notebook=SimpleNamespace(language="julia", confirmed=False),
        kernel=SimpleNamespace(info=lambda: SimpleNamespace(language="")),
    )
    async with app.run_test() as pilot:
        context = replace(app.command_context, session=session)
        for key in ("n", "y"):
            run_notebook(context, lambda notebook: ran.append(notebook.language))
            await wait_for_screen(pilot, Confirm)
            assert ran == []
            await pilot.press(key)
            await wait_for_close(pilot)
        run_notebook(context, lambda notebook: ran.append("again"))
        assert ran == ["julia", "again"]
