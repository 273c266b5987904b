"""Keys in the editor's text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Static
from textual.widgets.text_area import Selection

from tests.tui.editor_app import SIZE, EditorApp, app_of, press_at_once, write


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        yield pilot


def put(pilot: Pilot[None], text: str, cursor: tuple[int, int] | None = None) -> None:
    """A text as if it was typed, with the cursor at its end or elsewhere."""
    area = app_of(pilot).area
    area.load_text(text)
    area.move_cursor(cursor or area.document.end)


async def test_enter_runs_complete_code_and_empties_the_editor(pilot: Pilot[None]) -> None:
    await write(pilot, "x = 1\n")
    assert app_of(pilot).actions == [("submitted", "python", "x = 1")]
    assert app_of(pilot).editor.is_empty


async def test_enter_opens_indented_lines_until_an_empty_one_ends_the_block(
    pilot: Pilot[None],
) -> None:
    await write(pilot, "def f(x):\nif x:\nreturn 1\n")
    assert app_of(pilot).editor.text == "def f(x):\n    if x:\n        return 1\n    "
    await write(pilot, "return 2\n")
    assert app_of(pilot).actions == []
    await write(pilot, "\n")
    assert app_of(pilot).actions == [
        ("submitted", "python", "def f(x):\n    if x:\n        return 1\n    return 2")
    ]


async def test_enter_on_empty_input_runs_nothing(pilot: Pilot[None]) -> None:
    await write(pilot, "  \n\n")
    assert app_of(pilot).actions == []


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_line_can_always_be_added(pilot: Pilot[None], key: str) -> None:
    await write(pilot, "x = 1")
    await pilot.press(key, "y")
    assert app_of(pilot).editor.text == "x = 1\ny"


async def test_enter_in_the_middle_of_several_lines_adds_a_line(pilot: Pilot[None]) -> None:
    put(pilot, "x = 1\ny = 2", cursor=(0, 5))
    await pilot.press("enter")
    assert app_of(pilot).editor.text == "x = 1\n\ny = 2"


async def test_enter_anywhere_in_a_single_line_runs_it(pilot: Pilot[None]) -> None:
    put(pilot, "print(1)", cursor=(0, 3))
    await pilot.press("enter")
    assert app_of(pilot).actions == [("submitted", "python", "print(1)")]


async def test_ctrl_enter_runs_from_anywhere(pilot: Pilot[None]) -> None:
    put(pilot, "x = 1\ny = 2", cursor=(0, 2))
    await pilot.press("ctrl+enter")
    assert app_of(pilot).actions == [("submitted", "python", "x = 1\ny = 2")]


async def test_splitting_a_line_drops_the_blanks_at_the_split(
    pilot: Pilot[None],
) -> None:
    put(pilot, "    x = (1, 2)", cursor=(0, 11))
    await pilot.press("ctrl+j")
    assert app_of(pilot).editor.text == "    x = (1,\n    2)"


async def test_tab_indents_to_the_next_stop_and_shift_tab_unindents(
    pilot: Pilot[None],
) -> None:
    await write(pilot, "ab")
    await pilot.press("tab", "c")
    assert app_of(pilot).editor.text == "ab  c"
    put(pilot, "      x")
    await pilot.press("shift+tab")
    assert app_of(pilot).editor.text == "  x"
    assert app_of(pilot).area.cursor_location == (0, 3)


async def test_tab_indents_the_lines_of_a_selection(pilot: Pilot[None]) -> None:
    put(pilot, "a\n\nb\nc")
    app_of(pilot).area.selection = Selection((0, 1), (3, 0))
    await pilot.press("tab")
    assert app_of(pilot).editor.text == "    a\n\n    b\nc"
    await pilot.press("shift+tab")
    assert app_of(pilot).editor.text == "a\n\nb\nc"


async def test_backspace_in_leading_white_space_goes_to_the_previous_stop(
    pilot: Pilot[None],
) -> None:
    put(pilot, "      x", cursor=(0, 6))
    await pilot.press("backspace")
    assert app_of(pilot).editor.text == "    x"
    await pilot.press("backspace")
    assert app_of(pilot).editor.text == "x"
    put(pilot, "x    ")
    await pilot.press("backspace")
    assert app_of(pilot).editor.text == "x   "


async def test_undo_and_redo(pilot: Pilot[None]) -> None:
    await write(pilot, "x = 1")
    app_of(pilot).editor.clear()
    await pilot.press("ctrl+z")
    assert app_of(pilot).editor.text == "x = 1"
    await pilot.press("ctrl+y")
    assert app_of(pilot).editor.is_empty


@pytest.mark.parametrize(
    ("key", "text"), [("ctrl+u", "cd"), ("ctrl+k", "ab"), ("ctrl+w", "cd"), ("ctrl+d", "abd")]
)
async def test_readline_deletion_keys_work(pilot: Pilot[None], key: str, text: str) -> None:
    put(pilot, "abcd", cursor=(0, 2))
    await pilot.press(key)
    assert app_of(pilot).editor.text == text


async def test_readline_movement_keys_work(pilot: Pilot[None]) -> None:
    put(pilot, "abcd")
    await pilot.press("ctrl+a", "x", "ctrl+e", "y")
    assert app_of(pilot).editor.text == "xabcdy"


async def test_pasted_block_is_inserted_whole_and_not_run(pilot: Pilot[None]) -> None:
    app_of(pilot).area.post_message(Paste("\tfor x in y:\r\n\t\tprint(x)\r\n\r\n\tz = 1\r\n"))
    await pilot.pause()
    assert app_of(pilot).editor.text == "for x in y:\n    print(x)\n\nz = 1\n"
    assert app_of(pilot).actions == []
    await pilot.press("enter")
    assert app_of(pilot).actions == [("submitted", "python", "for x in y:\n    print(x)\n\nz = 1")]


async def test_curly_quotes_are_straightened_if_wanted(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    hint = app.query_one("#hint", Static)
    app.area.post_message(Paste("```python\nprint(“it’s”)\n```"))
    await pilot.pause()
    assert app.editor.text == "print(“it’s”)"
    assert "Alt+Q makes them straight" in str(hint.content)
    await pilot.press("alt+q")
    assert app.editor.text == 'print("it\'s")'
    assert "Alt+Q" not in str(hint.content)
    await pilot.press("ctrl+z")
    assert app.editor.text == "print(“it’s”)"
    app.editor.toggle_mode()
    await pilot.pause()
    assert "Alt+Q" not in str(hint.content), "a question may have any quotes"
    await pilot.press("alt+q")
    assert app.editor.text == "print(“it’s”)"


async def test_curly_quotes_of_a_folded_text_are_straightened_too(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.area.post_message(Paste("print(“a”)\n" * 60))
    await pilot.pause()
    await pilot.press("alt+q")
    assert app.editor.text == 'print("a")\n' * 60
    assert app.area.text.startswith("[Pasted 61 lines")


async def test_a_pasted_block_replaces_the_selection(pilot: Pilot[None]) -> None:
    put(pilot, "f(old)")
    app_of(pilot).area.selection = Selection((0, 2), (0, 5))
    app_of(pilot).area.post_message(Paste("  new"))
    await pilot.pause()
    assert app_of(pilot).editor.text == "f(  new)"


async def test_text_copied_by_the_program_is_pasted_clean(pilot: Pilot[None]) -> None:
    app_of(pilot).copy_to_clipboard(">>> x\x1b[2J = 1")
    await pilot.press("ctrl+v")
    assert app_of(pilot).editor.text == "x = 1"


@pytest.mark.parametrize(
    ("cursor", "pair"),
    [((0, 1), {(0, 1), (1, 4)}), ((1, 5), {(0, 1), (1, 4)}), ((0, 4), set()), ((1, 0), set())],
)
async def test_the_brackets_at_or_before_the_cursor_are_marked(
    pilot: Pilot[None], cursor: tuple[int, int], pair: set[tuple[int, int]]
) -> None:
    put(pilot, "f(')',\n  1 )", cursor=cursor)
    area = app_of(pilot).area
    assert {(row, span.start) for row in range(2) for span in area.get_line(row).spans} == pair


async def test_escape_is_left_to_the_application(pilot: Pilot[None]) -> None:
    app_of(pilot).bind("escape", "stop")
    await pilot.press("escape")
    assert app_of(pilot).actions == [("stop",)]


async def test_only_visible_lines_are_highlighted(pilot: Pilot[None]) -> None:
    put(pilot, "\n".join(f"x{number} = 'text'" for number in range(1_000)), cursor=(500, 0))
    await pilot.pause()
    area = app_of(pilot).area
    rows = [row for row, highlights in area._highlights.items() if highlights]
    assert 500 in rows
    assert len(rows) < 30
    area.move_cursor((0, 0))
    await pilot.pause()
    assert area.render_line(0).text.startswith("x0 = 'text'")
    colours = {
        segment.text: segment.style.color.name
        for segment in area.render_line(0)
        if segment.style and segment.style.color
    }
    assert colours["'text'"] == "#8fd6a4"


async def test_the_colours_follow_the_theme(pilot: Pilot[None]) -> None:
    put(pilot, "x = 'text'")
    app_of(pilot).theme = "mahtab-day"
    await pilot.pause()
    colours = {
        segment.text: segment.style.color.name
        for segment in app_of(pilot).area.render_line(0)
        if segment.style and segment.style.color
    }
    assert colours["'text'"] == "#1f7a3d"


async def test_editor_grows_with_its_text_up_to_part_of_the_screen(
    pilot: Pilot[None],
) -> None:
    await pilot.pause()
    area = app_of(pilot).area
    assert area.size.height == 3
    put(pilot, "\n".join("abcde"))
    await pilot.pause()
    assert area.size.height == 5
    put(pilot, "\n" * 200)
    await pilot.pause()
    assert 6 <= area.size.height <= 0.45 * SIZE[1]
    assert pilot.app.query_one("#hint").region.bottom <= SIZE[1]


async def test_a_huge_line_can_be_edited_and_stays_plain(pilot: Pilot[None]) -> None:
    app_of(pilot).area.post_message(Paste("x = [" + "'é', " * 5_000 + "]"))
    await pilot.press("alt+e")
    await pilot.press("end", "(", "1", ")", "backspace")
    assert app_of(pilot).editor.text.endswith("](1")
    assert not app_of(pilot).area._highlights


async def test_bunched_keys_act_in_order(pilot: Pilot[None]) -> None:
    await press_at_once(pilot, *"abX", "backspace", *"cde", "left", "left", "Z", "end", "f")
    assert app_of(pilot).editor.text == "abcZdef"


async def test_bunched_inputs_stay_separate(pilot: Pilot[None]) -> None:
    await press_at_once(
        pilot,
        *"1+1",
        "enter",
        *"2+2",
        "enter",
        "grave_accent",
        *"why",
        "enter",
        "backspace",
        *"3+3",
        "enter",
        "x",
    )
    assert [action for action in app_of(pilot).actions if action[0] == "submitted"] == [
        ("submitted", "python", "1+1"),
        ("submitted", "python", "2+2"),
        ("submitted", "ask", "why"),
        ("submitted", "python", "3+3"),
    ]
    assert app_of(pilot).editor.text == "x"


async def test_undo_works_beyond_the_visible_lines(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.area.post_message(Paste("x\n" * 40))
    await pilot.pause()
    await pilot.press("ctrl+z")
    assert app.editor.is_empty
    await pilot.press("ctrl+y")
    assert app.editor.text == "x\n" * 40
