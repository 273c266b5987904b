"""An application with the editor and the rows above it, for tests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from mahtab_tui.kernel.values import Completions, Explanation
from mahtab_tui.session.mentions import MentionChip
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.store.input_history import History
from mahtab_tui.tui.commands import complete_slash
from mahtab_tui.tui.editor import EditorPane
from mahtab_tui.tui.editor.prompt_area import PromptArea
from mahtab_tui.tui.messages import OpenMenu
from mahtab_tui.tui.screens.dialog import ActionMenu, ask
from mahtab_tui.tui.theme import MAHTAB, OUR_THEMES, role_variables
from mahtab_tui.tui.widgets.approval_row import ApprovalRow
from mahtab_tui.tui.widgets.input_row import InputRow
from mahtab_tui.tui.widgets.queue_row import QueueRow
from mahtab_tui.tui.widgets.review_row import ReviewRow
from tests.records import made

SIZE = (80, 24)
AnyScreen = TypeVar("AnyScreen", bound=Screen[Any])


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def no_completions(text: str, cursor: int) -> Completions:
    return Completions(0, (), 0)


class ThemedApp(App[None]):
    def __init__(self, theme: str = MAHTAB.name, css_path: Sequence[Path] | None = None) -> None:
        super().__init__(css_path=None if css_path is None else list(css_path))
        for own_theme in OUR_THEMES:
            self.register_theme(own_theme)
        self.theme = theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    @on(OpenMenu)
    def show_menu(self, message: OpenMenu) -> None:
        owner = message.owner
        menu = ActionMenu(message.title, message.commands, self._keymap)
        ask(self, menu, lambda action: owner.call_later(owner.run_action, action))


@dataclass
class HelpWith:
    """An `InputHelp` made of functions; what it has none for is answered by nothing."""

    complete: Callable[[str, int], Completions] = no_completions
    complete_question: Callable[[str, int], Completions] = no_completions
    explain: Callable[[str, int], Explanation | None] = lambda code, cursor: None
    mention_chips: Callable[[str], Sequence[MentionChip]] = lambda question: ()

    def complete_command(self, text: str, cursor: int) -> Completions | None:
        return complete_slash(text, cursor)


class EditorApp(ThemedApp):
    """Records the messages of its widgets, as (name of the message, its values)."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f7", "focus_approval", id="focus-approval", priority=True)
    ]

    def __init__(
        self,
        home: Path,
        theme: str = MAHTAB.name,
        input_help: HelpWith | None = None,
    ) -> None:
        folder = resource_folder("styles")
        names = ("app", "dialogs", "editor", "history_search")
        super().__init__(theme, [folder / f"{name}.tcss" for name in names])
        self.input_help = input_help
        self.history = History(home / "history.db", "a project")
        self.clock = Clock()
        self.in_sight = True
        """Whether the transcript shows waiting code."""
        self.rules: tuple[str, ...] = ()
        self.actions: list[tuple[Any, ...]] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="main"):
            yield Static(id="transcript")
            yield ApprovalRow(self.clock)
            yield ReviewRow(self.clock)
            yield InputRow()
            yield QueueRow()
            yield EditorPane(self.history, self.input_help, id="editor")

    def on_mount(self) -> None:
        self.query_one("#transcript").can_focus = True
        self.editor.focus()
        row = self.query_one(ApprovalRow)
        self.screen.screen_layout_refresh_signal.subscribe(
            row, lambda _: row.call_after_refresh(self._show_hidden_code, row)
        )

    def _show_hidden_code(self, row: ApprovalRow) -> None:
        if row.code_to_show and not self.in_sight:
            row.show_code()

    @property
    def editor(self) -> EditorPane:
        return self.query_one(EditorPane)

    @property
    def area(self) -> PromptArea:
        return self.query_one(PromptArea)

    def fold(self, tag: str, text: str = "", /, **attrs: Any) -> None:
        row = self.query_one
        folds = (row(ApprovalRow).fold, row(ReviewRow).fold, row(InputRow).fold, row(QueueRow).fold)
        for fold in folds:
            fold([made(tag, text, attrs)])

    @on(EditorPane.Submitted)
    def _submitted(self, message: EditorPane.Submitted) -> None:
        self.actions.append(("submitted", message.mode, message.text))

    @on(EditorPane.ModeChanged)
    def _mode_changed(self, message: EditorPane.ModeChanged) -> None:
        self.actions.append(("mode", message.mode))

    @on(EditorPane.LeaveRequested)
    def _leave_requested(self) -> None:
        self.actions.append(("leave",))

    @on(ApprovalRow.Decided)
    def _decided(self, message: ApprovalRow.Decided) -> None:
        decision = (message.action, message.code, message.reason, message.rules)
        self.actions.append(("decided", message.request, *decision))

    @on(ApprovalRow.RulesWanted)
    def _rules_wanted(self, message: ApprovalRow.RulesWanted) -> None:
        message.row.show_rules(message.request, self.rules)

    @on(ReviewRow.Decided)
    def _reviewed(self, message: ReviewRow.Decided) -> None:
        self.actions.append(("reviewed", message.request, message.action, message.reason))

    @on(InputRow.Answered)
    def _answered(self, message: InputRow.Answered) -> None:
        self.actions.append(("answered", message.request, message.text))

    @on(QueueRow.Cancelled)
    def _cancelled(self, message: QueueRow.Cancelled) -> None:
        self.actions.append(("cancelled", message.item_id))

    def action_focus_approval(self) -> None:
        self.query_one(ApprovalRow).focus()
        self.query_one(ReviewRow).focus()

    def action_stop(self) -> None:
        self.actions.append(("stop",))


