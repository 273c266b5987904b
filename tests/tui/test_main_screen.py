"""Actions of the main screen: leaving, rewinding, copying, plans, the greeting."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyperclip
import pytest
from textual.app import App
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Button, Static

from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.values import Mode
from mahtab_tui.kernel.values import Restoration
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.checking import check
from mahtab_tui.session.checking.check import Check
from mahtab_tui.session.rewind_points import RewindPoint
from mahtab_tui.session.rewinding import RewindPreview, RewindScope
from mahtab_tui.tui import external
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.editor.draft_file import DraftFile
from mahtab_tui.tui.find import FindRow, LineInput
from mahtab_tui.tui.messages import RunInput
from mahtab_tui.tui.open import ScreenFrontend
from mahtab_tui.tui.screens.check import CheckScreen
from mahtab_tui.tui.screens.dialog import Confirm
from mahtab_tui.tui.screens.rewind import RewindScreen
from mahtab_tui.tui.screens.rewind_preview import RewindPreviewScreen, Tick
from mahtab_tui.tui.transcript.pane import TranscriptPane
from mahtab_tui.tui.widgets.bars import HeaderBar
from mahtab_tui.tui.widgets.leave_row import LeaveRow
from tests import tags
from tests.records import made
from tests.tui.editor_app import (
    screen_text,
    static_text,
    until,
    wait_for_close,
    wait_for_screen,
)
from tests.tui.scripted_session import (
    QUEUED,
    MakeApp,
    change,
    drawn,
    press_up_to,
    sales_records,
    showing,
)
from tests.tui.transcript_app import GREETING, PaneApp, cell, record, shown
from tests.waiting import wait_for

QUESTION = "which days are outliers, and why?"
WAIT_S = 60.0
"""How long a thread waits at most until the test lets it go on."""

ANSWER = record(tags.ASSISTANT_CHAT, "Hello.", turn=1, step=0, party="claude", stopped=False)


def namespace(cell: int, *changes: dict[str, Any], fresh: bool = False) -> Record:
    attrs = {"cell": cell, "party": "you", "fresh": fresh, "changes": list(changes)}
    return made(tags.NAMESPACE, "", attrs, 1.0)


MADE = namespace(1, change("n", "int", "42"))
MODULE = namespace(1, {**change("os", "module", ""), "kind": "module"})
FROM_START = namespace(0, change("helper", "int", "1"), fresh=True)


def question(pilot: Pilot[int]) -> str:
    assert isinstance(pilot.app, MahtabApp)
    row = pilot.app.command_context.quit_flow.row
    return "" if row is None else str(row.content)


async def left(pilot: Pilot[int]) -> bool:
    await pilot.pause()
    return pilot.app._exit


@pytest.mark.parametrize(
    "records", [(), (MODULE,), (FROM_START,)], ids=["nothing", "a module", "a name of the start"]
)
@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
async def test_quits_at_once_with_nothing_to_lose(
    make_app: MakeApp, records: tuple[Record, ...], key: str
) -> None:
    app = make_app(*records)
    async with showing(app) as pilot:
        await pilot.press(key)
        assert await left(pilot)


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
@pytest.mark.parametrize(
    ("records", "lost"),
    [
        ((MADE,), "1 name of the namespace"),
        ((QUEUED,), "1 queued input"),
        ((QUEUED, MADE), "1 name of the namespace, 1 queued input"),
    ],
)
async def test_possible_losses_are_named_and_the_same_key_quits(
    make_app: MakeApp,
    monkeypatch: pytest.MonkeyPatch,
    records: tuple[Record, ...],
    lost: str,
    key: str,
) -> None:
    monkeypatch.setattr("mahtab_tui.tui.key_repeat.REPEAT_INTERVAL_S", 0)
    monkeypatch.setattr("mahtab_tui.tui.key_repeat.FIRST_REPEAT_S", 0)
    app = make_app(*records)
    async with showing(app) as pilot:
        await pilot.press(key)
        assert not await left(pilot)
        assert lost in question(pilot)
        await pilot.press(key)
        assert await left(pilot)


@pytest.mark.sample(1)
@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
@pytest.mark.parametrize("limit", ["REPEAT_INTERVAL_S", "FIRST_REPEAT_S"])
async def test_held_key_asks_and_does_not_quit(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, key: str, limit: str
) -> None:
    monkeypatch.setattr("mahtab_tui.tui.key_repeat.REPEAT_INTERVAL_S", 0)
    monkeypatch.setattr("mahtab_tui.tui.key_repeat.FIRST_REPEAT_S", 0)
    monkeypatch.setattr(f"mahtab_tui.tui.key_repeat.{limit}", 60)
    async with showing(make_app(MADE)) as pilot:
        await pilot.press(key, key, key, key)
        assert not await left(pilot)
        assert question(pilot)


async def test_draft_and_running_work_count_as_something_to_lose(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    monkeypatch.setattr(Cells, "running", property(lambda cells: True))
    monkeypatch.setattr(SessionAgent, "in_turn", property(lambda agent: True))
    async with showing(app) as pilot:
        await pilot.press(*"abc", "ctrl+q")
        assert "the running cell, the unfinished answer, the text in the editor" in question(pilot)


@pytest.mark.sample(1)
@pytest.mark.parametrize("between", ["escape", "x", "f3", "space"])
async def test_any_other_key_stays_and_the_next_quit_asks_again(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    app = make_app(MADE)
    stopped: list[str] = []
    monkeypatch.setattr(app.session, "stop", lambda: stopped.append("stop"))
    async with showing(app) as pilot:
        await pilot.press("ctrl+q", between, "ctrl+q")
        assert not await left(pilot)
        assert question(pilot)
        assert stopped == []
        assert app.editor.text == {"x": "x", "space": " "}.get(between, "")
        await until(pilot, lambda: len(app.screen.query(LeaveRow)) == 1)


@pytest.mark.parametrize("key", ["escape", "x", ""], ids=["escape", "x", "no key"])
async def test_exit_in_a_cell_asks_again_after_an_earlier_question(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    app = make_app(MADE)
    monkeypatch.setattr(SessionAgent, "in_turn", property(lambda agent: True))
    async with showing(app) as pilot:
        await pilot.press("ctrl+q", *([key] if key else ()))
        await until(pilot, lambda: bool(question(pilot)) == (not key))
        monkeypatch.setattr("mahtab_tui.tui.key_repeat.REPEAT_INTERVAL_S", 0)
        monkeypatch.setattr("mahtab_tui.tui.key_repeat.FIRST_REPEAT_S", 0)
        ScreenFrontend(app).leave()
        assert not await left(pilot)
        assert question(pilot)


async def test_a_program_that_waits_for_a_closing_screen_is_refused(make_app: MakeApp) -> None:
    app = make_app()
    async with showing(app):
        frontend = ScreenFrontend(app)
        with ThreadPoolExecutor(1) as pool:
            exit_code = pool.submit(frontend.run_in_terminal, ["true"], ".")
            # Meanwhile the screen handles no messages, as if it had handled its last one.
            wait_for(lambda: bool(frontend._exit_codes))
            frontend.close()
            with pytest.raises(RuntimeError, match="the screen is not open"):
                exit_code.result(WAIT_S)
            with pytest.raises(RuntimeError, match="the screen is not open"):
                frontend.run_in_terminal(["true"], ".")


async def test_whatever_fails_while_a_program_has_the_terminal_reaches_its_caller(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()

    def fail(argv: Sequence[str], cwd: str) -> int:
        raise LookupError("a fault")

    monkeypatch.setattr(app, "run_suspended", fail)
    async with showing(app):
        run = asyncio.to_thread(ScreenFrontend(app).run_in_terminal, ["true"], ".")
        with pytest.raises(LookupError, match="a fault"):
            await asyncio.wait_for(run, WAIT_S)


async def test_stopping_the_cell_to_leave_forgets_the_draft(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    monkeypatch.setattr(type(app.session), "saved_id", "sales-march")
    monkeypatch.setattr(Cells, "running", property(lambda cells: True))
    monkeypatch.setattr(type(app.session.kernel), "can_detach", True)
    async with showing(app) as pilot:
        await pilot.press(*"abc")
        draft_file = DraftFile(app.session)
        await until(pilot, lambda: draft_file.read() is not None)
        await pilot.press("ctrl+q")
        assert "^s stops it" in question(pilot)
        await pilot.press("ctrl+s")
        assert await left(pilot)
        assert not app.leaves_kernel
        assert draft_file.read() is None


async def test_quit_over_another_screen_asks_there(make_app: MakeApp) -> None:
    app = make_app(MADE)
    async with showing(app) as pilot:
        await pilot.press("f1", "ctrl+q")
        await pilot.pause()
        row = app.screen.query_one(LeaveRow)
        assert app.screen.get_widget_at(5, 23)[0] is row
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query(LeaveRow))
        assert len(app.screen_stack) == 2


async def test_detachable_namespace_does_not_count_as_lost(make_app: MakeApp) -> None:
    app = make_app(MADE)
    app.keeps_namespace = True
    async with showing(app) as pilot:
        await pilot.press("ctrl+q")
        assert await left(pilot)


@pytest.fixture
async def pilot(make_app: MakeApp) -> AsyncIterator[Pilot[int]]:
    """A screen on which the question of the story is marked."""
    async with showing(make_app(*sales_records()), (120, 46)) as pilot:
        await press_up_to(pilot, "question 1")
        yield pilot


@pytest.fixture
def app(pilot: Pilot[int]) -> MahtabApp:
    assert isinstance(pilot.app, MahtabApp)
    return pilot.app


@pytest.fixture
def entered(app: MahtabApp, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Mode, str]]:
    inputs: list[tuple[Mode, str]] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text, **_: inputs.append((mode, text)))
    return inputs


def hint(app: MahtabApp) -> str:
    return str(app.editor.query_one("#hint", Static).content)


async def open_rewind(pilot: Pilot[int]) -> RewindPreviewScreen:
    """Press R on the marked entry, and wait until it is known what would go back."""
    await pilot.press("enter", "R", "enter")
    screen = await wait_for_screen(pilot, RewindPreviewScreen)
    await until(pilot, lambda: not screen.query_one("#rewind", Button).disabled)
    return screen


def removals(app: MahtabApp) -> list[str]:
    """Return the entries with which each rewind began."""
    lines = shown(app.query_one(TranscriptPane))
    return [line for line in lines if line.endswith("rewound")]


async def test_no_letter_and_no_first_enter_rewinds(app: MahtabApp, pilot: Pilot[int]) -> None:
    app.editor.text = "a draft"
    await open_rewind(pilot)
    await pilot.press(*"yrRn ", "u", "backspace", "delete")
    assert isinstance(pilot.app.screen, RewindPreviewScreen)
    await pilot.press("enter")
    await drawn(pilot)
    assert not isinstance(pilot.app.screen, RewindPreviewScreen)
    await press_up_to(pilot, "question 1")
    await open_rewind(pilot)
    await pilot.press("escape")
    await drawn(pilot)
    assert not removals(app)
    assert (app.editor.mode, app.editor.text) == ("python", "a draft")


async def test_rewind_puts_the_question_into_the_editor_and_keeps_the_draft(
    app: MahtabApp, pilot: Pilot[int], entered: list[tuple[Mode, str]]
) -> None:
    app.editor.text = "a draft"
    await open_rewind(pilot)
    await pilot.press("tab", "enter")
    await until(pilot, lambda: app.editor.text == QUESTION)
    await drawn(pilot)
    assert app.editor.mode == "ask"
    assert "which days" in removals(app)[0]
    assert not any("read_csv" in line for line in removals(app))
    await pilot.press("end", "!", "enter")
    await drawn(pilot)
    assert entered == [("ask", f"{QUESTION}!")]
    assert (app.editor.mode, app.editor.text) == ("python", "a draft")


async def test_redo_typed_behind_the_input_that_came_back_is_the_command(
    app: MahtabApp, pilot: Pilot[int], entered: list[tuple[Mode, str]]
) -> None:
    await open_rewind(pilot)
    await pilot.press("tab", "enter")
    await until(pilot, lambda: app.editor.text == QUESTION)
    await until(pilot, lambda: bool(removals(app)))
    await pilot.press("end", *"/redo", "enter")
    await until(pilot, lambda: not removals(app))
    assert entered == []


async def test_redo_at_the_end_of_the_same_input_is_no_command_once_something_was_entered(
    app: MahtabApp, pilot: Pilot[int], entered: list[tuple[Mode, str]]
) -> None:
    await open_rewind(pilot)
    await pilot.press("tab", "enter")
    await until(pilot, lambda: app.editor.text == QUESTION)
    await pilot.press("enter")
    await drawn(pilot)
    app.editor.put("ask", f"{QUESTION}/redo")
    await pilot.press("enter")
    await drawn(pilot)
    assert entered == [("ask", QUESTION), ("ask", f"{QUESTION}/redo")]


async def test_the_buttons_of_a_rewind_are_seen_on_a_small_screen(pilot: Pilot[int]) -> None:
    screen = await open_rewind(pilot)
    await pilot.resize_terminal(80, 16)
    await drawn(pilot)
    for button in screen.query(Button):
        assert screen.get_widget_at(*button.region.offset)[0] is button


async def test_what_is_not_ticked_stays(app: MahtabApp, pilot: Pilot[int]) -> None:
    screen = await open_rewind(pilot)
    conversation = screen.query(Tick).first()
    assert str(conversation.content).startswith("[x] conversation")
    conversation.focus()
    await pilot.press("space")
    assert str(conversation.content).startswith("[ ] conversation")
    # There is no kernel, so that nothing else can go back.
    details = screen.query_one("#rewind-changes", Static)
    await until(pilot, lambda: "Nothing would go back" in str(details.content))
    assert screen.query_one("#rewind", Button).disabled


async def test_a_rewind_that_has_begun_cannot_be_left(
    app: MahtabApp, pilot: Pilot[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rewinding = app.session.rewinding
    rewind = rewinding.rewind
    may_end = threading.Event()

    def rewind_late(preview: RewindPreview) -> Restoration:
        may_end.wait(WAIT_S)
        return rewind(preview)

    monkeypatch.setattr(rewinding, "rewind", rewind_late)
    screen = await open_rewind(pilot)
    await pilot.press("tab", "enter")
    await pilot.press("escape", "enter")
    await pilot.click(Tick)
    await pilot.pause()
    assert pilot.app.screen is screen
    assert str(screen.query(Tick).first().content).startswith("[x] conversation")
    may_end.set()
    await until(pilot, lambda: app.editor.text == QUESTION)


async def test_quick_ticks_are_compared_one_after_another(
    app: MahtabApp, pilot: Pilot[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rewinding = app.session.rewinding
    preview = rewinding.preview
    may_end = threading.Event()
    running: list[RewindScope] = []

    def preview_late(point: RewindPoint, scope: RewindScope) -> RewindPreview:
        running.append(scope)
        may_end.wait(WAIT_S)
        return preview(point, scope)

    screen = await open_rewind(pilot)
    monkeypatch.setattr(rewinding, "preview", preview_late)
    screen.query(Tick).first().focus()
    await pilot.press("space", "space")
    await until(pilot, lambda: bool(running))
    assert len(running) == 1
    may_end.set()
    await until(pilot, lambda: not screen.query_one("#rewind", Button).disabled)
    assert [scope.conversation for scope in running] == [False, True]


async def test_rewind_lists_the_points_behind_ctrl_o_u(app: MahtabApp, pilot: Pilot[int]) -> None:
    await pilot.press("ctrl+o", "u")
    screen = await wait_for_screen(pilot, RewindScreen)
    await until(pilot, lambda: bool(screen.rows))
    assert QUESTION in [point.text for point in screen.rows]
    await pilot.press(*"which", "space", *"days")
    await until(pilot, lambda: [point.text for point in screen.rows] == [QUESTION])
    await pilot.press("enter")
    await wait_for_screen(pilot, RewindPreviewScreen)
    await pilot.press("escape")
    await wait_for_screen(pilot, RewindScreen)
    await pilot.press("escape")
    await drawn(pilot)
    assert not removals(app)


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("", "so your files stay as they are."),
        ("needs Linux", "can change your files by absolute paths (preventing that needs Linux)."),
    ],
)
async def test_screens_of_a_check_say_whether_files_are_safe(
    app: MahtabApp, pilot: Pilot[int], monkeypatch: pytest.MonkeyPatch, missing: str, sentence: str
) -> None:
    new_check = app.session.new_check
    may_begin = threading.Event()

    def begin_late() -> Check:
        may_begin.wait(WAIT_S)
        return new_check()

    monkeypatch.setattr(check, "unavailable_reason", lambda: missing)
    monkeypatch.setattr(app.session, "new_check", begin_late)
    app.editor.text = "/check"
    app.editor.focus()
    await pilot.press("enter")
    await wait_for_screen(pilot, Confirm)
    assert sentence in static_text(pilot, "#question")
    await pilot.press("y")
    await wait_for_screen(pilot, CheckScreen)
    await until(pilot, lambda: "The cells run again in a copy" in screen_text(pilot))
    assert ("Your files stay as they are." in screen_text(pilot)) == (not missing)
    may_begin.set()
    await until(pilot, lambda: "This session is not saved" in screen_text(pilot))
    await pilot.press("escape")
    await wait_for_close(pilot, CheckScreen)


@pytest.mark.usefixtures("entered")
async def test_text_typed_after_submitting_continues_the_draft(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    app.editor.text = "a = 1"
    app.editor.put("ask", QUESTION)
    app.editor.focus()
    await pilot.pause()
    for key in ("enter", "2", "3"):
        app.post_message(Key(key, key if len(key) == 1 else None))
    await until(pilot, lambda: len(app.editor.text) == len("a = 123"))
    await pilot.pause()
    assert (app.editor.mode, app.editor.text) == ("python", "a = 123")


async def test_nothing_is_rewound_while_the_model_answers(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    screen = await open_rewind(pilot)
    details = screen.query_one("#rewind-changes", Static)
    with app.session.agent.turn():
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "Something is running" in str(details.content))
    assert not removals(app)


async def test_cell_with_a_forgotten_secret_is_not_rerun_without_it(
    app: MahtabApp, pilot: Pilot[int], entered: list[tuple[Mode, str]]
) -> None:
    pane = app.panes.transcript
    code = f"x = '{MASK}'"
    pane.post_message(RunInput("python", code))
    await until(pilot, lambda: app.editor.text == code)
    await until(
        pilot, lambda: any("secret" in notification.message for notification in app._notifications)
    )
    pane.post_message(RunInput("python", "x = 1"))
    await until(pilot, lambda: entered == [("python", "x = 1")])


async def test_text_is_copied_to_terminal_and_system_with_a_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = list[str]()
    copied = list[str]()
    monkeypatch.setattr(pyperclip, "copy", copied.append)
    async with App[None]().run_test() as pilot:
        app = pilot.app
        monkeypatch.setattr(app._driver, "write", written.append)
        external.copy(app, "straw \ud800 [bold]")
        notice = "Copied 14 characters."
        await until(
            pilot,
            lambda: any(notice in notification.message for notification in app._notifications),
        )
        sequence = f"\x1b]52;c;{base64.b64encode(b'straw ? [bold]').decode()}\x07"
        await until(pilot, lambda: written.count(sequence) == 1 and copied == ["straw ? [bold]"])


def greeted(app: PaneApp) -> list[int]:
    sentences = [sentence for _, sentence in GREETING]
    return [
        y for y, row in enumerate(shown(app.pane)) if any(sentence in row for sentence in sentences)
    ]


@pytest.mark.parametrize(
    ("first_records", "stays"),
    [
        (cell(2), False),
        ([record(tags.USER_CHAT, "which days?", turn=1)], False),
        ([ANSWER], False),
        ([record(tags.NOTICE, "A notice.", level="info")], True),
    ],
    ids=["cell", "question", "answer", "notice"],
)
async def test_greeting_stays_above_files_and_notices_until_the_first_input(
    first_records: list[Record], stays: bool
) -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 30)) as pilot:
        app.pane.viewport.loading_cells = 1
        assert greeted(app) == [2, 3, 4]
        app.pane.fold([record(tags.NOTICE, "Private servers wait.", level="info"), *cell(1)])
        await pilot.pause()
        assert greeted(app) == [2, 3, 4]
        assert "Private servers wait." in shown(app.pane)[6]
        app.pane.fold(first_records)
        await pilot.pause()
        assert bool(greeted(app)) is stays
        app.pane.clear()
        await pilot.pause()
        assert greeted(app) == [2, 3, 4]


async def test_search_can_be_the_first_thing_that_is_asked_for(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        app.panes.find_in_transcript()
        await until(pilot, lambda: isinstance(app.focused, LineInput))
        await pilot.press("a", "b")
        assert app.query_one(FindRow).query_one(LineInput).value == "ab"


async def test_key_toggles_planning_and_the_header_shows_it(make_app: MakeApp) -> None:
    app = make_app()
    async with showing(app) as pilot:
        header = app.query_one(HeaderBar)
        await pilot.press("alt+l")
        await until(pilot, lambda: "plans only" in str(header.render()))
        assert app.session.info.planning
        await pilot.press("alt+l")
        await until(pilot, lambda: "ask first" in str(header.render()))
        assert not app.session.info.planning


async def test_executed_plan_ends_planning_and_is_one_question(make_app: MakeApp) -> None:
    app = make_app()
    async with showing(app) as pilot:
        await pilot.press("alt+l")
        app.editor.text = "/plan run"
        app.editor.mode = "ask"
        app.editor.focus()
        await pilot.press("enter")
        await until(pilot, lambda: not app.session.inbox.idle)
        question = app.session.inbox.next_item("ask")
        assert question is not None
        assert question.text.startswith("Carry out your plan now.")
        assert not app.session.info.planning
