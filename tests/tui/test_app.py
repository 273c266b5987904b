"""The whole application: pictures of its states, and what its keys do."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mahtab_tui.bus import records
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.session import Session
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.open import MIN_COLUMNS, MIN_LINES
from mahtab_tui.tui.screens.settings import SettingsScreen
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import screen_text, until, wait_for_screen
from tests.tui.scripted_session import (
    IDLE,
    WAITING,
    MakeApp,
    drawn,
    log,
    sales_records,
    showing,
    wait_for_notice,
)

RunBefore = Callable[[Pilot[int]], Awaitable[None]]


def pressing(*keys: str) -> RunBefore:
    async def run(pilot: Pilot[int]) -> None:
        await drawn(pilot)
        await pilot.press(*keys)
        await drawn(pilot)

    return run


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "size", [(80, 24), (120, 40), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}"
)
def test_python_mode(
    snap_compare: Callable[..., bool], make_app: MakeApp, size: tuple[int, int]
) -> None:
    assert snap_compare(
        make_app(*sales_records()), terminal_size=size, run_before=pressing(*"total = 1")
    )


@pytest.mark.parametrize("size", [(80, 24), (160, 46)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_ask_mode_while_code_waits(
    snap_compare: Callable[..., bool], make_app: MakeApp, size: tuple[int, int]
) -> None:
    app = make_app(*sales_records())

    async def run(pilot: Pilot[int]) -> None:
        # The question comes while the person is typing, so it does not take the focus.
        await pressing("f2", *"and plot the week around it")(pilot)
        # It comes in a minute, so that it has waited for 0 seconds.
        await log(pilot, WAITING, when=time.time() + 60)

    assert snap_compare(app, terminal_size=size, run_before=run)


def test_the_light_theme(snap_compare: Callable[..., bool], make_app: MakeApp) -> None:
    assert snap_compare(
        make_app(*sales_records(), theme="mahtab-day"),
        terminal_size=(120, 40),
        run_before=pressing(),
    )


async def test_panes_of_an_empty_session_explain_what_will_appear_there(make_app: MakeApp) -> None:
    session_record = records.SessionRecord(name="sales", model="demo", approval="ask", time=1.0)
    idle = made(tags.KERNEL, "", IDLE, 1.0)
    async with make_app(session_record, idle).run_test(size=(120, 40)) as pilot:
        await pressing()(pilot)
        text = screen_text(pilot)
    assert text.startswith(" ◐ mahtab  sales  demo  ask first  ")
    assert "● kernel 3.12 .venv  idle" in text
    for line in (
        "One Python namespace, shared by you and a language model.",
        "│ Variables appear here as they are\n",
        '│ rlm("question", text) searches a long\n',
        "Python · Enter runs · ` asks the model",
        " f2 Python / Ask  esc Stop  f8 Approval",
    ):
        assert line in text


async def test_unknown_command_is_reported_in_ask_mode_and_code_in_python_mode(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text, **_: sent.append((mode, text)))
    await pilot.press(*"/sett", "tab", "enter")
    await wait_for_screen(pilot, SettingsScreen)
    await pilot.press("escape", *"/nonsense", "enter", *"/ 2", "enter")
    await until(pilot, lambda: len(sent) == 2)
    assert sent == [("python", "/nonsense"), ("python", "/ 2")]
    await pilot.press("f2", *"/nonsense", "enter")
    await wait_for_notice(pilot, "/nonsense")
    assert len(sent) == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("keys", [("ctrl+o", "e", "x", "enter"), ("enter", "r", "enter")])
async def test_new_input_scrolls_the_transcript_to_its_end(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    app = make_app(*sales_records())
    sent: list[str] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text, **_: sent.append(text))
    async with showing(app) as pilot:
        pane = app.query_one(TranscriptPane)
        pane.focus()
        await pilot.press("home", "up")
        assert pane.scroll_y < pane.max_scroll_y
        await pilot.press(*keys)
        await pilot.pause()
        assert sent
        assert pane.scroll_y == pane.max_scroll_y


@pytest.mark.parametrize(("height", "rows"), [(12, 1), (24, 3), (40, 3)])
async def test_empty_input_has_three_rows_or_one_in_a_low_terminal(
    make_app: MakeApp, height: int, rows: int
) -> None:
    app = make_app()
    async with app.run_test(size=(80, height)) as pilot:
        await pilot.pause()
        code = app.query_one("#code")
        assert code.region.height == rows
        await until(pilot, lambda: app.query_one("#transcript").region.height >= height / 2)
        app.editor.text = "\n".join("abcde")
        await until(pilot, lambda: code.region.height in (4, 5))


async def test_input_is_visible_in_the_smallest_terminal(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(MIN_COLUMNS, MIN_LINES)) as pilot:
        await pilot.press("4", "2")
        code = app.query_one("#code")
        await until(
            pilot,
            lambda: bool(code.region) and app.screen.get_widget_at(*code.region.offset)[0] is code,
        )


async def test_unknown_command_or_theme_in_the_configuration_is_reported(
    make_app: MakeApp, home: Path
) -> None:
    path = home / ".mahtab" / "config.toml"
    path.parent.mkdir()
    path.write_text('[keymap]\nhlp = "f11"\njump = "f4"\n')
    app = make_app(theme="nrod")
    app.settings.keymap = app.session.settings.keymap
    messages: list[str] = []
    app.session.notice = lambda text, level="info": messages.append(text)  # type: ignore[method-assign]
    async with showing(app):
        assert app.theme == "mahtab"
    assert messages == [
        f"{path}: keymap: there is no command 'hlp'. Did you mean help?",
        "command line: theme: there is no theme 'nrod'. Did you mean nord?",
    ]


def test_a_crash_shows_no_values(app: MahtabApp, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "-".join(["sk", "1234"])
    try:
        raise RuntimeError(len(secret))
    except RuntimeError as error:
        app._handle_exception(error)
    assert app.crash is not None
    assert app.crash.file is not None
    assert "RuntimeError: 7" in app.crash.file.read_text()
    crash_text = app.crash.file.read_text() + app.crash.report() + "".join(capsys.readouterr())
    assert "sk-1234" not in crash_text


async def test_key_on_an_error_drafts_a_question_and_sends_nothing(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    attrs = {"cell": 7, "party": "you"}
    failed = made(
        tags.USER_REPL_OUT,
        "Traceback\nE: x\n",
        {**attrs, "status": "error", "duration": 0.1, "kinds": [["traceback", 15]]},
        1.0,
    )
    app = make_app(made(tags.USER_REPL_IN, "1 / 0", attrs, 1.0))
    async with showing(app) as pilot:
        await pilot.press("alt+x")
        assert (app.editor.mode, app.editor.text) == ("python", "")
        await log(pilot, failed)
        transcript = app.query_one(TranscriptPane)
        rows = [transcript.render_line(y).text for y in range(transcript.size.height)]
        assert "Alt+X asks the model about this error" in "".join(rows)
        app.editor.text = "draft = 1"
        await pilot.press("alt+x", "alt+x")
        question = "Explain the error of cell 7, and how to fix it."
        assert (app.editor.mode, app.editor.text) == ("ask", question)
        assert not app.session.agent.in_turn
        sent: list[str] = []
        monkeypatch.setattr(app.session, "submit", lambda mode, text, **_: sent.append(text))
        await pilot.press("enter")
        assert (sent, app.editor.mode, app.editor.text) == ([question], "python", "draft = 1")


async def test_ctrl_c_clears_the_editor_and_undo_restores_it(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    await pilot.press(*"abc", "ctrl+c")
    assert app.editor.text == ""
    await pilot.press("ctrl+z")
    assert app.editor.text == "abc"


async def test_enter_in_the_empty_editor_runs_the_cells_that_an_error_stopped(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    released: list[str] = []
    monkeypatch.setattr(app.session.inbox, "release", lambda: released.append("released"))
    await pilot.press("space", "enter")
    await until(pilot, lambda: bool(released))


@pytest.mark.parametrize("word", ["exit", "quit()"])
async def test_exit_leaves_and_asks_first_while_a_cell_runs(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int], word: str
) -> None:
    sent: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(app.session, "submit", lambda mode, text, **_: sent.append(text))
        patch.setattr(type(app.session.cells), "running", True)
        await pilot.press(*word, "enter")
        await until(pilot, lambda: app.command_context.quit_flow.row is not None)
    await pilot.press("escape", *word, "enter")
    await until(pilot, lambda: app.return_value == 0)
    assert sent == []


async def test_shell_commands_and_exit_mean_the_same_in_ask_mode(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text, **_: sent.append((mode, text)))
    await pilot.press("f2", "!", *"ls")
    await until(pilot, lambda: app.editor.offer.startswith("Enter runs the shell command"))
    await pilot.press("enter")
    await until(pilot, lambda: sent == [("python", "!ls")])
    assert app.editor.mode == "ask"
    await pilot.press(*"exit", "enter")
    await until(pilot, lambda: app.return_value == 0)
    assert len(sent) == 1


async def test_exit_as_a_variable_is_shown(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text, **_: sent.append(text))
    change = Change("exit", "added", Variable("exit", "int", "1", "data"))
    await log(pilot, records.Namespace(changes=(change,), cell=9, party="you"))
    await until(pilot, lambda: "exit" in app.panes.namespace.variables)
    await pilot.press(*"exit", "enter")
    await until(pilot, lambda: sent == ["exit"])


async def test_ctrl_c_clears_the_editor_before_it_stops_what_only_waits(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    stops: list[str] = []
    monkeypatch.setattr(type(app.session.agent), "in_turn", True)
    monkeypatch.setattr(app.session, "stop", lambda: stops.append("stopped"))
    await pilot.press(*"abc")
    await log(pilot, WAITING, when=time.time())
    await pilot.press("ctrl+c")
    await wait_for_notice(pilot, "was cleared")
    assert (app.editor.text, stops) == ("", [])
    await pilot.press("ctrl+c")
    assert stops == ["stopped"]


async def test_ctrl_c_stops_a_cell_that_runs_while_another_waits(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    stops: list[str] = []
    monkeypatch.setattr(type(app.session.agent), "in_turn", True)
    monkeypatch.setattr(type(app.session.cells), "running", True)
    monkeypatch.setattr(app.session, "stop", lambda: stops.append("stopped"))
    await pilot.press(*"abc")
    await log(pilot, WAITING, when=time.time())
    await pilot.press("ctrl+c")
    assert (app.editor.text, stops) == ("abc", ["stopped"])


async def test_input_that_cannot_be_written_for_the_editor_stays(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    app.editor.text = "kept"
    await pilot.press("f4")
    await wait_for_notice(pilot, "cannot be written to a file")
    assert app.editor.text == "kept"


async def test_draft_is_removed_as_soon_as_the_editor_is_empty(
    make_app: MakeApp, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "saved_id", property(lambda session: "7"))
    monkeypatch.setattr("mahtab_tui.tui.editor.draft_file.DRAFT_DELAY_S", 0.01)
    app = make_app()
    drafts = home / ".mahtab" / "drafts"
    async with showing(app) as pilot:
        await pilot.press("x")
        await until(pilot, lambda: bool(list(drafts.glob("*"))))
        monkeypatch.setattr("mahtab_tui.tui.editor.draft_file.DRAFT_DELAY_S", 1_000.0)
        await pilot.press("backspace")
        await until(pilot, lambda: not list(drafts.glob("*")))