async def write(pilot: Pilot[Any], text: str) -> None:
    names = {"\n": "enter", " ": "space", "`": "grave_accent"}
    await pilot.press(*(names.get(character, character) for character in text))


async def press_at_once(pilot: Pilot[Any], *keys: str) -> None:
    characters = {"enter": "\r", "space": " ", "backspace": "\x7f", "grave_accent": "`"}
    for key in keys:
        pilot.app.post_message(Key(key, key if len(key) == 1 else characters.get(key)))
    for _ in range(5):
        await pilot.pause()


def app_of(pilot: Pilot[None]) -> EditorApp:
    assert isinstance(pilot.app, EditorApp)
    return pilot.app


def actions(pilot: Pilot[None]) -> list[tuple[object, ...]]:
    return app_of(pilot).actions


def text_of(pilot: Pilot[None]) -> str:
    return app_of(pilot).editor.text


def wait_a_second(pilot: Pilot[None]) -> None:
    app_of(pilot).clock.now += 1


async def press_later(pilot: Pilot[None], *keys: str) -> None:
    wait_a_second(pilot)
    await pilot.press(*keys)


def static_text(pilot: Pilot[Any], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).content)


def screen_text(pilot: Pilot[Any]) -> str:
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    pause = 0.01
    while not holds():
        assert time.monotonic() < end, "condition not met in time"
        await pilot.pause(pause)
        pause = min(1.5 * pause, 0.1)


async def wait_for_screen(pilot: Pilot[Any], kind: type[AnyScreen]) -> AnyScreen:
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))
    assert isinstance(pilot.app.screen, kind)
    return pilot.app.screen


async def wait_for_close(pilot: Pilot[Any], kind: type[Screen[Any]] = Screen) -> None:
    """Wait until the top screen is not of a kind, or is the first one."""
    await until(pilot, lambda: not isinstance([None, *pilot.app.screen_stack[1:]][-1], kind))


def remember(home: Path, inputs: Iterable[tuple[str, str]]) -> None:
    history = History(home / "history.db", "a project")
    for text, mode in inputs:
        history.add(text, mode)
    history.close()


@asynccontextmanager
async def editing(home: Path, *inputs: tuple[str, str]) -> AsyncIterator[Pilot[None]]:
    """Open an editor with inputs of an earlier session, the oldest first, with a question."""
    remember(home, inputs)
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: bool(app.editor._inputs.for_mode("ask")))
        yield pilot
