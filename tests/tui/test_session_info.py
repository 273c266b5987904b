"""Screens about the session: usage, context, instructions, undo, servers."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Button, OptionList, Static

from mahtab_tui.bus.entries import Cell, Entry, Question
from mahtab_tui.bus.records import Usage
from mahtab_tui.bus.values import Change, NotRestored, Variable
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.restorations import OUTSIDE
from mahtab_tui.kernel.values import Restoration
from mahtab_tui.knowledge.instructions import find_instructions
from mahtab_tui.session import Session
from mahtab_tui.session.context_use import ContextUse, context_use
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.dialog import ActionMenu, Confirm
from mahtab_tui.tui.screens.instructions import InstructionsScreen
from mahtab_tui.tui.screens.output import PagerScreen
from mahtab_tui.tui.screens.reports import ContextScreen
from mahtab_tui.tui.screens.servers import ServersScreen
from mahtab_tui.tui.screens.undo import UndoScreen
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.servers import configure, plain
from tests.tui.editor_app import (
    ThemedApp,
    screen_text,
    static_text,
    until,
    wait_for_close,
    wait_for_screen,
)
from tests.tui.scripted_session import MakeApp, notices, sales_records, showing, wait_for_notice

LEFT = (NotRestored("numbers", "The generator has moved on."),)


def shown(app: App[Any], selector: str) -> str:
    return "\n".join(str(widget.content) for widget in app.screen.query(selector).results(Static))


async def test_usage_is_shown_in_a_line_each_and_escape_closes_it(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        token_count = 12_345_678
        tokens = {
            "input_tokens": token_count,
            "cache_read_tokens": token_count,
            "output_tokens": token_count,
        }
        for usage in (
            Usage(model="m", input_tokens=1_234, output_tokens=5, cost=0.25, turn=1),
            Usage(model="m", input_tokens=1, output_tokens=5, cost=0.25, tree="[bold]a"),
            Usage(model="m", cost=123.4567, turn=2).changed(**tokens),
            Usage(model="m", cost=None, turn=2),
        ):
            app.session.spending.count(usage)
        await app.run_action("command('usage')")
        await until(pilot, lambda: bool(app.screen.query("#usage-rows")))
        rows = app.screen.query_one("#usage-rows", Static)
        await until(pilot, lambda: "question 1" in str(rows.content))
        for words in ("1,234", "search [bold]a", "$0.2500", "$123.9567+"):
            assert words in str(rows.content)
        await until(pilot, lambda: rows.size.height == len(str(rows.content).splitlines()))
        box = app.screen.query_one(".dialog")
        assert box.border_title == "Usage"
        assert box.region.height == rows.size.height + len(["border", "", "keys", "border"])
        await pilot.press("escape")
        await wait_for_close(pilot)


@pytest.fixture
def app(make_app: MakeApp) -> MahtabApp:
    return make_app(*sales_records())


async def test_context_is_shown_and_a_failed_count_gives_one_sentence(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = context_use(10_000, {"program": 1_000, "outputs": 2_000})

    def fail() -> ContextUse:
        raise KernelError("The kernel [b]died[/b].\x1b[2J")

    id = "#context-rows"
    async with showing(app) as pilot:
        monkeypatch.setattr(app.session, "context_use", lambda: use)
        app.push_screen(ContextScreen(app.session))
        await until(pilot, lambda: "About 3,000 of 10,000 tokens (30%)" in shown(app, id))
        assert "/compact, or m on it" in shown(app, id)
        rows = app.screen.query_one(id, Static)
        await until(pilot, lambda: rows.size.height == len(shown(app, id).splitlines()))
        await pilot.press("escape")
        await wait_for_close(pilot)
        monkeypatch.setattr(app.session, "context_use", fail)
        app.push_screen(ContextScreen(app.session))
        await until(pilot, lambda: shown(app, id) == "The kernel [b]died[/b].")


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
async def test_project_file_is_shown_and_sent_only_after_trust(
    app: MahtabApp, home: Path, project: Path, size: tuple[int, int]
) -> None:
    (home / ".mahtab").mkdir(exist_ok=True)
    (home / ".mahtab" / "AGENTS.md").write_text("Be brief.")
    (project / "AGENTS.md").write_text("[b]Use[/b] polars.\x1b[2J See @more.md.")
    (project / "more.md").write_text("More.")
    async with showing(app, size) as pilot:
        await app.run_action("command('instructions')")
        await until(pilot, lambda: bool(shown(app, "#instructions-text")))
        text = "~/.mahtab/AGENTS.md · sent to the model\nBe brief.\n\nAGENTS.md · held back: not trusted\n[b]Use[/b] polars.␛[2J See @more.md.\n\nmore.md · held back: not trusted\nMore.\n"
        assert shown(app, "#instructions-text") == text
        for key, trusted in (("n", False), ("y", True)):
            await pilot.press("t")
            await wait_for_screen(pilot, Confirm)
            await pilot.press(key)
            await until(pilot, lambda: bool(shown(app, "#instructions-text")))
            assert (not find_instructions(project).untrusted) is trusted
        text = text.replace("held back: not trusted", "sent to the model")
        assert shown(app, "#instructions-text") == text
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(app.screen, InstructionsScreen), "asks though all is trusted"


def variable(name: str, type: str, summary: str) -> Variable:
    return Variable(name, type, summary, "data")


FRAMES = variable("df", "DataFrame", "100 × 4"), variable("df", "DataFrame", "98 × 5")
CHANGES = (
    Change("df", "changed", *FRAMES),
    Change("total", "added", variable("total", "int", "5"), None),
    Change("[red]x[/]\n", "deleted", None, variable("[red]x[/]\n", "str", "'\x1b]0;y\x07'")),
)


Undo = Callable[[], Restoration]
UndoableSession = Callable[[Undo, Undo], Session]


@pytest.fixture
def undoable(app: MahtabApp, monkeypatch: pytest.MonkeyPatch) -> UndoableSession:
    """Make a session whose undo is shown and done by the given functions."""

    def prepare(preview: Undo, undo: Undo) -> Session:
        monkeypatch.setattr(app.session.kernel, "preview_undo", lambda cell: preview())
        monkeypatch.setattr(app.session.undo, "undo", lambda cell: undo())
        return app.session

    return prepare


def can_undo(screen: Screen[Any]) -> bool:
    return any(not button.disabled for button in screen.query("#yes").results(Button))


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
async def test_screen_shows_the_changes_and_what_cannot_be_undone(
    undoable: UndoableSession, size: tuple[int, int]
) -> None:
    undone: list[Restoration] = []
    restoration = Restoration(CHANGES, LEFT, exact=False)

    def undo() -> Restoration:
        undone.append(restoration)
        return restoration

    app = ThemedApp()
    async with app.run_test(size=size) as pilot:
        app.push_screen(screen := UndoScreen((3, 4), undoable(lambda: restoration, undo)))
        await until(pilot, lambda: can_undo(screen))
        assert shown(app, "#question") == "Undo 2 cells, from cell 3 to cell 4?"
        rows = shown(app, "#undo-changes").split("\n")
        assert rows[:3] == ["~ df  DataFrame 98 × 5 → 100 × 4", "+ total  int 5", rows[2]]
        assert rows[2].startswith("− [red]x[/]")
        assert "\x1b" not in rows[2]
        assert "  numbers: The generator has moved on." in rows
        assert (
            rows[-1]
            == f"{OUTSIDE} Files are not watched here: file_undo is off, or has no effect here."
        )
        assert not undone
        await pilot.press("y")
        await until(pilot, lambda: app.screen is not screen)
    assert undone == [restoration]


@pytest.mark.parametrize("key", ["escape", "n", "enter"])
async def test_cancelling_does_nothing(undoable: UndoableSession, key: str) -> None:
    app = ThemedApp()
    nothing = Restoration((), (), exact=True)
    session = undoable(lambda: nothing, lambda: pytest.fail("undone"))
    screen = UndoScreen((3,), session)
    async with app.run_test() as pilot:
        app.push_screen(screen)
        await until(pilot, lambda: "No variable changes." in shown(app, "#undo-changes"))
        await pilot.press(key)
        await until(pilot, lambda: app.screen is not screen)


async def test_nothing_is_undone_before_the_preview_and_a_failure_is_reported(
    undoable: UndoableSession,
) -> None:
    may_show = threading.Event()
    undone = threading.Event()

    def preview() -> Restoration:
        may_show.wait(60)
        return Restoration(CHANGES, (), exact=True)

    def undo() -> Restoration:
        undone.set()
        raise KernelError("A cell is [b]running.")

    app = ThemedApp()
    async with app.run_test() as pilot:
        app.push_screen(screen := UndoScreen((3,), undoable(preview, undo)))
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("y")
        may_show.set()
        await until(pilot, lambda: can_undo(screen))
        assert not undone.is_set()
        await pilot.press("y")
        await until(pilot, lambda: shown(app, "#undo-changes") == "A cell is [b]running.")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is not screen)


async def test_screen_stays_responsive_while_the_kernel_is_asked_what_ran_last(
    app: MahtabApp, undoable: UndoableSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = threading.Event()
    answers: list[int] = []

    def last_step() -> int:
        may_answer.wait(60)
        answers.append(3)
        return 3

    nothing = Restoration((), (), exact=True)
    undoable(lambda: nothing, lambda: pytest.fail("undone"))
    monkeypatch.setattr(app.session.undo, "last_step", last_step)
    async with showing(app, (120, 35)) as pilot:
        app.session.cells.last = 4
        app.navigation.ask_to_undo(None)
        screen = await wait_for_screen(pilot, UndoScreen)
        await until(pilot, lambda: shown(app, "#question") == "Undo what ran last?")
        await pilot.press("y")
        assert not answers
        may_answer.set()
        await until(pilot, lambda: can_undo(screen))
        assert shown(app, "#question") == "Undo 2 cells, from cell 3 to cell 4?"
        await pilot.press("escape")
        await wait_for_close(pilot, UndoScreen)


async def test_without_a_cell_to_undo_the_question_closes_again(app: MahtabApp) -> None:
    async with showing(app, (120, 35)) as pilot:
        app.navigation.ask_to_undo(None)
        await wait_for_notice(pilot, "kernel")
        await wait_for_close(pilot, UndoScreen)


def first_entry(pane: TranscriptPane, kind: type[Entry]) -> Entry:
    return next(entry for entry in pane.viewport.transcript.entries if isinstance(entry, kind))


async def test_ctrl_z_on_an_entry_asks_about_its_cell(app: MahtabApp) -> None:
    async with showing(app, (120, 35)) as pilot:
        pane = app.query_one(TranscriptPane)
        pane.focus()
        pane.marker.entry = first_entry(pane, Cell)
        await pilot.press("ctrl+z")
        await wait_for_notice(pilot, "There is nothing to undo")
        app.session.cells.last = 9
        await pilot.press("ctrl+z")
        await until(pilot, lambda: "kernel" in shown(app, "#undo-changes"))
        assert not can_undo(app.screen)
        await pilot.press("escape")
        await wait_for_close(pilot, UndoScreen)


async def test_a_question_offers_to_undo_its_whole_answer(app: MahtabApp) -> None:
    async with showing(app, (120, 35)) as pilot:
        app.session.cells.last = 4
        pane = app.query_one(TranscriptPane)
        pane.focus()
        question = first_entry(pane, Question)
        for entry in (question, pane.viewport.transcript.entries[-1]):
            pane.marker.entry = entry
            await pilot.press("enter")
            screen = await wait_for_screen(pilot, ActionMenu)
            offered = [command.id for command in screen.commands]
            assert ("entry-undo" in offered) is (entry is question)
            await pilot.press("escape")
            await wait_for_close(pilot, ActionMenu)
        pane.marker.entry = question
        await pilot.press("ctrl+z")
        await wait_for_screen(pilot, UndoScreen)
        assert shown(app, "#question") == "Undo cell 4?"


async def test_wrong_undo_argument_in_ask_mode_is_explained(app: MahtabApp) -> None:
    async with showing(app) as pilot:
        await pilot.press("f2", *"/undo x", "enter")
        await until(pilot, lambda: app.editor.text == "/undo x")
        assert notices(pilot) == ["Name a cell by its number, as in /undo 12"]


@asynccontextmanager
async def listing_servers(
    app: MahtabApp, size: tuple[int, int] = (120, 30)
) -> AsyncIterator[tuple[Pilot[int], ServersScreen]]:
    async with showing(app, size) as pilot:
        await app.run_action("command('mcp')")
        await wait_for_screen(pilot, ServersScreen)
        await pilot.pause()
        assert isinstance(app.screen, ServersScreen)
        yield pilot, app.screen


async def test_missing_servers_explain_how_to_configure_some(app: MahtabApp) -> None:
    async with listing_servers(app) as (pilot, _):
        assert "No MCP server is configured." in static_text(pilot, ".listing-about")


async def test_a_server_that_lists_its_tools_only_once_is_no_internal_error(
    make_app: MakeApp, home: Path
) -> None:
    configure(home, echo=plain("listed once"))
    async with listing_servers(make_app()) as (pilot, _):
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "could not answer" in static_text(pilot, ".listing-said"))


@pytest.mark.parametrize("size", [(160, 40), (80, 24)])
async def test_servers_have_no_spare_row_and_their_keys_are_visible(
    make_app: MakeApp, home: Path, size: tuple[int, int]
) -> None:
    configure(home, echo=plain(), broken=plain("exit"))
    async with listing_servers(make_app(), size) as (pilot, screen):
        servers = screen.query_one(OptionList)
        await until(pilot, lambda: servers.size.height == len(screen.rows))
        keys = screen.query_one(".quiet")
        assert screen.query_one(".dialog").region.contains_region(keys.region)


@pytest.mark.parametrize("size", [(120, 30), (80, 24)])
async def test_a_server_is_started_and_its_tools_and_messages_are_shown(
    make_app: MakeApp, home: Path, size: tuple[int, int]
) -> None:
    configure(home, echo=plain(), broken=plain("exit"))
    app = make_app()
    async with listing_servers(app, size) as (pilot, screen):
        listed = [(row.variable, row.phase) for row in screen.rows]
        assert listed == [("echo", "not started"), ("broken", "not started")]
        assert "Its tools are known once it has started" in static_text(pilot, "#server-tools-text")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "echo runs." in static_text(pilot, ".listing-said"))
        tools = static_text(pilot, "#server-tools-text")
        assert "say(text: str) reads\n  Say a text." in tools
        assert "write(text: str) may change something" in tools
        assert "\x1b" not in str(screen.line(screen.rows[0], 100))
        await pilot.press("enter")
        await wait_for_screen(pilot, PagerScreen)
        title = "Messages of echo  ·  1 lines"
        await until(pilot, lambda: static_text(pilot, "#output-title") == title)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("down", "ctrl+r")
        problem = "broken could not be started."
        await until(pilot, lambda: problem in static_text(pilot, ".listing-said"))
        assert "it exited with code 1 (there is no key)." in static_text(pilot, ".listing-about")


async def test_servers_are_listed_with_their_state_and_command(
    make_app: MakeApp, home: Path
) -> None:
    args = ["stdio", "--toolsets", "issues,pull_requests"]
    github = {"command": "github-mcp-server", "args": args}
    configure(home, github=github, weather={"url": "https://weather.example/mcp"})
    async with listing_servers(make_app(), (80, 24)) as (pilot, _):
        text = screen_text(pilot)
    for line in (
        "○ github            not started",
        "○ weather           not started",
        "Its tools are known once it has started: it starts when a tool is",
        "github-mcp-server stdio --toolsets issues,pull_requests",
        "Enter messages · Ctrl+R restarts it · Tab reads · Esc leaves",
    ):
        assert line in text


async def test_server_waiting_for_a_login_shows_the_address(make_app: MakeApp, home: Path) -> None:
    configure(home, remote={"url": "http://127.0.0.1:9/mcp"})
    async with listing_servers(make_app()) as (pilot, screen):
        screen.rows[0].login = "http://127.0.0.1:4321/"
        words = "It waits for your login: open http://127.0.0.1:4321/ in a browser"
        await until(pilot, lambda: words in static_text(pilot, ".listing-about"))
