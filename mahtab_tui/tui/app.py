"""The application: puts the panes and the commands over a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import RenderableType
from textual import on
from textual.actions import ActionParseResult
from textual.app import ComposeResult
from textual.command import Provider
from textual.dom import DOMNode
from textual.events import AppBlur, AppFocus, Event, InputEvent, Key, Paste
from textual.screen import Screen
from textual.widgets import Input, TextArea

from mahtab_tui.session import Session
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.store.history import History
from mahtab_tui.tui.collector import EVERY, Collector
from mahtab_tui.tui.commands.context import CommandContext
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.commands.registry import BY_ACTION, BY_ID, BY_SLASH, COMMANDS
from mahtab_tui.tui.commands.session import run_notebook
from mahtab_tui.tui.interrupter import Interrupter
from mahtab_tui.tui.late_imports import SESSION, LateImports
from mahtab_tui.tui.live_settings import LiveSettings
from mahtab_tui.tui.offers import Offers
from mahtab_tui.tui.panes.editor import EditorPane
from mahtab_tui.tui.panes.namespace import NamespacePane
from mahtab_tui.tui.panes.screen import Panes
from mahtab_tui.tui.quit_flow import QuitFlow
from mahtab_tui.tui.record_pump import RATE, RecordPump
from mahtab_tui.tui.session_port import SessionPort
from mahtab_tui.tui.slash import SlashCompletions, parse_slash
from mahtab_tui.tui.stdio_redirect import StdioRedirect
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.textual_fixes.key_order import KeyOrder
from mahtab_tui.tui.ui_state import UiState

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.tui.graphics.overlay import Overlay
    from mahtab_tui.tui.screens.action_menu import ActionMenu
    from mahtab_tui.tui.widgets.approval_row import ApprovalRow
    from mahtab_tui.tui.widgets.fan_out_row import FanOutRow
    from mahtab_tui.tui.widgets.input_row import InputRow
    from mahtab_tui.tui.widgets.queue_row import QueueRow
    from mahtab_tui.tui.widgets.review_row import ReviewRow


LONG_CELL = 10.0
"""Seconds that a cell must run for its end to ring the bell."""


def style_sheets() -> list[Path]:
    """List all style sheets, the application's own first."""
    folder = resource_folder("styles")
    first = folder / "app.tcss"
    return [first, *sorted(path for path in folder.glob("*.tcss") if path != first)]


def _command_provider() -> type[Provider]:
    from mahtab_tui.tui.palette import CommandProvider

    return CommandProvider


