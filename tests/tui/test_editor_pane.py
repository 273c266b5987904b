"""The editor's modes, its draft, its history, and mentions."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Completion, Completions
from mahtab_tui.session import attachments as mentions_module
from mahtab_tui.session.attachments import MentionChip, find_mentions
from mahtab_tui.store.database import History, HistoryEntry
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.completion import Completer, CompletionList, CompletionRequest
from mahtab_tui.tui.screens.listing import HistorySearch
from tests.tui.editor_app import (
    SIZE,
    EditorApp,
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


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    async with editing(
        home,
        ("x = 1", "python"),
        ("what is x?", "ask"),
        ("for a in b:\n    print(a)", "python"),
        ("y = 2", "python"),
    ) as pilot:
        yield pilot


def shown(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.query_one(selector, Static).content)


# Modes


async def test_backtick_at_the_start_toggles_the_mode(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    assert (shown(pilot, "#glyph"), shown(pilot, "#hint").split(" · ")[0]) == ("❯", "Python")
    await write(pilot, "`")
    assert (shown(pilot, "#glyph"), shown(pilot, "#hint").split(" · ")[0]) == ("◈", "Ask")
    assert not app.area.is_syntax_aware
    await write(pilot, "`")
    assert app.actions == [("mode", "ask"), ("mode", "python")]
    assert app.editor.is_empty
    assert app.area.is_syntax_aware


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
    for key in ("up", "up", "up", "up", "down", "down", "down", "down"):
        await pilot.press(key)
        texts.append(app.editor.text)
    block = "for a in b:\n    print(a)"
    assert texts == ["y = 2", block, "x = 1", "x = 1", block, "y = 2", "", ""]
    app.editor.mode = "ask"
    await pilot.press("up")
    assert app.editor.text == "what is x?"


async def test_a_recalled_block_runs_with_one_enter(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await pilot.press("up", "up", "enter")
    assert app.actions == [("submitted", "python", "for a in b:\n    print(a)")]


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
    assert app.editor.text == "for a in b:\n    print(a)", (
        "the newest input that begins with the draft"
    )


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


async def test_key_after_up_in_a_bunch_acts_on_the_recalled_input(
    pilot: Pilot[None],
) -> None:
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
    with sqlite3.connect(home / "history.db") as other:
        other.execute("begin immediate")
        await write(pilot, "w = 4\nw")
        assert app.actions == [("submitted", "python", "w = 4")]
        assert app.editor.text == "w"
        await pilot.press("up")
        assert app.editor.text == "w = 4"
    await until(pilot, lambda: "w = 4" in [entry.text for entry in app.history.entries("python")])


async def test_inserted_text_is_clean(pilot: Pilot[None]) -> None:
    app_of(pilot).editor.text = "x\x1b]0;title\x07 = 1\r\ny"
    assert app_of(pilot).editor.text == "x = 1\ny"


async def test_quitting_waits_briefly_for_the_last_input_to_be_written(home: Path) -> None:
    app = EditorApp(home)
    other = sqlite3.connect(home / "history.db", check_same_thread=False)
    other.execute("begin immediate")
    async with app.run_test() as pilot:
        await write(pilot, "last = 1\n")
        threading.Timer(0.3, other.rollback).start()
    assert [entry.text for entry in History(home / "history.db", "a project").entries()] == [
        "last = 1"
    ]


# Search over the input history.

BLOCK = "def median(day):\n    return day.median()"
INPUTS = [
    ("import pandas as pd", "python"),
    (BLOCK, "python"),
    ("which days [/x] are far off?", "ask"),
    ("x\x1b]0;t\x07 = [1]", "python"),
]


@pytest.fixture
async def history_pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    remember(home, INPUTS)
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await open_search(pilot)
        yield pilot


async def open_search(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await app.push_screen(
        HistorySearch(app.history), lambda entry: app.actions.append(("chosen", entry))
    )
    await until(pilot, lambda: found(pilot) != [])


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
    await until(pilot, lambda: screen.typed == query and not screen._searching)
    await pilot.pause()


async def test_all_inputs_are_listed_newest_first(history_pilot: Pilot[None]) -> None:
    assert found(history_pilot) == [
        "❯ x = [1]",
        "◈ which days [/x] are far off?",
        "❯ def median(day):  +1 line",
        "❯ import pandas as pd",
    ]
    assert whole(history_pilot).text == "x = [1]"


async def test_typing_searches_and_shows_the_whole_entry(history_pilot: Pilot[None]) -> None:
    await search(history_pilot, "median")
    assert found(history_pilot) == ["❯ def median(day):  +1 line"]
    assert whole(history_pilot).text == BLOCK
    assert whole(history_pilot).python
    assert static_text(history_pilot, ".listing-count") == "1 found"


async def test_enter_ignores_results_of_an_earlier_query(history_pilot: Pilot[None]) -> None:
    query = history_pilot.app.screen.query_one(Input)
    query.value = "pandas"
    await query.action_submit()
    await until(history_pilot, lambda: bool(actions(history_pilot)))
    assert chosen(history_pilot) == ("python", "import pandas as pd")


async def test_arrows_choose(history_pilot: Pilot[None]) -> None:
    await history_pilot.press("down")
    assert whole(history_pilot).text == "which days [/x] are far off?"
    assert not whole(history_pilot).python
    await history_pilot.press("up", "up")
    assert whole(history_pilot).text == "import pandas as pd"
    await history_pilot.press("enter")
    assert chosen(history_pilot) == ("python", "import pandas as pd")


async def test_empty_result_is_reported_and_enter_does_nothing(history_pilot: Pilot[None]) -> None:
    await search(history_pilot, "zzz")
    assert static_text(history_pilot, ".listing-count") == "nothing found"
    await history_pilot.press("enter")
    assert isinstance(history_pilot.app.screen, HistorySearch)
    assert whole(history_pilot).text == ""


# A question that points at something: completion, and what would go with it.


class Found:
    """Mentions on offer: two files in a folder, and a variable."""

    def __init__(self) -> None:
        self.busy = False
        self.begun = threading.Event()
        """A lookup has begun."""
        self.free = threading.Event()
        self.free.set()

    def complete(self, question: str, cursor: int) -> Completions:
        if self.busy:
            raise KernelError("The kernel does not answer.")
        stem = question[:cursor].rpartition("@")[2].rpartition("/")[2]
        there = (
            Completion("notes.txt", "notes.txt", "file", ""),
            Completion("src/", "src/", "folder", ""),
        )
        return Completions(
            cursor - len(stem), tuple(item for item in there if item.text.startswith(stem)), 0
        )

    def chips(self, question: str) -> Sequence[MentionChip]:
        self.begun.set()
        assert self.free.wait(30)
        return [
            MentionChip(mention.label, "[b]3 B[/b]\x1b[2J", missing=mention.name == "gone.txt")
            for mention in find_mentions(question)
        ]


@pytest.fixture
def finder() -> Found:
    return Found()


@pytest.fixture
async def mention_pilot(home: Path, finder: Found) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home, complete_question=finder.complete, chips=finder.chips)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        yield pilot
        finder.free.set()


def completion_list(pilot: Pilot[None]) -> CompletionList:
    return pilot.app.query_one(CompletionList)


async def test_files_are_offered_while_typing_and_folders_continue(
    mention_pilot: Pilot[None],
) -> None:
    await write(mention_pilot, "`see @")
    await until(mention_pilot, lambda: completion_list(mention_pilot).is_open)
    await mention_pilot.press("s")
    shown = completion_list(mention_pilot)
    await until(mention_pilot, lambda: shown.is_open and shown.items[0].label == "src/")
    await mention_pilot.press("tab")
    assert app_of(mention_pilot).editor.text == "see @src/"
    await until(mention_pilot, lambda: shown.is_open and len(shown.items) == 2)
    await mention_pilot.press("down", "tab")
    await mention_pilot.press("escape")
    assert app_of(mention_pilot).editor.text == "see @src/src/"


async def test_ordinary_words_are_left_alone(mention_pilot: Pilot[None]) -> None:
    await write(mention_pilot, "`mail a@b or")
    await mention_pilot.pause()
    assert not completion_list(mention_pilot).is_open
    await mention_pilot.press("tab")
    assert not completion_list(mention_pilot).is_open
    await write(mention_pilot, " @")
    await until(mention_pilot, lambda: completion_list(mention_pilot).is_open)
    await mention_pilot.press("space")
    assert not completion_list(mention_pilot).is_open
    await mention_pilot.press("enter")
    assert actions(mention_pilot)[-1][0] == "submitted"


async def test_unresponsive_kernel_offers_nothing(
    mention_pilot: Pilot[None], finder: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Completions | None] = []
    answered = Completer.handle_response

    def noted(
        completing: Completer, request: CompletionRequest, answer: Completions | None
    ) -> None:
        answered(completing, request, answer)
        received.append(answer)

    monkeypatch.setattr(Completer, "handle_response", noted)
    await write(mention_pilot, "`see @n")
    await until(mention_pilot, lambda: completion_list(mention_pilot).is_open)
    finder.busy = True
    await mention_pilot.press("o")
    await until(mention_pilot, lambda: received[-1] is None)
    assert not completion_list(mention_pilot).is_open
    assert app_of(mention_pilot).editor.text == "see @no"


async def test_attachments_are_shown_with_their_size(mention_pilot: Pilot[None]) -> None:
    before = shown(mention_pilot, "#hint")
    await write(mention_pilot, "`see @notes.txt ")
    await until(mention_pilot, lambda: "@notes.txt" in shown(mention_pilot, "#hint"))
    assert shown(mention_pilot, "#hint") == " @notes.txt [b]3 B[/b] "
    await write(mention_pilot, "and $df !")
    await until(mention_pilot, lambda: "$df" in shown(mention_pilot, "#hint"))
    for _ in range(len(text_of(mention_pilot))):
        await mention_pilot.press("backspace")
    assert "Ask" in shown(mention_pilot, "#hint")
    await mention_pilot.press("backspace")
    assert shown(mention_pilot, "#hint") == before


async def test_reply_for_an_older_text_is_dropped(
    mention_pilot: Pilot[None], finder: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints: list[str] = []
    update = Static.update

    def updated(widget: Static, content: Content) -> None:
        if widget.id == "hint":
            hints.append(content.plain)
        update(widget, content)

    monkeypatch.setattr(Static, "update", updated)
    finder.free.clear()
    await write(mention_pilot, "`@notes.txt")
    await until(mention_pilot, finder.begun.is_set)
    await mention_pilot.press("escape", "enter")
    finder.free.set()
    await write(mention_pilot, "$df ")
    await until(mention_pilot, lambda: "$df" in shown(mention_pilot, "#hint"))
    assert actions(mention_pilot)[-1] == ("submitted", "ask", "@notes.txt")
    assert not any("@notes.txt" in each for each in hints)


async def test_long_question_is_scanned_off_the_main_thread(
    mention_pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    class Pattern:
        def finditer(self, text: str) -> Iterator[re.Match[str]]:
            threads.append(threading.current_thread())
            return iter(())

    monkeypatch.setattr(mentions_module, "_MENTION", Pattern())
    await write(mention_pilot, "`see @notes.txt")
    await until(mention_pilot, lambda: bool(threads))
    assert threading.main_thread() not in threads


async def test_mention_joins_the_question_being_written(mention_pilot: Pilot[None]) -> None:
    editor = app_of(mention_pilot).editor
    await write(mention_pilot, "x = 1")
    editor.mention("@cell:3")
    assert (editor.mode, editor.text) == ("ask", "@cell:3 ")
    await mention_pilot.press("ctrl+z")
    assert editor.text == "x = 1", "what stood there can be had back"
    editor.text = "what is "
    editor.mention("@cell:4")
    assert editor.text == "what is @cell:4 "
    await until(mention_pilot, lambda: "@cell:4" in shown(mention_pilot, "#hint"))


async def test_slash_at_the_start_of_a_question_completes_commands(
    mention_pilot: Pilot[None],
) -> None:
    app = app_of(mention_pilot)
    app.editor.toggle_mode()
    await write(mention_pilot, "/")
    shown = app.query_one(CompletionList)
    await until(mention_pilot, lambda: shown.is_open)
    assert [item.label for item in shown.items] == sorted(
        f"/{each.slash} {each.argument}".rstrip() for each in COMMANDS if each.slash
    )
    await write(mention_pilot, "mo")
    await until(mention_pilot, lambda: [item.label for item in shown.items] == ["/model NAME"])
    assert shown.items[0].doc
    await mention_pilot.press("tab")
    assert app.area.text == "/model "
    assert not shown.is_open
    await write(mention_pilot, "demo")
    await mention_pilot.press("enter")
    assert app.actions[-1] == ("submitted", "ask", "/model demo")
