"""The screen of saved sessions."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.records import Record
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_index import SessionHits, find_sessions
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_lock import lock_session
from mahtab_tui.store.sqlite import SqliteStore, load_records
from mahtab_tui.tui.screens.dialog import Confirm, Prompt
from mahtab_tui.tui.screens.listing import SEARCH_DELAY_S
from mahtab_tui.tui.screens.sessions import PreviewTranscript, SessionsScreen
from tests.tui.editor_app import until, wait_for_screen, write
from tests.tui.screens_app import ScreensApp

NOON = 1_750_000_000.0
HERE = "/data/shop"


def save(session: str, question: str, at: float, project: str = HERE) -> None:
    code = "import pandas as pd\norders = pd.read_csv('orders.csv')"
    answer = "Most come in **May**.\n\n```python\nprint(best)\n```\n"
    you: dict[str, Any] = {"cell": 1, "party": "you"}
    model: dict[str, Any] = {"turn": 1, "step": 0, "party": "sonnet"}
    block: dict[str, Any] = {**model, "cell": 2, "block": 0}
    saved: list[Record] = [
        records.UserReplIn(code, **you),
        records.UserReplOut("", **you, status="ok", duration=0.25),
        records.UserChat(question, turn=1),
        records.AssistantChat(answer, **model),
        records.AssistantReplIn("print(best)", **block),
        records.AssistantReplOut("May    412\n", **block, status="ok", duration=0.5),
        records.Usage(model="claude-sonnet", cost=0.0123, turn=1),
    ]
    store = SqliteStore(database(), session, name="shop", project=project)
    for seconds, record in enumerate(saved):
        store.append(record.changed(time=at + seconds))
    store.close()


@pytest.fixture(autouse=True)
def saved(home: Path) -> None:
    save("1a1a1a1a", "Which month has most orders?\nIn short.", NOON)
    save("2b2b2b2b", "Plot [b]revenue[/b] by \x1b]0;x\x07region", NOON + 90_000)
    save("3c3c3c3c", "Why are rows lost?", NOON + 180_000)
    save("4d4d4d4d", "Elsewhere, which month?", NOON + 270_000, project="/data/other")


def shown(screen: SessionsScreen) -> list[str]:
    return [hit.session.id[0] for hit in screen.rows]


def text(screen: SessionsScreen, selector: str = ".listing-said") -> str:
    return "".join(str(widget.content) for widget in screen.query(selector).results(Static))


def read(screen: SessionsScreen) -> str:
    if not screen.query(PreviewTranscript):
        return ""
    entries = screen.query_one(PreviewTranscript).viewport.transcript.entries
    return "\n".join(entry.plain_text for entry in entries)


async def opened(
    pilot: Pilot[int], *, current: str = "3c3c3c3c", problem: str = ""
) -> tuple[SessionsScreen, list[str | None]]:
    screen = SessionsScreen(database(), current, HERE, switch_problem=problem)
    answers: list[str | None] = []
    pilot.app.push_screen(screen, answers.append)
    await until(pilot, lambda: bool(screen.query(OptionList)) and len(screen.rows) > 0)
    await until(pilot, lambda: "Most come in" in read(screen))
    return screen, answers


async def confirm(pilot: Pilot[int], key: str) -> None:
    await pilot.press("f8")
    await wait_for_screen(pilot, Confirm)
    await pilot.press(key)


async def rename(pilot: Pilot[int], title: str) -> None:
    await pilot.press("f2")
    await wait_for_screen(pilot, Prompt)
    await pilot.press("ctrl+u")
    await write(pilot, title)
    await pilot.press("enter")


def show(app: ScreensApp, project: str = HERE) -> SessionsScreen:
    screen = SessionsScreen(database(), "", project)
    app.push_screen(screen)
    return screen


@pytest.fixture
def app() -> ScreensApp:
    return ScreensApp()


@pytest.fixture
async def pilot(app: ScreensApp) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=(120, 35)) as pilot:
        yield pilot


def test_list_and_preview_are_shown_together_where_they_fit(
    snap_compare: Callable[..., bool],
) -> None:
    async def run(pilot: Pilot[int]) -> None:
        screen, _ = await opened(pilot)
        await write(pilot, "month")
        await until(pilot, lambda: shown(screen) == ["1"] and "Which month" in read(screen))
        await pilot.pause()

    assert snap_compare(ScreensApp(), terminal_size=(200, 50), run_before=run)


async def test_typing_searches_and_a_key_changes_the_scope(pilot: Pilot[int]) -> None:
    screen, answers = await opened(pilot)
    assert shown(screen) == ["3", "2", "1"]
    await until(pilot, lambda: text(screen, ".listing-count") == "3 in this folder")
    assert screen.line(screen.rows[0], 60).plain.startswith("● 2025-06-17 ")
    assert "Plot [b]revenue[/b] by region" in screen.line(screen.rows[1], 70).plain
    await write(pilot, "mont")
    await until(pilot, lambda: shown(screen) == ["1"])
    title = "Which month has most orders? In short."
    assert text(screen, ".listing-about").splitlines()[1] == title
    await pilot.press("ctrl+t")
    await until(pilot, lambda: shown(screen) == ["4", "1"])
    await until(pilot, lambda: text(screen, ".listing-count") == "2 found in all folders")
    await write(pilot, "zz")
    await until(pilot, lambda: shown(screen) == [])
    assert "Nothing was found" in text(screen, ".listing-about")
    await until(pilot, lambda: "Most come in" not in read(screen))
    await pilot.press("enter", "f2", "f5", "f8")
    assert pilot.app.screen is screen
    await pilot.press("escape")
    await until(pilot, lambda: answers == [None])


async def test_enter_resumes_the_typed_session_even_before_the_list_updates(
    pilot: Pilot[int],
) -> None:
    screen, answers = await opened(pilot)
    await pilot.press(*"revenue", "enter")
    await until(pilot, lambda: answers == ["2b2b2b2b"])
    assert pilot.app.screen is not screen


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", ["f2", "f8"])
async def test_key_waits_until_the_list_shows_the_typed_search(
    key: str, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    pressed = threading.Event()

    def find_later(*arguments: Any, **limits: Any) -> SessionHits:
        assert pressed.wait(30)
        return find_sessions(*arguments, **limits)

    monkeypatch.setattr("mahtab_tui.tui.screens.sessions.find_sessions", find_later)
    screen, _ = await opened(pilot)
    await write(pilot, "revenue")
    await pilot.press(key)
    assert (pilot.app.screen, len(shown(screen))) == (screen, 3)
    pressed.set()
    await until(pilot, lambda: isinstance(pilot.app.screen, Prompt | Confirm))
    assert shown(screen) == ["2"]


async def test_enter_without_results_resumes_nothing_later(pilot: Pilot[int]) -> None:
    screen, answers = await opened(pilot)
    await write(pilot, "elsewhere")
    await until(pilot, lambda: shown(screen) == [])
    await pilot.press("enter", "ctrl+t")
    await until(pilot, lambda: shown(screen) == ["4"])
    await pilot.pause()
    assert (answers, pilot.app.screen) == ([], screen)


async def test_current_or_open_sessions_and_unsaved_screens_cannot_resume(
    pilot: Pilot[int],
) -> None:
    lock = lock_session("2b2b2b2b")
    assert lock is not None
    screen, answers = await opened(pilot)
    await pilot.press("enter")
    await until(pilot, lambda: "You are in this session" in text(screen))
    await pilot.press("f8")
    await until(pilot, lambda: "leave it before you delete it" in text(screen))
    await pilot.press("down", "enter")
    await until(pilot, lambda: "It is open: process" in text(screen))
    assert "open: process" in text(screen, ".listing-about")
    await confirm(pilot, "y")
    await until(pilot, lambda: "The session 2b2b2b2b is open" in text(screen))
    await pilot.press("escape")
    await until(pilot, lambda: answers == [None])
    lock.release()
    screen, answers = await opened(pilot, current="", problem="This session is not saved:")
    await pilot.press("enter")
    await until(pilot, lambda: "mahtab-tui --resume 3c3c3c3c opens it" in text(screen))
    assert answers == []


async def test_a_session_is_renamed_and_deleted(pilot: Pilot[int]) -> None:
    screen, _ = await opened(pilot)
    await pilot.press("down")
    await rename(pilot, "Money")
    await until(pilot, lambda: "  Money  " in screen.line(screen.rows[1], 60).plain)
    assert screen.chosen == screen.rows[1]
    await confirm(pilot, "n")
    await until(pilot, lambda: pilot.app.screen is screen)
    await confirm(pilot, "y")
    await until(pilot, lambda: shown(screen) == ["3", "1"])
    assert [row.id[0] for row in list_sessions(database())] == ["4", "3", "1"]


async def test_secrets_are_masked_in_titles(
    monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    monkeypatch.setattr(ScreensApp, "mask", lambda self, text: text.replace("hunter2", "…"))
    screen, _ = await opened(pilot)
    await rename(pilot, "With hunter2")
    await until(pilot, lambda: "With …" in screen.line(screen.rows[0], 60).plain)
    assert "hunter2" not in list_sessions(database())[1].title


async def test_preview_stays_while_the_same_record_is_found(pilot: Pilot[int]) -> None:
    screen, _ = await opened(pilot, current="")
    old_transcript = screen.query_one(PreviewTranscript)
    await write(pilot, "los")
    await until(
        pilot,
        lambda: (
            shown(screen) == ["3"] and screen.query_one(PreviewTranscript) is not old_transcript
        ),
    )
    await until(pilot, lambda: "rows lost" in read(screen))
    rows = screen.rows
    reading = screen.query_one(PreviewTranscript)
    await write(pilot, "t")
    await until(pilot, lambda: screen.rows is not rows)
    await pilot.pause(3 * SEARCH_DELAY_S)
    assert screen.query_one(PreviewTranscript) is reading


async def test_copy_contains_everything_or_stops_before_the_marked_entry(pilot: Pilot[int]) -> None:
    screen, answers = await opened(pilot)
    await pilot.press("down", "f5")
    await until(pilot, lambda: len(answers) == 1)
    assert answers[0] is not None
    assert len(load_records(database(), answers[0]).records) == 7

    screen, answers = await opened(pilot, current="")
    old_transcript = screen.query_one(PreviewTranscript)
    await write(pilot, "lost")
    await until(
        pilot,
        lambda: (
            shown(screen) == ["3"] and screen.query_one(PreviewTranscript) is not old_transcript
        ),
    )
    await until(pilot, lambda: "rows lost" in read(screen))
    reading = screen.query_one(PreviewTranscript)
    reading.focus()
    first_cell = next(
        entry for entry in reading.viewport.transcript.entries if isinstance(entry, Cell)
    )
    reading.mark_and_show(first_cell)
    await pilot.press("down")
    await until(pilot, lambda: getattr(reading.marker.marked, "key", "") == "question 1")
    await pilot.press("f5")
    await until(pilot, lambda: len(answers) == 1)
    assert answers[0] is not None
    copied = [record for _, record in load_records(database(), answers[0]).records]
    assert [record.tag for record in copied] == ["user-repl-in", "user-repl-out", "branch"]
    assert copied[-1].text == "This session is a copy of 3c3c3c3c, before question 1."


async def test_f7_stops_only_a_detached_kernel(pilot: Pilot[int]) -> None:
    screen, _ = await opened(pilot)
    await pilot.press("f7")
    await until(pilot, lambda: text(screen) == "This session has no kernel in the background.")


async def test_missing_sessions_are_reported(app: ScreensApp, pilot: Pilot[int]) -> None:
    screen = show(app, "/nowhere")
    words = "There are no saved sessions in this folder"
    await until(pilot, lambda: words in text(screen, ".listing-about"))
    await pilot.press("ctrl+t")
    await until(pilot, lambda: len(screen.rows) == 4)


async def test_unreadable_file_gives_one_sentence(app: ScreensApp, pilot: Pilot[int]) -> None:
    database().write_bytes(b"this is no database, it only says so" * 1000)
    screen = show(app)
    await until(pilot, lambda: "was damaged" in text(screen))


async def test_unopenable_database_is_not_called_empty_or_retried_forever(
    monkeypatch: pytest.MonkeyPatch, app: ScreensApp, pilot: Pilot[int]
) -> None:
    tried: list[Path] = []

    def fail(path: Path, seconds: float) -> int:
        tried.append(path)
        raise StoreError("It cannot be used.")

    monkeypatch.setattr("mahtab_tui.tui.screens.sessions.catch_up", fail)
    screen = show(app)
    await until(pilot, lambda: text(screen) == "It cannot be used.")
    assert (text(screen, ".listing-count"), text(screen, ".listing-about")) == ("", "")
    assert "rows" not in screen.fetcher._timers
    assert len(tried) == 1
    await write(pilot, "month")
    await until(pilot, lambda: len(tried) > 1)
