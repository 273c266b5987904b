"""The application over a session."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from textual import on
from textual.actions import ActionParseResult
from textual.app import ComposeResult
from textual.events import AppBlur, AppFocus, Event, Key, Paste
from textual.screen import Screen
from textual.widgets import Input, TextArea

from mahtab_tui.session import Session
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.store.database import History
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.commands import BY_ACTION, BY_ID, BY_SLASH, COMMANDS, parse_slash
from mahtab_tui.tui.commands.command import CommandContext, bindings
from mahtab_tui.tui.commands.session import run_notebook
from mahtab_tui.tui.editor import EditorPane
from mahtab_tui.tui.greeting import Greeter
from mahtab_tui.tui.main_screen import Panes, UiState
from mahtab_tui.tui.namespace import NamespacePane
from mahtab_tui.tui.session_port import LiveSettings, SessionPort
from mahtab_tui.tui.terminal_app import (
    SESSION_MODULES,
    Collector,
    LateImports,
    RecordPump,
    TerminalApp,
)
from mahtab_tui.tui.terminal_driver import StdioRedirect
from mahtab_tui.tui.textual_fixes import KeyOrder
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.tui.editor.draft_file import DraftFile
    from mahtab_tui.tui.pictures import Overlay
    from mahtab_tui.tui.screens.dialog import ActionMenu
    from mahtab_tui.tui.widgets.approval_row import ApprovalRow
    from mahtab_tui.tui.widgets.question_rows import (
        FanOutRow,
        InputRow,
        LeaveRow,
        QueueRow,
        ReviewRow,
    )

SECOND_STOP_S = 2.0
"""Within which a second stop offers to kill the kernel."""

REACTION_S = 0.4


class Interrupter:
    def __init__(self, app: TerminalApp[int], session: Session) -> None:
        self._app = app
        self._session = session
        self._last_stop = 0.0

    def stop(self) -> None:
        if self._session.cells.running and time.monotonic() - self._last_stop < SECOND_STOP_S:
            self.ask_to_kill()
            return
        if (stopped := self._session.stop()) is not None:
            self._last_stop = time.monotonic()
            if stopped == "cell":
                self._app.set_timer(REACTION_S, self._offer_kill)

    def ask_to_kill(self) -> None:
        from mahtab_tui.tui.screens.dialog import confirm

        question = "Kill the kernel? Variables that are not saved are lost; the transcript stays."
        confirm(self._app, question, self._session.kernel_control.kill, yes="Kill", no="Wait")

    def _offer_kill(self) -> None:
        if self._session.cells.running:
            self._last_stop = time.monotonic()
            self._app.notify(
                "The cell is still running. Stop it again within two seconds to kill the kernel; you are asked first.",
                "warning",
            )


STOP_KEY = "ctrl+s"
"""Stops the cell instead of detaching it."""

KEY_REPEAT_S = 0.3
DRAFT_PAUSE_S = 1.0
"""Seconds after the last change until the text in the editor is saved."""


class QuitFlow:
    """Asks once before quitting would lose something; the next key answers."""

    def __init__(
        self,
        app: TerminalApp[int],
        session: Session,
        panes: Panes,
        *,
        keeps_namespace: bool,
        forget_draft: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            app: the application to leave.
            session: what runs there, and may be lost.
            panes: show the question.
            keeps_namespace: whether the variables are saved with the session.
            forget_draft: called when the user leaves.
        """
        self._app = app
        self._forget_draft = forget_draft
        self._session = session
        self._panes = panes
        self._keeps_namespace = keeps_namespace
        self._pressed = -math.inf
        self._confirmed = False
        """Whether this key answers the question."""
        self.row: LeaveRow | None = None

    def leave(self) -> None:
        now = time.monotonic()
        repeated, self._pressed = now - self._pressed < KEY_REPEAT_S, now
        answered = (self._confirmed or self.row is not None) and not repeated
        unsaved, can_detach = [] if answered else self._unsaved_items(), self._cell_can_detach()
        if answered or not (unsaved or can_detach):
            self._exit()
        elif self.row is None:
            from mahtab_tui.tui.widgets.question_rows import LeaveRow

            bindings = (active.binding for active in self._app.active_bindings.values())
            keys = [self._app.get_key_display(each) for each in bindings if each.id == "quit"]
            self.row = LeaveRow(unsaved, can_detach, keys[0] if keys else "The same key")
            self._app.screen.mount(self.row)

    def switch_to(self, session: str) -> None:
        """Ask whether to leave this session for another one."""
        from mahtab_tui.tui.screens.dialog import confirm

        lost = self._unsaved_items()
        losing = f" You would lose {', '.join(lost)}." if lost else ""
        continuing = " The running cell continues." if self._cell_can_detach() else ""

        def go() -> None:
            self._app.next_session = session
            self._exit()

        question = f"Switch to session {session}? This session is saved, and /sessions returns to it.{continuing}{losing}"
        confirm(self._app, question, go, yes="Switch", no="Stay")

    def quit_from_cell(self) -> None:
        if self._session.agent.in_turn:
            self.leave()
        else:
            self._app.exit(0)

    def answer_key(self, key: str = "") -> bool:
        """Close the question; returns whether the key must do nothing else."""
        self._confirmed = self.row is not None
        if self.row is not None:
            self.row.remove()
            self.row = None
        if self._confirmed and key == STOP_KEY and self._cell_can_detach():
            self._app.exit(0)
            return True
        return self._confirmed and key == "escape"

    def _exit(self) -> None:
        self._forget_draft()
        self._app.leaves_kernel = self._cell_can_detach()
        self._app.exit(0)

    def _cell_can_detach(self) -> bool:
        return self._session.cells.running and self._session.kernel.can_detach

    def _unsaved_items(self) -> list[str]:
        session, items = self._session, []
        if session.cells.running and not self._cell_can_detach():
            items.append("the running cell")
        if session.agent.in_turn:
            items.append("the unfinished answer")
        if queued := self._panes.queued:
            items.append(f"{queued} queued {'input' if queued == 1 else 'inputs'}")
        if session.notebook is not None and session.notebook.unsaved:
            items.append(f"the unsaved changes of {session.notebook.label}")
        if self._panes.editor.text.strip():
            items.append("the text in the editor")
        created = 0 if self._keeps_namespace else self._panes.namespace.variables.created_count
        if names := session.namespace_store.count_unsaved(created) if created else 0:
            items.append(f"{names:,} {'name' if names == 1 else 'names'} of the namespace")
        return items