class MahtabApp(TerminalApp[int]):
    """The full screen over one session."""

    TITLE = "mahtab"
    BINDINGS = bindings(COMMANDS)
    COMMANDS: ClassVar = {_command_provider}

    panes: Panes
    work: CommandContext
    _late_imports: LateImports

    def __init__(
        self,
        session: Session,
        guard: StdioRedirect,
        history: History,
        *,
        keymap: dict[str, str] | None = None,
        collector: Collector | None = None,
        namespace_stays: bool = False,
    ) -> None:
        self.choices = UiState.load()
        super().__init__(
            css_path=list(style_sheets()),
            guard=guard,
            theme=session.settings.theme or self.choices.theme,
        )
        self._collector = collector
        self._after_first_picture: list[Callable[[], None]] = []
        self.session = session
        self.drain = RecordPump()
        session.listen(self.drain.begin)
        self.saves_crash = not session.no_trace
        self.history = history
        if session.model:
            self.choices.remember_model(session.model)
        else:
            self.call_after_first_picture(lambda: self.choices.remember_model(session.model))
        if session.settings.kernel is not None:
            self.choices.remember_kernel(session.settings.kernel)
        self.settings = LiveSettings(self, session, self.choices, keymap or {})
        self.namespace_stays = namespace_stays
        self._window_focused = True
        self._keys = KeyOrder(self, super().on_event, self._before_key)
        self._overlay: Overlay | None = None
        """Made when the first picture is drawn."""
        self._drawn = False
        """Whether the screen was drawn: what draws pictures is loaded after that."""

    def call_after_first_picture(self, callback: Callable[[], None]) -> None:
        """Call something once the screen is drawn. Use it before `run`."""
        self._after_first_picture.append(callback)

    def get_default_screen(self) -> Panes:
        self.panes = Panes(
            self.session,
            SessionPort(self, self.session),
            self.history,
            self.choices,
            SlashCompletions(COMMANDS),
        )
        leaving = QuitFlow(self, self.session, self.panes, namespace_stays=self.namespace_stays)
        offers = Offers(self, self.session, self.panes)
        stopping = Interrupter(self, self.session)
        self.work = CommandContext(
            self,
            self.session,
            self.history,
            self.choices,
            self.panes,
            stopping,
            leaving,
            offers,
            self.settings,
            COMMANDS,
        )
        return self.panes

    def compose(self) -> ComposeResult:
        return self.panes.parts()

    def on_mount(self) -> None:
        self.settings.apply()
        self.panes.resume(self.session.past)
        self.work.offers.greet()
        self.panes.begin()
        settling = () if self._collector is None else (self._collector.settle,)
        told = (self._tell_of_history, self.settings.tell_of_unknown, *self._after_first_picture)
        self._late_imports = LateImports(
            self,
            SESSION,
            (
                self.session.build,
                *settling,
                self._show_transcript,
                self._show_all,
                *told,
                self.session.start,
            ),
        )
        self._late_imports.begin()
        if self._collector is not None:
            self.set_interval(EVERY, self._collector.tick)

    def _show_transcript(self) -> None:
        self._drawn = True
        self.panes.transcript  # noqa: B018 (makes it)

    async def _show_all(self) -> None:
        """Show what the bus brings: from now on everything stands that shows something."""
        self.drain.folds = [
            *self.panes.folds(),
            self._ring,
            self.work.offers.fold,
            *await self.panes.mount_asking_rows(),
        ]
        self.set_interval(RATE, self.drain.tick)

    def on_unmount(self) -> None:
        self._late_imports.end()

    @property
    def editor(self) -> EditorPane:
        return self.panes.editor

    # Commands

    def action_command(self, id: str, argument: str = "") -> None:
        BY_ID[id].run(self.work, argument)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide commands that can do nothing now from the footer."""
        if action == "command":
            return BY_ID[str(parameters[0])].available(self.work)
        return super().check_action(action, parameters)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run only some commands while a screen covers the panes, and fewer while a dialog waits.

        `check_action` cannot do this, because it would empty the footer below the dialog.
        """
        command = BY_ACTION.get(action) if isinstance(action, str) else None
        if command is not None and self.panes.covered:
            asks = getattr(self.screen, "asks", False)  # of dialogs and of the palette
            if not (command.over_questions if asks else command.over_screens):
                return False
        return await super().run_action(action, default_namespace, namespaces)

    def action_command_palette(self) -> None:
        from mahtab_tui.tui.textual_fixes.palette import SafeCommandPalette

        self.push_screen(SafeCommandPalette(id="--command-palette"))

    def search_themes(self) -> None:
        from mahtab_tui.tui.screens.listing import ChooseTheme

        self.push_screen(ChooseTheme(sorted(self.available_themes), self.theme))

    async def action_quit(self) -> None:
        self.work.leaving.leave()

    def leave_by_code(self) -> None:
        self.work.leaving.leave_by_code()

    # Messages of the panes

    @on(EditorPane.Submitted)
    def _submitted(self, message: EditorPane.Submitted) -> None:
        slash = parse_slash(message.text)
        # In Python mode only what is a command: anything else after a slash gets Python's own
        # error.
        if slash is not None and (message.mode == "ask" or slash[0] in BY_SLASH):
            self._run_slash(*slash)
        elif message.replaces.startswith("place ") and message.mode == "python":
            place = int(message.replaces.removeprefix("place "))
            run_notebook(self, self.session, lambda notebook: notebook.run(place, message.text))
            self.panes.transcript.action_scroll_end()
        elif not message.replaces or message.replaces.startswith("place "):
            self.session.submit(message.mode, message.text)
            self.panes.transcript.action_scroll_end()
        elif self.session.replace(message.replaces, message.mode, message.text):
            self.panes.transcript.action_scroll_end()
        else:
            self.tell("Busy: wait, or press Esc, then enter this again.", "warning")
            self.editor.begin_replacing(message.replaces, message.mode, message.text)
        self._tell_of_history()

    def _run_slash(self, name: str, argument: str) -> None:
        command = BY_SLASH.get(name)
        if command is None:
            self.work.refuse(
                f"There is no command /{name}. F1 lists them.", f"/{name} {argument}".rstrip()
            )
        elif argument and not command.argument:
            self.work.refuse(f"/{name} takes no argument.", f"/{name} {argument}")
        else:
            self.call_later(command.run, self.work, argument)

    @on(EditorPane.ModeChanged)
    def _mode_changed(self, message: EditorPane.ModeChanged) -> None:
        if message.mode == "ask":
            self.session.agent.warm_up()

    @on(EditorPane.LeaveRequested)
    def _leave_requested(self) -> None:
        self.work.leaving.leave()

    # The rows that ask are loaded after the first picture: their messages are handled by name.

    def on_approval_row_decided(self, message: ApprovalRow.Decided) -> None:
        from mahtab_tui.bus.decision import Decision

        if message.rules:
            self.settings.add_rules(message.rules)
        self.session.decide(message.request, Decision(message.action, message.code, message.reason))
        self.editor.focus()

    def on_review_row_decided(self, message: ReviewRow.Decided) -> None:
        from mahtab_tui.bus.decision import Decision

        self.session.decide(message.request, Decision(message.action, reason=message.reason))
        self.editor.focus()

    def on_fan_out_row_answered(self, message: FanOutRow.Answered) -> None:
        self.session.searches.answer(message.request, message.run)

    def on_input_row_answered(self, message: InputRow.Answered) -> None:
        self.session.answer_input(message.request, message.text)

    def on_queue_row_cancelled(self, message: QueueRow.Cancelled) -> None:
        item = self.session.cancel(message.item_id)
        if item is not None and not item.party and self.editor.is_empty:
            self.editor.text = item.text

    def on_action_menu_typed(self, message: ActionMenu.Typed) -> None:
        self.panes.focus_code()
        for key in message.keys:
            self.panes.query_one("#code").post_message(key)

    # Events of the terminal

    async def on_event(self, event: Event) -> None:
        if self._collector is not None and isinstance(event, InputEvent):
            self._collector.key()
        if isinstance(event, Key | Paste) and not event.is_forwarded and self.screen_stack:
            if not self.panes.covered and self.focused is None:
                self.panes.focus_code()
            await self._keys.take(event)
        else:
            await super().on_event(event)

    def _before_key(self, event: Key | Paste) -> bool:
        """Close the question before leaving, which any key answers, and focus the editor if the key
        is text for it."""
        taken = self.work.leaving.take_key(event.key if isinstance(event, Key) else "")
        if self._is_for_editor(event):
            self.panes.focus_code()
        return taken

    def _is_for_editor(self, event: Key | Paste) -> bool:
        """Whether text is typed or pasted while no text field and no question has the focus. A
        space and Alt with a letter are keys of the panes."""
        from mahtab_tui.tui.widgets.chips import Chips

        focused = self.focused
        if self.panes.covered or focused is None or isinstance(focused, Input | TextArea | Chips):
            return False
        typed = isinstance(event, Paste) or (
            event.is_printable and event.key != "space" and not event.key.startswith("alt+")
        )
        return typed and not (isinstance(focused, NamespacePane) and focused.filtering)

    def on_app_focus(self, event: AppFocus) -> None:
        self._window_focused = True

    def on_app_blur(self, event: AppBlur) -> None:
        self._window_focused = False

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if renderable is not None and self._drawn:
            from mahtab_tui.tui.graphics.pictures import parts_seen

            wanted = list(parts_seen(screen))
            if wanted and self._overlay is None:
                from mahtab_tui.tui.graphics.overlay import Overlay

                self._overlay = Overlay(self)
            if self._overlay is not None:
                self._overlay.before(wanted, renderable)
        super()._display(screen, renderable)

    def mask(self, text: str) -> str:
        return self.session.mask(text)

    def _tell_of_history(self) -> None:
        if self.history.problem:
            self.session.notice(self.history.problem, "warning")
            self.history.problem = ""

    def _ring(self, new: Sequence[Record]) -> None:
        """Ring the terminal's bell for the end of a long cell and for what waits for the user,
        while the window has no focus."""
        from mahtab_tui.bus import records

        waiting = records.Approval | records.Review | records.SearchFanOut
        for record in () if self._window_focused else new:
            long = (
                isinstance(record, records.ReplOut)
                and record.duration is not None
                and record.duration >= LONG_CELL
            )
            if long or (isinstance(record, waiting) and record.state == "waiting"):
                self.bell()

    def watch_theme(self, theme: str) -> None:
        self.choices.theme = theme
