"""The editor's modes, its draft, its history, and mentions."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from textual.content import Content
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Completion, Completions
from mahtab_tui.session import mentions as mentions_module
from mahtab_tui.session.mentions import MentionChip, find_mentions
from mahtab_tui.store.input_history import History, HistoryEntry
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.editor.code_area import MAX_BLINKS, CodeArea
from mahtab_tui.tui.editor.completion_list import CompletionList
from mahtab_tui.tui.screens.history_search import HistorySearch
from tests.tui.editor_app import (
    SIZE,
    EditorApp,
    HelpWith,
    actions,
    app_of,
    editing,
    press_at_once,
    remember,
    static_text,
    text_of,
    until,
    write,
)

BLOCK = "for a in b:\n    print(a)"

MEDIAN = "def median(day):\n    return day.median()"
INPUTS = [
    ("import pandas as pd", "python"),
    (MEDIAN, "python"),
    ("which days [/x] are far off?", "ask"),
    ("x\x1b]0;t\x07 = [1]", "python"),
]


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    async with editing(
        home,
        ("x = 1", "python"),
        ("what is x?", "ask"),
        (BLOCK, "python"),
        ("y = 2", "python"),
    ) as pilot:
        yield pilot


def glyph_and_mode(pilot: Pilot[None]) -> tuple[str, str]:
    return static_text(pilot, "#glyph"), static_text(pilot, "#hint").split(" · ")[0]


def hint(pilot: Pilot[None]) -> str:
    return static_text(pilot, "#hint")


async def test_the_hint_says_what_enter_does(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "x = 1")
    assert "Enter runs" in hint(pilot)
    await pilot.press("ctrl+j")
    await write(pilot, "y = f")
    assert "Enter runs" in hint(pilot)
    await pilot.press("home")
    assert "Enter opens a line" in hint(pilot), "the cursor is within the code"
    await pilot.press("end", "left_parenthesis")
    assert "Enter opens a line" in hint(pilot)
    app.editor.toggle_mode()
    await pilot.pause()
    assert "Enter sends" in hint(pilot)
    app.editor.toggle_mode()
    app.editor.clear()
    await pilot.pause()
    assert "Enter runs" in hint(pilot)


async def test_backtick_at_the_start_toggles_the_mode(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    assert glyph_and_mode(pilot) == ("❯", "Python")
    await write(pilot, "`")
    assert glyph_and_mode(pilot) == ("◈", "Ask")
    assert not app.area.is_syntax_aware
    await write(pilot, "`")
    assert app.actions == [("mode", "ask"), ("mode", "python")]
    assert app.editor.is_empty
    assert app.area.is_syntax_aware


async def test_the_cursor_redraws_one_cell_and_stops_blinking_without_keys(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    area = app_of(pilot).area
    await write(pilot, "x = 1")
    regions: list[Region] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            area, "refresh", lambda *refreshed_regions, **_: regions.extend(refreshed_regions)
        )
        for _ in range(MAX_BLINKS * 2):
            area._toggle_cursor_blink_visible()
    assert regions
    assert {region.size for region in regions} == {(1, 1)}
    assert len(regions) <= MAX_BLINKS
    assert area._cursor_visible
    await write(pilot, "2")
    area._toggle_cursor_blink_visible()
    assert not area._cursor_visible, "it blinks again"


async def test_draft_and_cursor_survive_the_mode_toggle(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "f(x)")
    await pilot.press("left")
    app.editor.toggle_mode()
    await write(pilot, "y")
    assert (app.editor.mode, app.editor.text) == ("ask", "f(xy)")
    await pilot.press("home", "grave_accent")
    assert (app.editor.mode, app.editor.text) == ("python", "f(xy)")


async def test_backspace_in_empty_ask_mode_returns_to_python(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "`a")
    await pilot.press("backspace")
    assert app.actions == [("mode", "ask")]
    await pilot.press("backspace", "backspace")
    assert app.actions == [("mode", "ask"), ("mode", "python")]


async def test_ctrl_d_quits_only_from_an_empty_editor(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "a")
    await pilot.press("ctrl+d", "home", "ctrl+d")
    assert app.actions == []
    await pilot.press("ctrl+d")
    assert app.actions == [("leave",)]


# History


async def test_up_and_down_walk_the_inputs_of_the_mode_and_return(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    texts = []
    for key in ("up",) * 4 + ("down",) * 4:
        await pilot.press(key)
        texts.append(app.editor.text)
    assert texts == ["y = 2", BLOCK, "x = 1", "x = 1", BLOCK, "y = 2", "", ""]
    app.editor.mode = "ask"
    await pilot.press("up")
    assert app.editor.text == "what is x?"


async def test_a_recalled_block_runs_with_one_enter(pilot: Pilot[None]) -> None:
    await pilot.press("up", "up", "enter")
    assert actions(pilot) == [("submitted", "python", BLOCK)]


async def test_cursor_moves_inside_a_recalled_block_once_it_was_moved(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await pilot.press("up", "up", "left", "up")
    assert app.area.cursor_location[0] == 0
    await pilot.press("end", "enter", "z")
    assert app.editor.text == "for a in b:\n    z\n    print(a)"


async def test_up_moves_through_the_lines_of_a_draft_first(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "for a in b:")
    await pilot.press("ctrl+j", "up")
    assert (app.editor.text, app.area.cursor_location[0]) == ("for a in b:\n    ", 0)
    await pilot.press("up")
    assert app.editor.text == BLOCK, "the newest input that begins with the draft"


async def test_submitted_input_is_recalled_once_and_saved(pilot: Pilot[None], home: Path) -> None:
    app = app_of(pilot)
    await write(pilot, "y = 2\nz = 3\n")
    await pilot.press("up", "up")
    assert app.editor.text == "y = 2"
    await pilot.press("up")
    assert app.editor.text.startswith("for a")
    await until(pilot, lambda: "z = 3" in [entry.text for entry in app.history.entries("python")])


@pytest.mark.parametrize("key", ["enter", "clear"])
async def test_new_draft_starts_at_the_newest_input_in_both_modes(
    pilot: Pilot[None], key: str
) -> None:
    app = app_of(pilot)
    await pilot.press("up", "up")
    app.editor.mode = "ask"
    await pilot.press("up")
    if key == "enter":
        await pilot.press("enter")
    else:
        app.editor.clear()
    app.editor.mode = "python"
    await pilot.press("up")
    assert app.editor.text == "y = 2"


async def test_key_after_up_in_a_bunch_acts_on_the_recalled_input(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await press_at_once(
        pilot, "up", "backspace", "3", "enter", "up", "0", "enter", "grave_accent", "up", "enter"
    )
    assert [action for action in app.actions if action[0] == "submitted"] == [
        ("submitted", "python", "y = 3"),
        ("submitted", "python", "y = 30"),
        ("submitted", "ask", "what is x?"),
    ]


async def test_locked_history_does_not_block_keys(pilot: Pilot[None], home: Path) -> None:
    app = app_of(pilot)
    with sqlite3.connect(home / "history.db") as connection:
        connection.execute("begin immediate")
        await write(pilot, "w = 4\nw")
        assert app.actions == [("submitted", "python", "w = 4")]
        assert app.editor.text == "w"
        await pilot.press("up")
        assert app.editor.text == "w = 4"
    await until(pilot, lambda: "w = 4" in [entry.text for entry in app.history.entries("python")])


async def test_inserted_text_is_clean(pilot: Pilot[None]) -> None:
    app_of(pilot).editor.text = "x\x1b]0;title\x07 = 1\r\ny"
    assert text_of(pilot) == "x = 1\ny"


async def test_quitting_waits_briefly_for_the_last_input_to_be_written(home: Path) -> None:
    app = EditorApp(home)
    connection = sqlite3.connect(home / "history.db", check_same_thread=False)
    connection.execute("begin immediate")
    async with app.run_test() as pilot:
        await write(pilot, "last = 1\n")
        threading.Timer(0.3, connection.rollback).start()
    assert [entry.text for entry in History(home / "history.db", "a project").entries()] == [
        "last = 1"
    ]


# Search over the input history.


@pytest.fixture
async def searching(home: Path) -> AsyncIterator[Pilot[None]]:
    remember(home, INPUTS)
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        search = HistorySearch(app.history)
        await app.push_screen(search, lambda entry: app.actions.append(("chosen", entry)))
        await until(pilot, lambda: found(pilot) != [])
        yield pilot


def chosen(pilot: Pilot[None]) -> tuple[str, str] | None:
    ((_, entry),) = actions(pilot)
    return (entry.mode, entry.text) if isinstance(entry, HistoryEntry) else None


def found(pilot: Pilot[None]) -> list[str]:
    return [str(option.prompt) for option in pilot.app.screen.query_one(OptionList).options]


def whole(pilot: Pilot[None]) -> CodeArea:
    return pilot.app.screen.query_one("#whole", CodeArea)


async def search(pilot: Pilot[None], query: str) -> None:
    await write(pilot, query)
    screen = pilot.app.screen
    assert isinstance(screen, HistorySearch)
    await until(pilot, lambda: screen.typed == query and not screen.is_searching)
    await pilot.pause()


async def test_all_inputs_are_listed_newest_first(searching: Pilot[None]) -> None:
    assert found(searching) == [
        "❯ x = [1]",
        "◈ which days [/x] are far off?",
        "❯ def median(day):  +1 line",
        "❯ import pandas as pd",
    ]
    assert whole(searching).text == "x = [1]"


async def test_typing_searches_and_shows_the_whole_entry(searching: Pilot[None]) -> None:
    await search(searching, "median")
    assert found(searching) == ["❯ def median(day):  +1 line"]
    assert whole(searching).text == MEDIAN
    assert whole(searching).python
    assert static_text(searching, ".listing-count") == "1 found"


async def test_query_is_highlighted_after_letters_that_lower_case_makes_longer(home: Path) -> None:
    remember(home, [("İ = 'Kırşehir'", "python")])
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(HistorySearch(app.history))
        await until(pilot, lambda: found(pilot) != [])
        await search(pilot, "hir")
        (option,) = app.screen.query_one(OptionList).options
        assert isinstance(option.prompt, Content)
        highlights = [span for span in option.prompt.spans if "$highlight" in str(span.style)]
        assert [option.prompt.plain[span.start : span.end] for span in highlights] == ["hir"]


async def test_enter_ignores_results_of_an_earlier_query(searching: Pilot[None]) -> None:
    query = searching.app.screen.query_one(Input)
    query.value = "pandas"
    await query.action_submit()
    await until(searching, lambda: bool(actions(searching)))
    assert chosen(searching) == ("python", "import pandas as pd")


async def test_arrows_choose(searching: Pilot[None]) -> None:
    await searching.press("down")
    assert whole(searching).text == "which days [/x] are far off?"
    assert not whole(searching).python
    await searching.press("up", "up")
    assert whole(searching).text == "import pandas as pd"
    await searching.press("enter")
    assert chosen(searching) == ("python", "import pandas as pd")


async def test_empty_result_is_reported_and_enter_does_nothing(searching: Pilot[None]) -> None:
    await search(searching, "zzz")
    assert static_text(searching, ".listing-count") == "nothing found"
    await searching.press("enter")
    assert isinstance(searching.app.screen, HistorySearch)
    assert whole(searching).text == ""


# Mentions in a question: completion, and chips that show what is attached.


class Finder:
    """Completes a file and a folder; can be made to wait, or to be busy."""

    def __init__(self) -> None:
        self.busy = False
        self.begun = threading.Event()
        self.free = threading.Event()
        self.free.set()

    def complete(self, question: str, cursor: int) -> Completions:
        if self.busy:
            raise KernelError("The kernel does not answer.")
        stem = question[:cursor].rpartition("@")[2].rpartition("/")[2]
        file = Completion("notes.txt", "notes.txt", "file", "")
        items = [file, Completion("src/", "src/", "folder", "")]
        matches = tuple(item for item in items if item.text.startswith(stem))
        return Completions(cursor - len(stem), matches, 0)

    def chips(self, question: str) -> Sequence[MentionChip]:
        self.begun.set()
        assert self.free.wait(30)
        return [
            MentionChip(mention.label, "[b]3 B[/b]\x1b[2J", missing=mention.name == "gone.txt")
            for mention in find_mentions(question)
        ]


@pytest.fixture
def finder() -> Finder:
    return Finder()


@pytest.fixture
async def mentions(home: Path, finder: Finder) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(
        home, input_help=HelpWith(complete_question=finder.complete, mention_chips=finder.chips)
    )
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        yield pilot
        finder.free.set()


def completion_list(pilot: Pilot[None]) -> CompletionList:
    return pilot.app.query_one(CompletionList)


async def test_files_are_offered_while_typing_and_folders_continue(mentions: Pilot[None]) -> None:
    await write(mentions, "`see @")
    await until(mentions, lambda: completion_list(mentions).is_open)
    await mentions.press("s")
    completions = completion_list(mentions)
    await until(mentions, lambda: completions.is_open and completions.items[0].label == "src/")
    await mentions.press("tab")
    assert text_of(mentions) == "see @src/"
    await until(mentions, lambda: completions.is_open and len(completions.items) == 2)
    await mentions.press("down", "tab", "escape")
    assert text_of(mentions) == "see @src/src/"


async def test_ordinary_words_are_not_completed(mentions: Pilot[None]) -> None:
    await write(mentions, "`mail a@b or")
    await mentions.pause()
    assert not completion_list(mentions).is_open
    await mentions.press("tab")
    assert not completion_list(mentions).is_open
    await write(mentions, " @")
    await until(mentions, lambda: completion_list(mentions).is_open)
    await mentions.press("space")
    assert not completion_list(mentions).is_open
    await mentions.press("enter")
    assert actions(mentions)[-1][0] == "submitted"


async def test_unresponsive_kernel_offers_nothing(mentions: Pilot[None], finder: Finder) -> None:
    await write(mentions, "`see @n")
    await until(mentions, lambda: completion_list(mentions).is_open)
    finder.busy = True
    await mentions.press("o")
    await until(mentions, lambda: not completion_list(mentions).is_open)
    assert text_of(mentions) == "see @no"


async def test_attachments_are_shown_with_their_size(mentions: Pilot[None]) -> None:
    old_hint = hint(mentions)
    await write(mentions, "`see @notes.txt ")
    await until(mentions, lambda: "@notes.txt" in hint(mentions))
    assert hint(mentions) == " @notes.txt [b]3 B[/b] "
    await write(mentions, "and $df !")
    await until(mentions, lambda: "$df" in hint(mentions))
    await mentions.press(*["backspace"] * len(text_of(mentions)))
    assert "Ask" in hint(mentions)
    await mentions.press("backspace")
    assert hint(mentions) == old_hint


async def test_reply_for_an_older_text_is_dropped(
    mentions: Pilot[None], finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints: list[str] = []
    update = Static.update

    def updated(widget: Static, content: Content) -> None:
        if widget.id == "hint":
            hints.append(content.plain)
        update(widget, content)

    monkeypatch.setattr(Static, "update", updated)
    finder.free.clear()
    await write(mentions, "`@notes.txt")
    await until(mentions, finder.begun.is_set)
    await mentions.press("escape", "enter")
    finder.free.set()
    await write(mentions, "$df ")
    await until(mentions, lambda: "$df" in hint(mentions))
    assert actions(mentions)[-1] == ("submitted", "ask", "@notes.txt")
    assert not any("@notes.txt" in text for text in hints)


async def test_long_question_is_scanned_off_the_main_thread(
    mentions: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    class Pattern:
        def finditer(self, text: str) -> Iterator[re.Match[str]]:
            threads.append(threading.current_thread())
            return iter(())

    monkeypatch.setattr(mentions_module, "_MENTION", Pattern())
    await write(mentions, "`see @notes.txt")
    await until(mentions, lambda: bool(threads))
    assert threading.main_thread() not in threads


async def test_mention_joins_the_question_being_written(mentions: Pilot[None]) -> None:
    editor = app_of(mentions).editor
    await write(mentions, "x = 1")
    editor.mention("@cell:3")
    assert (editor.mode, editor.text) == ("ask", "@cell:3 ")
    await mentions.press("ctrl+z")
    assert editor.text == "x = 1"
    editor.text = "what is "
    editor.mention("@cell:4")
    assert editor.text == "what is @cell:4 "
    await until(mentions, lambda: "@cell:4" in hint(mentions))


async def test_slash_at_the_start_of_a_question_completes_commands(mentions: Pilot[None]) -> None:
    app = app_of(mentions)
    completions = completion_list(mentions)
    await write(mentions, "`/")
    await until(mentions, lambda: completions.is_open)
    assert [item.label for item in completions.items] == sorted(
        f"/{command.slash} {command.argument}".rstrip() for command in COMMANDS if command.slash
    )
    await write(mentions, "mo")
    await until(mentions, lambda: [item.label for item in completions.items] == ["/model NAME"])
    assert completions.items[0].doc
    await mentions.press("tab")
    assert app.area.text == "/model "
    assert not completions.is_open
    await write(mentions, "demo")
    await mentions.press("enter")
    assert app.actions[-1] == ("submitted", "ask", "/model demo")