LONG_CELL_S = 10.0
LEAVING_WORDS = ("exit", "quit")
"""With or without parentheses. They are not sent to the kernel, because it may be busy."""


def style_sheets() -> list[Path]:
    folder = resource_folder("styles")
    first = folder / "app.tcss"
    return [first, *sorted(path for path in folder.glob("*.tcss") if path != first)]


class MahtabApp(TerminalApp[int]):
    TITLE = "mahtab"
    BINDINGS = bindings(COMMANDS)

    panes: Panes
    command_context: CommandContext

    def __init__(
        self,
        session: Session,
        guard: StdioRedirect,
        history: History,
        *,
        collector: Collector | None = None,
        keeps_namespace: bool = False,
    ) -> None:
        self.ui_state = UiState.load()
        theme = session.settings.theme or self.ui_state.theme
        super().__init__(css_path=list(style_sheets()), guard=guard, theme=theme)
        self._collector = collector
        self._after_first_picture: list[Callable[[], None]] = []
        self.session = session
        self.record_pump = RecordPump(self)
        session.listen(self.record_pump.begin)
        self.saves_crash = not session.no_trace
        self.history = history
        self.call_after_first_picture(lambda: self.ui_state.remember_model(session.model))
        if session.settings.kernel is not None:
            self.ui_state.remember_kernel(session.settings.kernel)
        self.settings = LiveSettings(self, session, self.ui_state)
        self.keeps_namespace = keeps_namespace
        self._window_focused = True
        self._keys = KeyOrder(self, super().on_event, self._before_key)
        self._overlay: Overlay | None = None
        self._draft_file: DraftFile | None = None
        self._drawn = False

    def call_after_first_picture(self, callback: Callable[[], None]) -> None:
        """Call something once the screen is drawn; only before `run`."""
        self._after_first_picture.append(callback)

    def get_default_screen(self) -> Panes:
        port = SessionPort(self, self.session)
        self.panes = Panes(self.session, port, self.history, self.ui_state)
        self._drafts = Fetcher(self.panes, at_once=1)
        self.command_context = CommandContext(
            self,
            self.session,
            self.history,
            self.ui_state,
            self.panes,
            Interrupter(self, self.session),
            QuitFlow(
                self,
                self.session,
                self.panes,
                keeps_namespace=self.keeps_namespace,
                forget_draft=self.forget_draft,
            ),
            self.settings,
        )
        return self.panes

    def compose(self) -> ComposeResult:
        return self.panes.parts()

    def on_mount(self) -> None:
        self.settings.apply()
        self.panes.resume(self.session.past)
        self._greeter = Greeter(self.session, self.panes)
        self._greeter.greet()
        self.panes.begin()
        steps = [
            self.session.build,
            self._collector.settle if self._collector else lambda: None,
            self._show_transcript,
            self._fold_records,
            self._report_history,
            self._restore_draft,
            self.settings.report_unknown_settings,
            *self._after_first_picture,
            self.session.start,
        ]
        LateImports(self, SESSION_MODULES, steps).begin()

    def _show_transcript(self) -> None:
        self._drawn = True
        self.panes.transcript  # noqa: B018 (makes it)

    def _restore_draft(self) -> None:
        """Bring back the text that was in the editor when an earlier screen was killed."""
        from mahtab_tui.tui.editor.draft_file import DraftFile

        self._draft_file = DraftFile(self.session)
        if not self.session.past or not self.editor.is_empty:
            return
        if draft := self._draft_file.read():
            self.editor.put(draft.mode, draft.text)

    @on(TextArea.Changed, "#code")
    def _save_draft_soon(self) -> None:
        if self._draft_file is None:
            return
        from mahtab_tui.tui.editor.draft_file import SavedDraft

        draft = SavedDraft(mode=self.editor.mode, text=self.editor.text)
        write = partial(self._draft_file.write, draft)
        self._drafts.ask("draft", write, lambda _: None, pause=DRAFT_PAUSE_S)

    def forget_draft(self) -> None:
        """Remove the saved draft, because the user leaves."""
        if self._draft_file is not None:
            from mahtab_tui.tui.editor.draft_file import SavedDraft

            self._drafts.forget("draft")
            self._draft_file.write(SavedDraft(mode="python", text=""))

    async def _fold_records(self) -> None:
        self.record_pump.folds = [
            *self.panes.folds(),
            self._ring_bell,
            self._greeter.fold,
            *await self.panes.mount_prompt_rows(),
        ]
        self.record_pump.start()

    def on_unmount(self) -> None:
        IMPORTS.screen_ends()

    @property
    def editor(self) -> EditorPane:
        return self.panes.editor

    def action_command(self, id: str, argument: str = "") -> None:
        BY_ID[id].run(self.command_context, argument)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "command":
            return BY_ID[str(parameters[0])].available(self.command_context)
        return super().check_action(action, parameters)

    async def run_action(self, action: str | ActionParseResult, *args: Any, **kwargs: Any) -> bool:
        """Run fewer commands over screens; `check_action` would empty the footer below them."""
        command = BY_ACTION.get(action) if isinstance(action, str) else None
        if command is not None and self.panes.is_covered:
            asks = getattr(self.screen, "asks", False)
            if not (command.over_questions if asks else command.over_screens):
                return False
        return await super().run_action(action, *args, **kwargs)

    @on(EditorPane.Submitted)
    def _submitted(self, message: EditorPane.Submitted) -> None:
        mode = message.mode
        text = message.text
        replaces = message.replaces
        if mode == "python" and not replaces and self._asks_to_leave(text):
            self.command_context.quit_flow.leave()
            return

        slash = parse_slash(text)
        in_notebook = replaces.startswith("place ")
        # In Python mode, any other text after a slash gets Python's own error.
        if slash is not None and (mode == "ask" or slash[0] in BY_SLASH):
            self._run_slash(*slash)
        elif replaces and not in_notebook and not self.session.replace(replaces, mode, text):
            self.notify("Busy: wait, or press Esc, then enter this again.", "warning")
            self.editor.begin_replacing(replaces, mode, text)
        else:
            if in_notebook and mode == "python":
                number = int(replaces.removeprefix("place "))
                run_notebook(self, self.session, lambda notebook: notebook.run(number, text))
            elif not replaces or in_notebook:
                self.session.submit(mode, text, joins=mode == "ask")
            self.panes.transcript.action_scroll_end()
        self._report_history()

    def _asks_to_leave(self, code: str) -> bool:
        """Return whether code is `exit`, and not a variable of that name."""
        word = code.strip().removesuffix("()")
        return word in LEAVING_WORDS and word not in self.panes.namespace.variables

    @on(EditorPane.EmptySubmitted)
    def _run_held_cells(self) -> None:
        self.session.inbox.release()

    def _run_slash(self, name: str, argument: str) -> None:
        command = BY_SLASH.get(name)
        entered = f"/{name} {argument}".rstrip()
        if command is None:
            self.command_context.refuse(f"There is no command /{name}. F1 lists them.", entered)
        elif argument and not command.argument:
            self.command_context.refuse(f"/{name} takes no argument.", entered)
        else:
            self.call_later(command.run, self.command_context, argument)

    @on(EditorPane.ModeChanged)
    def _mode_changed(self, message: EditorPane.ModeChanged) -> None:
        if message.mode == "ask":
            self.session.agent.warm_up()

    @on(EditorPane.LeaveRequested)
    async def action_quit(self) -> None:
        self.command_context.quit_flow.leave()

    # The prompt rows are loaded after the first picture, so their messages are handled by name.

    def on_approval_row_decided(self, message: ApprovalRow.Decided) -> None:
        if message.rules:
            self.settings.add_rules(message.rules)
        self._decide(message, message.code)

    def on_review_row_decided(self, message: ReviewRow.Decided) -> None:
        self._decide(message)

    def _decide(
        self, message: ApprovalRow.Decided | ReviewRow.Decided, code: str | None = None
    ) -> None:
        from mahtab_tui.bus.records import Decision

        decision = Decision(message.action, code, message.reason)
        self.session.approvals.answer(message.request, decision)
        self.editor.focus()

    def on_fan_out_row_answered(self, message: FanOutRow.Answered) -> None:
        self.session.searches.answer(message.request, message.run)

    def on_input_row_answered(self, message: InputRow.Answered) -> None:
        self.session.host.inputs.answer(message.request, message.text)

    def on_queue_row_cancelled(self, message: QueueRow.Cancelled) -> None:
        item = self.session.inbox.cancel(message.item_id)
        if item is not None and not item.party and self.editor.is_empty:
            self.editor.text = item.text

    def on_queue_row_when_chosen(self, message: QueueRow.WhenChosen) -> None:
        self.session.inbox.set_joins(message.item_id, message.joins)

    def on_action_menu_typed(self, message: ActionMenu.Typed) -> None:
        self.panes.focus_code()
        for key in message.keys:
            self.panes.query_one("#code").post_message(key)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key | Paste) and not event.is_forwarded and self.screen_stack:
            if not self.panes.is_covered and self.focused is None:
                self.panes.focus_code()
            await self._keys.enqueue(event)
        else:
            await super().on_event(event)

    def _before_key(self, event: Key | Paste) -> bool:
        key = event.key if isinstance(event, Key) else ""
        handled = self.command_context.quit_flow.answer_key(key)
        if self._is_for_editor(event):
            self.panes.focus_code()
        return handled

    def _is_for_editor(self, event: Key | Paste) -> bool:
        from mahtab_tui.tui.widgets.prompt_row import Chips

        focused = self.focused
        if (
            self.panes.is_covered
            or isinstance(focused, Input | TextArea | Chips | None)
            or (isinstance(focused, NamespacePane) and focused.filtering)
        ):
            return False
        return isinstance(event, Paste) or (
            event.is_printable and event.key != "space" and not event.key.startswith("alt+")
        )

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if renderable is not None and self._drawn:
            from mahtab_tui.tui.pictures import Overlay, visible_parts

            if self._overlay is None:
                self._overlay = Overlay(self)
            self._overlay.prepare_update(list(visible_parts(screen)), renderable)
        super()._display(screen, renderable)

    def mask(self, text: str) -> str:
        return self.session.mask(text)

    def _report_history(self) -> None:
        if self.history.problem:
            self.session.notice(self.history.problem, "warning")
            self.history.problem = ""

    def on_app_focus(self, event: AppFocus) -> None:
        self._window_focused = True

    def on_app_blur(self, event: AppBlur) -> None:
        self._window_focused = False

    def _ring_bell(self, new: Sequence[Record]) -> None:
        from mahtab_tui.bus import records

        if self._window_focused:
            return
        for record in new:
            match record:
                case records.ReplOut(duration=seconds) if (seconds or 0) >= LONG_CELL_S:
                    self.bell()
                case records.Approval() | records.Review() | records.SearchFanOut():
                    if record.state == "waiting":
                        self.bell()

    def watch_theme(self, theme: str) -> None:
        self.ui_state.theme = theme
