"""Commands of Vi on a text, compared with what Vim 9.0 makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.editor_app import EditorApp, until

TABLE = json.loads((Path(__file__).parents[1] / "data" / "vi_commands.json").read_text("utf-8"))
TEXT: str = TABLE["text"]
START: tuple[int, int] = tuple(TABLE["cursor"])
PART_COUNT = 12
KEY = re.compile(r"<(?P<name>esc|cr|bs|del|left|space)>|<c-(?P<control>.)>|(?P<character>.)")
NAMES = {
    "esc": "escape",
    "cr": "enter",
    "bs": "backspace",
    "del": "delete",
    "left": "left",
    "space": "space",
}


def pressed_keys(keys: str) -> Iterator[str]:
    """Yield Textual's names of keys in Vim's notation."""
    for key in KEY.finditer(keys):
        if key["control"]:
            yield f"ctrl+{key['control']}"
        else:
            yield NAMES.get(key["name"], key["character"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("part", range(PART_COUNT))
async def test_commands_do_what_they_do_in_vim(home: Path, part: int) -> None:
    app = EditorApp(home)
    results = {}
    expected_results = {}
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.area.has_focus)
        for command in TABLE["commands"][part::PART_COUNT]:
            keys = command["keys"]
            # Registers and searches of the commands before are forgotten.
            app.editor.keys = "standard"
            app.editor.keys = "vim"
            app.editor.text = TEXT
            app.area.history.clear()
            await pilot.press("escape")
            app.area.move_cursor(START)
            await pilot.press(*pressed_keys(keys), "escape")
            results[keys] = (app.area.text, app.area.cursor_location)
            expected_results[keys] = (command["text"] or TEXT, tuple(command["cursor"]))
    assert results == expected_results


@pytest.mark.parametrize(
    "keys",
    ["di<", "cfz<esc>", "d/sum<cr>", "mad'a", "d`a", "m"],
)
async def test_command_whose_motion_fails_or_is_unknown_changes_nothing(
    home: Path, keys: str
) -> None:
    app = EditorApp(home)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.area.has_focus)
        app.editor.keys = "vim"
        app.editor.text = TEXT
        app.area.move_cursor(START)
        await pilot.press("escape", *pressed_keys(keys))
        assert app.area.text == TEXT
