"""Commands: their keys, help, palette and slash names."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

import pytest
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input, Label, OptionList

from mahtab_tui.bus import records
from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.records import Decision, Record
from mahtab_tui.bus.values import Change, ChangeKind, TracebackFrame, Variable
from mahtab_tui.manual import TOPICS, page
from mahtab_tui.session.cells import Cells
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.declarations import PANE_COMMANDS, PANE_KEYS
from mahtab_tui.tui.screens.command_palette import CommandPalette
from mahtab_tui.tui.screens.dialog import Confirm
from mahtab_tui.tui.screens.help import HelpScreen, help_rows
from mahtab_tui.tui.transcript.activities import PendingRequests
from mahtab_tui.tui.widgets import approval_row, chips
from mahtab_tui.tui.widgets.bars import KeyLine
from mahtab_tui.tui.widgets.input_row import InputRow
from tests.tui.editor_app import static_text, until, wait_for_close, wait_for_screen
from tests.tui.screens_app import ScreensApp
from tests.tui.scripted_session import (
    WAITING,
    MakeApp,
    drawn,
    log,
    notices,
    sales_records,
    showing,
    wait_for_notice,
)


async def help_text(pilot: Pilot[int]) -> str:
    await pilot.press("f1")
    await until(pilot, lambda: bool(seen(pilot)))
    return static_text(pilot, "#help-rows")


def topics(pilot: Pilot[int]) -> list[str]:
    return [str(option.prompt) for option in pilot.app.screen.query_one(OptionList).options]


def palette_rows(pilot: Pilot[int]) -> list[str]:
    return topics(pilot) if isinstance(pilot.app.screen, CommandPalette) else []


def test_no_two_commands_have_the_same_id_or_slash_name() -> None:
    slashes = [command.slash for command in COMMANDS if command.slash]
    for names in ([command.id for command in (*COMMANDS, *PANE_COMMANDS)], slashes):
        assert len(set(names)) == len(names)


def test_no_alt_letter_key_is_mistaken_for_another() -> None:
    keys = [command.keys for command in (*COMMANDS, *PANE_COMMANDS)] + [
        row.keys for row in PANE_KEYS
    ]
    letters = re.findall(r"\balt\+(\w)\b", " ".join(keys))
    assert letters
    # Textual takes for Ctrl+Right what most terminals send for Alt+F; both go a word right.
    other_sequences = {f"\x1b{letter}" for letter in letters} - {"\x1bb", "\x1bf"}
    assert not other_sequences & ANSI_SEQUENCES_KEYS.keys()


async def test_help_and_palette_list_every_command_with_its_key(make_app: MakeApp) -> None:
    app = make_app()
    app.settings.keymap = {"toggle-mode": "f12"}
    async with showing(app, (120, 40)) as pilot:
        text = await help_text(pilot)
        lines = text.splitlines()
        words = " ".join(text.split())
        for command in COMMANDS:
            assert f"{command.title}: {command.help}" in words
            (row,) = [line for line in lines if f" {command.title}: {command.help[:10]}" in line]
            key = "f12" if command.id == "toggle-mode" else command.keys.partition(",")[0]
            assert row.split()[0].startswith(key or ("/" if command.slash else "palette"))
            assert not command.slash or f"/{command.slash}" in row
        for pane_row in PANE_KEYS:
            assert pane_row.help in words
            assert any(pane_row.keys in line and pane_row.help[:10] in line for line in lines)
        await pilot.press("escape", "ctrl+p")
        await until(pilot, lambda: len(palette_rows(pilot)) >= len(COMMANDS))
        for command in COMMANDS:
            key = "f12" if command.id == "toggle-mode" else command.keys
            is_listed = any(command.title in row and key in row for row in palette_rows(pilot))
            assert is_listed, command.id
        await pilot.press(*"namespace recursion", "enter")
        await until(pilot, lambda: not app.query_one("#side").display)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "theme"),
    [
        (["f10"], "mahtab-day"),
        (["f2", *"/theme nord", "enter"], "nord"),
        (["f2", *"/theme mahtab-contrast", "enter", "f10"], "mahtab-contrast-day"),
    ],
)
async def test_chosen_theme_is_saved_for_the_next_start(
    make_app: MakeApp, keys: list[str], theme: str
) -> None:
    app = make_app(theme="")
    async with showing(app) as pilot:
        await pilot.press(*keys)
        await until(pilot, lambda: app.theme == theme)
    app.ui_state.save()
    again = make_app(theme="")
    async with showing(again):
        assert again.theme == theme
        assert again.current_theme.dark == (theme == "nord")


async def test_unknown_theme_is_refused(make_app: MakeApp) -> None:
    app = make_app(theme="")
    async with showing(app) as pilot:
        await pilot.press("f2", *"/theme nrod", "enter")
        await wait_for_notice(pilot, "There is no theme nrod")
        assert app.theme != "nrod"
        assert app.editor.text == "/theme nrod"


async def test_users_key_overrides_another_commands(make_app: MakeApp) -> None:
    app = make_app()
    app.settings.keymap = {"reset": "ctrl+r", "history-search": "f12"}
    async with showing(app) as pilot:
        await pilot.press("ctrl+r")
        await until(pilot, lambda: type(app.screen).__name__ == "Confirm")
        await pilot.press("escape", "f12")
        await until(pilot, lambda: type(app.screen).__name__ == "HistorySearch")


class RunningWork:
    """What runs in a session that is never started."""

    def __init__(self, app: MahtabApp, patch: pytest.MonkeyPatch) -> None:
        self.cells: frozenset[int] = frozenset()
        self.cells_after_stop: frozenset[int] | None = None
        """None if a stop ends no cell."""
        self.model_cell_runs = False
        self.stopped: Literal["model", "cell"] = "cell"
        self.stop_count = 0
        patch.setattr(Cells, "running_numbers", property(lambda cells: self.cells))
        patch.setattr(Cells, "running", property(lambda cells: bool(self.cells)))
        patch.setattr(Cells, "assistant_runs", property(lambda cells: self.model_cell_runs))
        patch.setattr(app.session, "stop", self.stop)

    def stop(self) -> str:
        self.stop_count += 1
        if self.cells_after_stop is not None:
            self.cells = self.cells_after_stop
        return self.stopped


Stoppable = tuple[MahtabApp, RunningWork, pytest.MonkeyPatch]


@pytest.fixture
def stoppable(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> Stoppable:
    """An application in which no key counts as held down, and what runs in it."""
    app = make_app(*sales_records())
    monkeypatch.setattr("mahtab_tui.tui.interrupting.KILL_OFFER_DELAY_S", 0.01)
    monkeypatch.setattr("mahtab_tui.tui.key_repeat.REPEAT_INTERVAL_S", 0)
    monkeypatch.setattr("mahtab_tui.tui.key_repeat.FIRST_REPEAT_S", 0)
    return app, RunningWork(app, monkeypatch), monkeypatch


@pytest.mark.parametrize("stopped", ["cell", "model"])
async def test_unresponsive_cell_gets_a_hint_that_stopping_again_kills(
    stoppable: Stoppable, stopped: Literal["model", "cell"]
) -> None:
    app, work, _ = stoppable
    work.cells = frozenset({7})
    work.stopped = stopped
    work.model_cell_runs = stopped == "model"
    async with showing(app) as pilot:
        await pilot.press("escape")
        await wait_for_notice(pilot, "Stop it again within 2 seconds to kill the kernel")
        await pilot.press("escape")
        await wait_for_screen(pilot, Confirm)


@pytest.mark.parametrize("next_cells", [frozenset(), frozenset({8})], ids=["none", "another"])
async def test_a_cell_that_has_stopped_is_not_offered_to_be_killed(
    stoppable: Stoppable, next_cells: frozenset[int]
) -> None:
    app, work, patch = stoppable
    patch.setattr("mahtab_tui.tui.interrupting.SECOND_STOP_S", 60)
    work.cells = frozenset({7})
    work.cells_after_stop = next_cells
    async with showing(app) as pilot:
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert not notices(pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert (len(app.screen_stack), work.stop_count) == (1, 2)


async def test_a_cell_is_not_killed_after_only_the_model_was_stopped(stoppable: Stoppable) -> None:
    app, work, patch = stoppable
    patch.setattr("mahtab_tui.tui.interrupting.SECOND_STOP_S", 60)
    work.cells = frozenset({7})
    work.stopped = "model"
    async with showing(app) as pilot:
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert (len(app.screen_stack), work.stop_count) == (1, 2)


@pytest.mark.parametrize("limit", ["REPEAT_INTERVAL_S", "FIRST_REPEAT_S"])
async def test_held_stop_key_does_not_ask_to_kill(stoppable: Stoppable, limit: str) -> None:
    app, work, patch = stoppable
    patch.setattr("mahtab_tui.tui.interrupting.SECOND_STOP_S", 60)
    patch.setattr(f"mahtab_tui.tui.key_repeat.{limit}", 60)
    work.cells = frozenset({7})
    async with showing(app) as pilot:
        await pilot.press("ctrl+c", "ctrl+c", "ctrl+c")
        await pilot.pause()
        assert (len(app.screen_stack), work.stop_count) == (1, 1)


@pytest.mark.parametrize("width", [50, 74, 120])
def test_no_row_is_wider_than_its_space(width: int) -> None:
    rows = HelpScreen(help_rows(COMMANDS, {})).render_keys("", width).plain.split("\n")
    assert max(map(len, rows)) <= width


def seen(pilot: Pilot[int]) -> str:
    return (
        " ".join(static_text(pilot, "#help-rows").split())
        if isinstance(pilot.app.screen, HelpScreen)
        else ""
    )


async def test_arrows_walk_the_topics_and_each_shows_its_page(pilot: Pilot[int]) -> None:
    await pilot.press("f1")
    await until(pilot, lambda: "Run complete code" in seen(pilot))
    assert topics(pilot) == [*TOPICS]
    for topic in ("start", "trouble"):
        await pilot.press("up")
        await until(pilot, lambda topic=topic: page(topic).title in seen(pilot))  # type: ignore[misc]


@pytest.mark.thorough
async def test_typing_filters_topics_and_their_lines(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await help_text(pilot)
        await pilot.press(*"interpreter")
        await until(pilot, lambda: "Search history" not in seen(pilot))
        assert "Interpreter: Choose the kernel's Python" in seen(pilot)
        app.screen.query_one(Input).value = "ollama"
        await until(pilot, lambda: set(topics(pilot)) == {"start", "models", "configuration"})
        assert "Ollama" in seen(pilot)
        first_summary = page(topics(pilot)[0]).summary
        assert first_summary not in seen(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: first_summary in seen(pilot))
        assert topics(pilot) == [*TOPICS]
        app.screen.query_one(Input).value = "no such word anywhere"
        await until(pilot, lambda: seen(pilot) == "Nothing matches.")
        await pilot.press("escape")
        await wait_for_close(pilot, HelpScreen)
        assert app.editor.is_empty


async def test_a_search_shows_its_first_lines_after_scrolling() -> None:
    app = ScreensApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await app.push_screen(HelpScreen(help_rows(COMMANDS, {})))
        view = app.screen.query_one(VerticalScroll)
        await until(pilot, lambda: view.max_scroll_y > 0)
        await pilot.press("pagedown", "pagedown")
        await until(pilot, lambda: view.scroll_y > 0)
        await pilot.press("s")
        await until(pilot, lambda: view.scroll_y == 0)
        assert view.max_scroll_y > 0


@pytest.mark.thorough
async def test_slash_help_opens_a_topic_and_suggests_similar_ones(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    await pilot.press("f2", *"/help agents", "enter")
    await until(pilot, lambda: page("agents").title in seen(pilot))
    await pilot.press("escape")
    await wait_for_close(pilot)
    await pilot.press(*"/help agnets", "enter")
    await wait_for_notice(pilot, "Did you mean agents")
    assert app.editor.text == "/help agnets"


@pytest.mark.parametrize("topic", TOPICS)
def test_page_starts_with_a_title_and_a_sentence(topic: str) -> None:
    topic_page = page(topic)
    assert topic_page.title
    assert topic_page.summary.endswith(".")
    assert "\n" not in topic_page.summary
    assert "<!--" not in topic_page.text


class KeyLineApp(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+a", "note('a')", "Alpha"),
        Binding("f9", "note('a')", "Alpha again"),
        Binding("ctrl+b", "off", "日本語"),
        Binding("minus", "note('-')", "Slower", key_display="-"),
        Binding("ctrl+d", "note('d')", "D" * 40),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def compose(self) -> ComposeResult:
        yield KeyLine()

    def action_note(self, note: str) -> None:
        self.noted.append(note)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if action == "off" else True


async def test_a_click_presses_the_key_under_the_mouse() -> None:
    app = KeyLineApp()
    async with app.run_test(size=(30, 5)) as pilot:
        line = app.query_one(KeyLine)
        await until(pilot, lambda: "Alpha" in line.render_line(0).text)
        assert line.render_line(0).text == " ^a Alpha  ^b 日本語  - Slower"
        await pilot.click(line, offset=(9, 0))
        await pilot.click(line, offset=(10, 0))
        assert app.noted == ["a"]
        await pilot.click(line, offset=(22, 0))
        assert app.noted == ["a", "-"]


async def test_narrow_footer_shows_whole_keys_and_always_help(make_app: MakeApp) -> None:
    failed = [
        records.UserReplIn("1/0", cell=9, party="you"),
        records.UserReplOut(
            "ZeroDivisionError",
            cell=9,
            status="error",
            frames=(TracebackFrame("In [9]", 1, "<module>", 1),),
        ),
    ]
    async with showing(make_app(*sales_records(), *failed), size=(80, 24)) as pilot:
        line = pilot.app.screen.query_one(KeyLine)
        await until(pilot, lambda: "f6 Frames" in line.render_line(0).text)
        text = line.render_line(0).text.rstrip()
        assert text.endswith("f3 Side  f1 Help")
        await pilot.click(line, offset=(text.index("Help"), 0))
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))


async def test_a_character_behind_escape_reaches_the_editor(make_app: MakeApp) -> None:
    app = make_app(*sales_records())
    async with showing(app) as pilot:
        await pilot.press("f1")
        await wait_for_screen(pilot, HelpScreen)
        # Most terminals send the same for Escape and a letter as for Alt and this letter.
        app.post_message(Key("alt+x", None))
        app.post_message(Key("y", "y"))
        await until(pilot, lambda: app.editor.text == "xy")


def keys(pilot: Pilot[int]) -> list[str]:
    return [key.description for key in pilot.app.screen.query_one(KeyLine).keys]


async def test_key_for_a_waiting_row_is_shown_while_something_waits(make_app: MakeApp) -> None:
    ask = records.Input("(Pdb) ", request="1", cell=1, state="waiting")
    app = make_app(*sales_records())
    async with showing(app) as pilot:
        assert "Answer" not in keys(pilot)
        app.editor.text = "half"
        await log(pilot, ask)
        await until(pilot, lambda: keys(pilot)[0] == "Answer")
        line = app.query_one(InputRow).query_one(Input)
        assert app.focused is not line
        await pilot.press("f7")
        assert app.focused is line
        app.editor.focus()
        await pilot.press("ctrl+o")
        await until(
            pilot, lambda: "w" in [str(label.content).strip() for label in app.screen.query(Label)]
        )
        await pilot.press("w")
        await until(pilot, lambda: len(app.screen_stack) == 1 and app.focused is line)
        await log(pilot, ask.changed(state="answered"))
        await until(pilot, lambda: "Answer" not in keys(pilot))


def test_stopped_search_no_longer_waits() -> None:
    waiting = PendingRequests()
    fan_out = records.SearchFanOut(node="1", request="1", batch="b", calls=60, state="waiting")
    waiting.fold(fan_out.changed(tree="t", seq=0, time=5.0))
    assert waiting.since == 5.0
    waiting.fold(records.SearchFinal(tree="t", node="1", seq=0, state="stopped", time=6.0))
    assert waiting.since is None


def asking_app(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> tuple[MahtabApp, list[Decision]]:
    """Make an application in which code waits, and the list of decisions about it."""
    monkeypatch.setattr(chips, "IGNORE_KEYS_S", 0.0)
    app = make_app(*sales_records(), WAITING)
    decisions = list[Decision]()
    approvals = app.session.approvals
    monkeypatch.setattr(approvals, "answer", lambda request, decision: decisions.append(decision))
    return app, decisions


async def test_maximise_key_runs_code_being_edited(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_row, "IGNORE_KEYS_S", 0.0)
    app, decisions = asking_app(make_app, monkeypatch)
    async with showing(app) as pilot:
        await pilot.press("f7", "e", "f5")
        await until(pilot, lambda: bool(decisions))
        assert [(decision.action, decision.code) for decision in decisions] == [
            ("run", WAITING.text)
        ]
        await pilot.press("f5")
        assert (len(decisions), app.screen.maximized is not None) == (1, True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(20, 5), (10, 3), (40, 8)])
async def test_key_answers_nothing_where_the_answers_do_not_fit(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    app, decisions = asking_app(make_app, monkeypatch)
    async with showing(app, size) as pilot:
        await pilot.press("f7", "y", "f7", "y", "f7", "a")
        await pilot.pause()
        assert decisions == []
        await pilot.resize_terminal(80, 24)
        await drawn(pilot)
        await pilot.press("f7", "y")
        await until(pilot, lambda: bool(decisions))


def ran(number: int, code: str, change: ChangeKind | None = None) -> list[Record]:
    """A cell that has run. change: what it did to the variable x."""
    x = Variable("x", "int", "1", "data")
    changes = () if change is None else (Change("x", change, x),)
    return [
        records.UserReplIn(code, cell=number, party="you"),
        records.Namespace(cell=number, party="you", changes=changes),
        records.UserReplOut("1\n", cell=number, status="ok", duration=0.1),
    ]


async def test_stale_cells_are_named_and_run_again_in_order(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales_records = [*ran(1, "x = 1", "added"), *ran(2, "print(x)"), *ran(3, "x + 1")]
    app = make_app(*sales_records)
    submitted: list[str] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, code: submitted.append(code))
    async with showing(app) as pilot:
        await pilot.press("f2", *"/rerun 3", "enter")
        await wait_for_notice(pilot, "/rerun stale runs stale cells again")
        app.editor.clear()
        await pilot.press(*"/rerun", "enter")
        await wait_for_notice(pilot, "Nothing is stale")
        await log(pilot, *ran(4, "x = 2", "rebound"))
        await pilot.press(*"/rerun stale", "enter")
        await wait_for_screen(pilot, Confirm)
        assert static_text(pilot, "#question") == "Run again, in this order: In 2, In 3?"
        await pilot.press("y")
        await until(pilot, lambda: bool(submitted))
        assert submitted == ["print(x)", "x + 1"]
        await log(pilot, *ran(5, f"use('{MASK}', x)"), *ran(6, "x = 3", "rebound"))
        await pilot.press(*"/rerun stale", "enter")
        await wait_for_notice(pilot, "Run In 5 yourself: a secret in it was masked.")
