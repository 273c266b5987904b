"""Search over the input history."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from mahtab_tui.store.history import HistoryEntry
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.screens.listing import HistorySearch
from tests.tui.editor_app import SIZE, EditorApp, remember, until, write

BLOCK = "def median(day):\n    return day.median()"
INPUTS = [
    ("import pandas as pd", "python"),
    (BLOCK, "python"),
    ("which days [/x] are far off?", "ask"),
    ("x\x1b]0;t\x07 = [1]", "python"),
]


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    remember(home, INPUTS)
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await open_search(pilot)
        yield pilot


async def open_search(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, EditorApp)
    await app.push_screen(
        HistorySearch(app.history), lambda entry: app.actions.append(("chosen", entry))
    )
    await until(pilot, lambda: found(pilot) != [])


def has_result(pilot: Pilot[None]) -> bool:
    """Whether the search has told what was chosen."""
    assert isinstance(pilot.app, EditorApp)
    return bool(pilot.app.actions)


def chosen(pilot: Pilot[None]) -> HistoryEntry | None:
    assert isinstance(pilot.app, EditorApp)
    (action,) = pilot.app.actions
    entry = action[1]
    assert entry is None or isinstance(entry, HistoryEntry)
    return entry


def found(pilot: Pilot[None]) -> list[str]:
    return [str(option.prompt) for option in pilot.app.screen.query_one(OptionList).options]


def whole(pilot: Pilot[None]) -> CodeArea:
    return pilot.app.screen.query_one("#whole", CodeArea)


async def search(pilot: Pilot[None], query: str) -> None:
    await write(pilot, query)
    screen = pilot.app.screen
    assert isinstance(screen, HistorySearch)
    await until(pilot, lambda: screen._found_for == query)
    await pilot.pause()


async def test_all_inputs_are_listed_newest_first(pilot: Pilot[None]) -> None:
    assert found(pilot) == [
        "❯ x = [1]",
        "◈ which days [/x] are far off?",
        "❯ def median(day):  +1 line",
        "❯ import pandas as pd",
    ]
    assert whole(pilot).text == "x = [1]"


async def test_typing_searches_and_shows_the_whole_entry(pilot: Pilot[None]) -> None:
    await search(pilot, "median")
    assert found(pilot) == ["❯ def median(day):  +1 line"]
    assert whole(pilot).text == BLOCK
    assert whole(pilot).python
    assert str(pilot.app.screen.query_one(".listing-count", Static).content) == "1 found"


async def test_letters_are_matched_in_order(pilot: Pilot[None]) -> None:
    await search(pilot, "ipd")
    assert "❯ import pandas as pd" in found(pilot)


async def test_enter_inserts_the_entry(pilot: Pilot[None]) -> None:
    await search(pilot, "median")
    await pilot.press("enter")
    entry = chosen(pilot)
    assert entry is not None
    assert (entry.text, entry.mode) == (BLOCK, "python")


async def test_enter_ignores_results_of_an_earlier_query(pilot: Pilot[None]) -> None:
    query = pilot.app.screen.query_one(Input)
    query.value = "pandas"
    await query.action_submit()
    await until(
        pilot, lambda: not isinstance(pilot.app.screen, HistorySearch) and has_result(pilot)
    )
    entry = chosen(pilot)
    assert entry is not None
    assert entry.text == "import pandas as pd"


async def test_arrows_choose(pilot: Pilot[None]) -> None:
    await pilot.press("down")
    assert whole(pilot).text == "which days [/x] are far off?"
    assert not whole(pilot).python
    await pilot.press("up", "up")
    assert whole(pilot).text == "import pandas as pd"
    await pilot.press("enter")
    entry = chosen(pilot)
    assert entry is not None
    assert entry.text == "import pandas as pd"


async def test_click_inserts_the_entry(pilot: Pilot[None]) -> None:
    await pilot.click(OptionList, offset=(3, 1))
    entry = chosen(pilot)
    assert entry is not None
    assert entry.mode == "ask"


async def test_escape_changes_nothing(pilot: Pilot[None]) -> None:
    await search(pilot, "median")
    await pilot.press("escape")
    assert chosen(pilot) is None
    assert isinstance(pilot.app, EditorApp)
    assert pilot.app.editor.is_empty


async def test_empty_result_is_reported_and_enter_does_nothing(pilot: Pilot[None]) -> None:
    await search(pilot, "zzz")
    assert str(pilot.app.screen.query_one(".listing-count", Static).content) == "nothing found"
    await pilot.press("enter")
    assert isinstance(pilot.app.screen, HistorySearch)
    assert whole(pilot).text == ""


async def test_search_unfinished_at_closing_changes_nothing(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = pilot.app.screen
    assert isinstance(screen, HistorySearch)
    begun, ended = threading.Event(), threading.Event()
    search = screen._history.search

    def search_slowly(query: str, limit: int = 100) -> list[HistoryEntry]:
        begun.set()
        ended.wait()
        return search(query, limit)

    monkeypatch.setattr(screen._history, "search", search_slowly)
    finding = asyncio.create_task(screen._find("median"))
    await until(pilot, begun.is_set)
    await pilot.press("escape")
    await until(pilot, lambda: not screen.is_running)
    ended.set()
    await finding
    assert chosen(pilot) is None


async def test_row_of_the_old_list_is_not_looked_up_in_the_new_one(pilot: Pilot[None]) -> None:
    options = pilot.app.screen.query_one(OptionList)
    late = OptionList.OptionHighlighted(options, options.get_option_at_index(3), 3)
    await write(pilot, "median")
    await until(pilot, lambda: len(found(pilot)) == 1)
    options.post_message(late)
    await pilot.pause()
    assert whole(pilot).text == BLOCK
