"""Keys in the editor's text, and large pastes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets.text_area import Selection

from tests.tui.editor_app import (
    SIZE,
    EditorApp,
    actions,
    app_of,
    editing,
    press_at_once,
    text_of,
    write,
)

LARGE = "".join(f"x{i} = {i}\n" for i in range(311)) + "x = 311"


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        yield pilot


def put(pilot: Pilot[None], text: str, cursor: tuple[int, int] | None = None) -> None:
    area = app_of(pilot).area
    area.load_text(text)
    area.move_cursor(cursor or area.document.end)


async def paste(pilot: Pilot[None], *texts: str) -> EditorApp:
    app = app_of(pilot)
    for text in texts:
        app.area.post_message(Paste(text))
    await pilot.pause()
    return app


async def test_enter_runs_complete_code_and_empties_the_editor(pilot: Pilot[None]) -> None:
    await write(pilot, "x = 1\n")
    assert actions(pilot) == [("submitted", "python", "x = 1")]
    assert app_of(pilot).editor.is_empty


async def test_enter_opens_indented_lines_until_an_empty_one_ends_the_block(
    pilot: Pilot[None],
) -> None:
    await write(pilot, "def f(x):\nif x:\nreturn 1\n")
    assert text_of(pilot) == "def f(x):\n    if x:\n        return 1\n    "
    await write(pilot, "return 2\n")
    assert actions(pilot) == []
    await write(pilot, "\n")
    block = "def f(x):\n    if x:\n        return 1\n    return 2"
    assert actions(pilot) == [("submitted", "python", block)]


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("text", "cursor", "keys", "edited"),
    [
        *(
            ("x = 1", (0, 5), [key, "y"], "x = 1\ny")
            for key in ("ctrl+j", "shift+enter", "alt+enter")
        ),
        ("x = 1\ny = 2", (0, 5), ["enter"], "x = 1\n\ny = 2"),
        ("    x = (1, 2)", (0, 11), ["ctrl+j"], "    x = (1,\n        2)"),
        ("x = [", (0, 5), ["enter", "1", "comma", "enter", "]"], "x = [\n    1,\n]"),
        ("f(", (0, 2), ["enter", "{", "enter", "}", "enter", ")"], "f(\n    {\n    }\n)"),
        ("if x:\n    y", (1, 5), ["ctrl+j", ")"], "if x:\n    y\n    )"),
        ("ab", (0, 2), ["tab", "c"], "ab  c"),
        ("      x", (0, 7), ["shift+tab", "y"], "  xy"),
        ("      x", (0, 6), ["backspace"], "    x"),
        ("    x", (0, 4), ["backspace"], "x"),
        ("x    ", (0, 5), ["backspace"], "x   "),
        ("abcd", (0, 2), ["ctrl+u"], "cd"),
        ("abcd", (0, 2), ["ctrl+k"], "ab"),
        ("abcd", (0, 2), ["ctrl+w"], "cd"),
        ("f(a.b)  c", (0, 6), ["ctrl+w"], "  c"),
        ("f(a.b)", (0, 6), ["alt+backspace"], "f(a."),
        ("f(a.b)", (0, 1), ["alt+d", "alt+d"], "f)"),
        ("x = a.b", (0, 7), ["alt+b", "alt+b", "alt+b", "y"], "yx = a.b"),
        ("x = a.b", (0, 0), ["alt+f", "alt+f", "y"], "x = ay.b"),
        ("one two three", (0, 13), ["ctrl+w", "ctrl+w", "home", "ctrl+y"], "two threeone "),
        ("one two", (0, 0), ["ctrl+k", "ctrl+y", "ctrl+y"], "one twoone two"),
        ("one two", (0, 4), ["ctrl+u", "end", "ctrl+y"], "twoone "),
        ("a b", (0, 3), ["ctrl+w", "c", "ctrl+w", "ctrl+y"], "a c"),
        ("x\ny", (0, 1), ["ctrl+k"], "xy"),
        ("x\ny", (1, 0), ["ctrl+u"], "xy"),
        ("if x:\n    y", (1, 5), ["ctrl+slash", "z"], "if x:\n    # yz"),
        ("    # y", (0, 7), ["ctrl+underscore"], "    y"),
        ("a\nb\nc", (1, 1), ["alt+up", "x"], "bx\na\nc"),
        ("a\nb\nc", (1, 0), ["alt+down", "alt+down", "x"], "a\nc\nxb"),
        ("abcd", (0, 2), ["ctrl+d"], "abd"),
        ("abcd", (0, 4), ["ctrl+a", "x", "ctrl+e", "y"], "xabcdy"),
    ],
)
async def test_keys_edit_the_text(
    pilot: Pilot[None], text: str, cursor: tuple[int, int], keys: list[str], edited: str
) -> None:
    put(pilot, text, cursor)
    await pilot.press(*keys)
    assert text_of(pilot) == edited


@pytest.mark.parametrize(
    ("text", "cursor", "key"),
    [("print(1)", (0, 3), "enter"), ("x = 1\ny = 2", (0, 2), "ctrl+enter")],
)
async def test_text_is_run_from_anywhere(
    pilot: Pilot[None], text: str, cursor: tuple[int, int], key: str
) -> None:
    put(pilot, text, cursor)
    await pilot.press(key)
    assert actions(pilot) == [("submitted", "python", text)]


async def test_tab_indents_the_lines_of_a_selection(pilot: Pilot[None]) -> None:
    put(pilot, "a\n\nb\nc")
    app_of(pilot).area.selection = Selection((0, 1), (3, 0))
    await pilot.press("tab")
    assert text_of(pilot) == "    a\n\n    b\nc"
    await pilot.press("shift+tab")
    assert text_of(pilot) == "a\n\nb\nc"


async def test_undo_and_redo(pilot: Pilot[None]) -> None:
    await write(pilot, "x = 1")
    app_of(pilot).editor.clear()
    await pilot.press("ctrl+z")
    assert text_of(pilot) == "x = 1"
    await pilot.press("alt+z")
    assert app_of(pilot).editor.is_empty


async def test_lines_of_a_selection_are_commented_and_moved(pilot: Pilot[None]) -> None:
    put(pilot, "if a:\n    b\n\n    c\nd")
    area = app_of(pilot).area
    area.selection = Selection((1, 2), (3, 5))
    await pilot.press("ctrl+slash")
    assert text_of(pilot) == "if a:\n    # b\n\n    # c\nd"
    await pilot.press("alt+down")
    assert text_of(pilot) == "if a:\nd\n    # b\n\n    # c"
    await pilot.press("ctrl+slash", "alt+up")
    assert text_of(pilot) == "if a:\n    b\n\n    c\nd"


async def test_a_question_is_not_commented(pilot: Pilot[None]) -> None:
    app_of(pilot).editor.mode = "ask"
    put(pilot, "why")
    await pilot.press("ctrl+slash")
    assert text_of(pilot) == "why"


async def test_pasted_block_is_inserted_whole_and_not_run(pilot: Pilot[None]) -> None:
    await paste(pilot, "\tfor x in y:\r\n\t\tprint(x)\r\n\r\n\tz = 1\r\n")
    assert text_of(pilot) == "for x in y:\n    print(x)\n\nz = 1\n"
    assert actions(pilot) == []
    await pilot.press("enter")
    assert actions(pilot) == [("submitted", "python", "for x in y:\n    print(x)\n\nz = 1")]


async def test_a_pasted_block_replaces_the_selection(pilot: Pilot[None]) -> None:
    put(pilot, "f(old)")
    app_of(pilot).area.selection = Selection((0, 2), (0, 5))
    await paste(pilot, "  new")
    assert text_of(pilot) == "f(  new)"


async def test_text_copied_by_the_program_is_pasted_clean(pilot: Pilot[None]) -> None:
    app_of(pilot).copy_to_clipboard(">>> x\x1b[2J = 1")
    await pilot.press("ctrl+v")
    assert text_of(pilot) == "x = 1"


async def test_editor_grows_with_its_text_up_to_part_of_the_screen(pilot: Pilot[None]) -> None:
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
    await paste(pilot, "x = [" + "'é', " * 5_000 + "]")
    await pilot.press("alt+e", "end", "(", "1", ")", "backspace")
    assert text_of(pilot).endswith("](1")
    assert not app_of(pilot).area._highlights


async def test_bunched_keys_act_in_order(pilot: Pilot[None]) -> None:
    await press_at_once(pilot, *"abX", "backspace", *"cde", "left", "left", "Z", "end", "f")
    assert text_of(pilot) == "abcZdef"


async def test_bunched_inputs_stay_separate(pilot: Pilot[None]) -> None:
    keys = "1 + 1 enter 2 + 2 enter grave_accent w h y enter backspace 3 + 3 enter x"
    await press_at_once(pilot, *keys.split())
    assert [action for action in actions(pilot) if action[0] == "submitted"] == [
        ("submitted", "python", "1+1"),
        ("submitted", "python", "2+2"),
        ("submitted", "ask", "why"),
        ("submitted", "python", "3+3"),
    ]
    assert text_of(pilot) == "x"


# Large pasted texts, each of which the editor shows as one word.


async def test_large_paste_is_one_word_expanded_by_a_key_and_submitted_whole(
    pilot: Pilot[None],
) -> None:
    app = await paste(pilot, LARGE)
    assert app.area.text == "[Pasted 312 lines]"
    await pilot.press("alt+e")
    assert app.area.text == LARGE
    await pilot.press("ctrl+z")
    assert app.area.text == "[Pasted 312 lines]"
    assert app.editor.text == LARGE
    await pilot.press("enter")
    assert app.actions == [("submitted", "python", LARGE)]


async def test_backspace_deletes_a_folded_text_at_once(pilot: Pilot[None]) -> None:
    await write(pilot, "a ")
    app = await paste(pilot, LARGE, LARGE.replace("x", "y"))
    assert app.area.text == "a [Pasted 312 lines][Pasted 312 lines, 2]"
    await pilot.press("backspace", "backspace")
    assert app.area.text == "a "


async def test_folded_open_block_is_not_complete(pilot: Pilot[None]) -> None:
    app = await paste(pilot, LARGE + "\nif x:")
    await pilot.press("enter")
    assert app.actions == []


async def test_fold_word_is_removed_when_its_text_is_forgotten(home: Path) -> None:
    async with editing(home, ("an old input", "ask"), ("old = 1", "python")) as pilot:
        app = await paste(pilot, LARGE)
        await pilot.press("up")
        app.editor.toggle_mode()
        await pilot.press("enter")
        app.editor.toggle_mode()
        await pilot.press("down")
        assert app.editor.is_empty


async def test_paste_containing_a_fold_word_stays_unchanged(pilot: Pilot[None]) -> None:
    pasted = "# [Pasted 312 lines]\n" * 60
    app = await paste(pilot, pasted, LARGE)
    assert app.editor.text == pasted + LARGE


async def test_replaced_text_is_freed(pilot: Pilot[None]) -> None:
    area = app_of(pilot).area
    document_refs = []
    for number in range(5):
        await write(pilot, f"x = {number}")
        document_refs.append(weakref.ref(area.document))
        area.text = f"y = {number}"
    await pilot.pause()
    gc.collect()
    assert [document() for document in document_refs] == [None] * 5
    assert area.text == "y = 4"


async def test_double_click_selects_a_word_and_a_third_click_the_line(
    pilot: Pilot[None],
) -> None:
    area = app_of(pilot).area
    put(pilot, "first_row = 1\nsecond = 2")
    await pilot.click(area, offset=(3, 0), times=2)
    assert area.selected_text == "first_row"
    await pilot.click(area, offset=(2, 1), times=3)
    assert area.selected_text == "second = 2"
