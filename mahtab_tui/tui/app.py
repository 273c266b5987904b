"""The application: it passes typed input to the session, and the session's records to the panes.

The panes (`main_screen.Panes`) and the screens draw; `tui.commands` has what each command does;
`TerminalApp` has what concerns the terminal. Here stand the start, the order in which keys act, and a
handler for each message by which a pane asks for something that it cannot do itself.

Functions import what the first picture does not need, so that it appears sooner. Most of these
modules are loaded right after it (`terminal_app.SESSION_MODULES`).
"""

from __future__ import annotations

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
from mahtab_tui.session.open_session import SessionInputHelp, parse_slash
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.store.input_history import History
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.commands import (
    BY_ACTION,
    BY_ID,
    BY_SLASH,
    COMMAND_IDS,
    COMMANDS,
    complete_slash,
)
from mahtab_tui.tui.commands.command import CommandContext
from mahtab_tui.tui.commands.declarations import bindings
from mahtab_tui.tui.commands.session import run_notebook
from mahtab_tui.tui.editor import EditorPane
from mahtab_tui.tui.editor.pane import SHELL_PREFIX
from mahtab_tui.tui.greeting import greeting_lines
from mahtab_tui.tui.key_order import KeyOrder
from mahtab_tui.tui.key_parser import character_with_alt
from mahtab_tui.tui.live_settings import LiveSettings
from mahtab_tui.tui.main_screen import Panes
from mahtab_tui.tui.messages import (
    AskToRename,
    EditInput,
    HideEntry,
    MarkPrivate,
    MentionInQuestion,
    OpenScreen,
    RebuildVariable,
    ReplaceInput,
    RunCode,
    RunInput,
    RunNotebookCell,
    TypeInEditor,
)
from mahtab_tui.tui.namespace.pane import NamespacePane
from mahtab_tui.tui.navigation import Navigation
from mahtab_tui.tui.terminal_app import (
    SESSION_MODULES,
    Collector,
    LateImports,
    RecordPump,
    TerminalApp,
)
from mahtab_tui.tui.terminal_driver import StdioRedirect
from mahtab_tui.tui.ui_state import UiState

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.settings.model import EditorKeys
    from mahtab_tui.tui.editor.draft_file import DraftSaver
    from mahtab_tui.tui.pictures.overlay import Overlay
    from mahtab_tui.tui.widgets.approval_row import ApprovalRow
    from mahtab_tui.tui.widgets.fan_out_row import FanOutRow
    from mahtab_tui.tui.widgets.input_row import InputRow
    from mahtab_tui.tui.widgets.queue_row import QueueRow
    from mahtab_tui.tui.widgets.review_row import ReviewRow

REDO = "/redo"
"""The command that takes an undo or a rewind back."""
EXIT_NAMES = ("exit", "quit")
"""Inputs that leave the program, with or without parentheses. They are not sent to the kernel, which
may be busy."""


def style_sheets() -> list[Path]:
    """Return our style sheets; that of the application comes first, so that others may override it."""
    folder = resource_folder("styles")
    app_sheet = folder / "app.tcss"
    other_sheets = sorted(path for path in folder.glob("*.tcss") if path != app_sheet)
    return [app_sheet, *other_sheets]


class MahtabApp(TerminalApp[int]):
    """The application with the panes of a session."""

    TITLE = "mahtab"
    BINDINGS = bindings(COMMANDS)

    panes: Panes
    command_context: CommandContext

    def __init__(
        self,
        session: Session,
        stdio_redirect: StdioRedirect,
        history: History,
        *,
        collector: Collector | None = None,
        keeps_namespace: bool = False,
    ) -> None:
        """
        Args:
            session: The session. The application starts it, unless another interface has done so.
            stdio_redirect: Has the terminal's descriptors.
            history: The inputs of all sessions.
            collector: Decides when garbage is collected; None leaves that to Python.
            keeps_namespace: Whether the variables are saved with the session.
        """
        self.ui_state = UiState.load()
        theme = session.settings.theme or self.ui_state.theme
        super().__init__(css_path=list(style_sheets()), stdio_redirect=stdio_redirect, theme=theme)
        self.session = session
        self.history = history
        self.keeps_namespace = keeps_namespace
        self._collector = collector
        self._session_runs = session.is_started
        """Whether another interface has shown the session until now."""
        self._after_first_picture: list[Callable[[], object]] = []
        self.record_pump = RecordPump(self)
        self._recent_records: Sequence[Record] = ()
        """The records that a running session had before this application."""
        if self._session_runs:
            self._recent_records = self.record_pump.join(session)
        else:
            session.listen(self.record_pump.install)
        self.saves_crash = not session.no_trace
        self.call_after_first_picture(lambda: self.ui_state.remember_model(session.model))
        if session.settings.kernel is not None:
            self.ui_state.remember_kernel(session.settings.kernel)
        self.settings = LiveSettings(
            self, session, self.ui_state, COMMAND_IDS, self._use_editor_keys
        )
        self.navigation = Navigation(self, session, COMMANDS)
        self._rewound_text = ""
        """The input that the last rewind has put into the editor; empty once something was entered."""
        self._window_focused = True
        """Whether the terminal's window has the focus, as far as it tells us."""
        self._keys = KeyOrder(self, super().on_event, self._before_key, self._after_key)
        self._overlay: Overlay | None = None
        """Draws pictures above the text; None until something is drawn."""
        self._drafts: DraftSaver | None = None
        """Set once earlier text is back in the editor; until then, nothing of it is saved."""
        self._is_drawn = False
        """Whether the first picture is on the screen, after which slow modules may be loaded."""

    # The start: first a picture, then, step by step, everything that it does not need

    def call_after_first_picture(self, callback: Callable[[], object]) -> None:
        """Register what is called once the screen is drawn. Only before `run`."""
        self._after_first_picture.append(callback)

    def get_default_screen(self) -> Panes:
        """Make the main screen, and what commands act on."""
        input_help = SessionInputHelp(self.session, complete_slash)
        self.panes = Panes(
            self.session,
            self.history,
            self.ui_state,
            input_help,
            session_runs=self._session_runs,
        )
        self.command_context = CommandContext(
            self,
            self.session,
            self.history,
            self.ui_state,
            self.panes,
            self.navigation,
            self.settings,
            self.keeps_namespace,
            self.forget_draft,
        )
        return self.panes

    def compose(self) -> ComposeResult:
        return self.panes.parts()

    def on_mount(self) -> None:
        self.settings.apply()
        if not self._session_runs:
            self.panes.resume(self.session.past)
        self.panes.greet(greeting_lines(self.session))
        self.panes.arrange_panes()
        # After each step, keys that were typed meanwhile are handled.
        steps: list[Callable[[], object]] = [self.session.build]
        if self._collector is not None:
            steps.append(self._collector.settle)
        steps += [
            self._show_transcript,
            self._fold_records,
            self._report_history,
            self._restore_draft,
            self.settings.report_unknown_settings,
            *self._after_first_picture,
        ]
        if not self._session_runs:
            steps.append(self.session.start)
        LateImports(self, SESSION_MODULES, steps).start()

    def _show_transcript(self) -> None:
        self._is_drawn = True
        self.panes.make_transcript()

    def _restore_draft(self) -> None:
        """Bring back the text that was in the editor when an earlier screen was killed."""
        from mahtab_tui.tui.editor.draft_file import DraftSaver

        self._drafts = DraftSaver(self.session, self.editor, self.panes)
        self._drafts.restore()

    @on(TextArea.Changed, "#code")
    def _save_draft_soon(self) -> None:
        if self._drafts is not None:
            self._drafts.save_soon()

    def forget_draft(self) -> None:
        """Remove the saved draft, because the user leaves."""
        if self._drafts is not None:
            self._drafts.forget()

    async def _fold_records(self) -> None:
        """Let the panes get the session's records from now on."""
        from mahtab_tui.tui.module_hints import MissingModuleHints

        pane_folds = [*self.panes.folds(), *await self.panes.mount_prompt_rows()]
        if self._recent_records:
            for fold in pane_folds:
                fold(self._recent_records)
        self.record_pump.folds = [
            *pane_folds,
            self._call_user,
            MissingModuleHints(self.session, self.panes).fold,
        ]
        collector = self._collector
        if collector is not None:
            self.record_pump.folds.append(lambda records: collector.plan(self))
        self.record_pump.start()

    def on_unmount(self) -> None:
        IMPORTS.screen_ends()

    # Commands

    @property
    def editor(self) -> EditorPane:
        return self.panes.editor

    def _use_editor_keys(self, keys: EditorKeys) -> None:
        self.editor.keys = keys

    def action_command(self, id: str, argument: str = "") -> None:
        """Run a command of `tui.commands`, by its id."""
        BY_ID[id].run(self.command_context, argument)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "command":
            return BY_ID[str(parameters[0])].available(self.command_context)
        return super().check_action(action, parameters)

    async def run_action(self, action: str | ActionParseResult, *args: Any, **kwargs: Any) -> bool:
        """Run an action, but over another screen only a command that may run there.

        `check_action` could refuse it as well, but would empty the footer of the main screen below.
        """
        command = BY_ACTION.get(action) if isinstance(action, str) else None
        if command is not None and self.panes.is_covered:
            is_question = getattr(self.screen, "asks", False)
            is_allowed = command.over_questions if is_question else command.over_screens
            if not is_allowed:
                return False
        return await super().run_action(action, *args, **kwargs)

    # What the user enters

    @on(EditorPane.Submitted)
    def _submitted(self, message: EditorPane.Submitted) -> None:
        """Leave, run a command with a slash or a cell of the notebook, or submit code or a question."""
        from mahtab_tui.bus.entry_names import unrun_cell_position

        text = message.text
        # A rewind puts an input into the editor. To take the rewind back, the user types the command
        # right behind that input, without clearing it first.
        if text == self._rewound_text + REDO:
            text = REDO
        self._rewound_text = ""
        if not message.replaces and self._asks_to_leave(text):
            self.command_context.quit_flow.leave()
            return

        notebook_cell = unrun_cell_position(message.replaces)
        typed_command = parse_slash(text)
        # In Python mode, any other text after a slash gets Python's own error.
        if typed_command is not None and (message.mode == "ask" or typed_command.name in BY_SLASH):
            # What the command logs will stand at the end.
            self.panes.transcript.action_scroll_end()
            self._run_slash(*typed_command)
        elif notebook_cell is not None and message.mode == "python":
            self._run_notebook_cell(notebook_cell, text)
            self._show_newest_entry()
        else:
            self._submit_new(message.mode, text)
        self._report_history()

    def _submit_new(self, mode: Mode, text: str) -> None:
        """Run code, or ask a question; a shell command is code in both modes."""
        if text.startswith(SHELL_PREFIX):
            mode = "python"
        self.session.submit(mode, text, joins=mode == "ask")
        self._show_newest_entry()

    def _show_newest_entry(self) -> None:
        """Scroll to the end of the transcript, also where the side panes cover it."""
        self.panes.close_drawer()
        self.panes.transcript.action_scroll_end()

    def _asks_to_leave(self, code: str) -> bool:
        """Return whether code is `exit`, and not a variable of that name."""
        word = code.strip().removesuffix("()")
        return word in EXIT_NAMES and word not in self.panes.namespace.variables

    @on(EditorPane.EmptySubmitted)
    def _run_held_cells(self) -> None:
        """Run cells that wait because an earlier one has failed."""
        self.session.inbox.release()

    def _run_slash(self, name: str, argument: str) -> None:
        """Run the command that was typed, or say why that is impossible."""
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
        # Loading a model takes seconds, in which the user types the question.
        if message.mode == "ask":
            self.session.agent.warm_up()

    @on(EditorPane.LeaveRequested)
    async def action_quit(self) -> None:
        self.command_context.quit_flow.leave()

    # Answers to the rows that ask something. `on` would need the classes of these rows, which are loaded
    # after the first picture, so Textual finds these handlers by their names.

    def on_approval_row_decided(self, message: ApprovalRow.Decided) -> None:
        if message.rules:
            self.settings.add_rules(message.rules)
        self._decide(message, message.code)

    def on_approval_row_rules_wanted(self, message: ApprovalRow.RulesWanted) -> None:
        rules = self.session.agent.rules.rules_for(message.code)
        message.row.show_rules(message.request, rules)

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

    # What panes ask for

    @on(OpenScreen)
    def _open_screen(self, message: OpenScreen) -> None:
        self.navigation.open(message)

    @on(RunInput)
    def _run_input(self, message: RunInput) -> None:
        if not self._asks_to_type_secret(message.mode, message.text):
            self.session.submit(message.mode, message.text)
            self.panes.transcript.action_scroll_end()

    @on(RunCode)
    def _run_code(self, message: RunCode) -> None:
        self.session.submit("python", message.code)

    @on(RunNotebookCell)
    def _run_cell_again(self, message: RunNotebookCell) -> None:
        self._run_notebook_cell(message.cell_number, message.code)

    def _run_notebook_cell(self, cell_number: int, code: str) -> None:
        run_notebook(self.command_context, lambda notebook: notebook.run(cell_number, code))

    @on(EditInput)
    def _edit_input(self, message: EditInput) -> None:
        if message.keeps_draft:
            self._rewound_text = message.text
            self.editor.end_replacing()
            self.editor.put(message.mode, message.text)
        if not self._asks_to_type_secret(message.mode, message.text):
            self.panes.edit_input(message.mode, message.text)

    def _asks_to_type_secret(self, mode: Mode, text: str) -> bool:
        """If code has a mask where a secret was, let the user type it again, and return True."""
        from mahtab_tui.bus.masking import MASK

        if mode != "python" or MASK not in text:
            return False
        self.notify("A secret in this cell was masked: type it again.", "warning")
        self.panes.edit_input(mode, text)
        return True

    @on(ReplaceInput)
    def _edit_earlier_input(self, message: ReplaceInput) -> None:
        self.editor.begin_replacing(message.entry, message.mode, message.text)
        self.editor.focus()

    @on(MentionInQuestion)
    def _mention(self, message: MentionInQuestion) -> None:
        self.editor.mention(message.target)
        self.editor.focus()

    @on(TypeInEditor)
    def _type_in_editor(self, message: TypeInEditor) -> None:
        self.panes.focus_code()
        for key in message.keys:
            self.panes.query_one("#code").post_message(key)

    @on(HideEntry)
    def _hide_entry(self, message: HideEntry) -> None:
        self.session.entries.hide(message.entry, message.hidden)

    @on(MarkPrivate)
    def _mark_private(self, message: MarkPrivate) -> None:
        self.session.kernel_control.mark_private(message.name, private=message.private)

    @on(AskToRename)
    def _ask_to_rename(self, message: AskToRename) -> None:
        rename = partial(self.panes.namespace.rename, message.name)
        self.navigation.prompt(f"New name for {message.label}", message.label, rename)

    @on(RebuildVariable)
    def _rebuild_variable(self, message: RebuildVariable) -> None:
        """Put the cells that made a variable into the empty editor."""
        code = self.session.variable_history.code_for(message.name)
        if not code:
            advice = "No cell of this session made it."
            self.notify(f"{message.reason} {advice}", "warning")
        elif not self.editor.is_empty:
            advice = "Clear the input first; then Enter here puts the cells that made it there."
            self.notify(f"{message.reason} {advice}", "warning")
        else:
            self._edit_input(EditInput("python", code))
            advice = "The input has the cells that made it: read them, then run them."
            self.notify(f"{message.reason} {advice}")

    # Keys

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key | Paste) or event.is_forwarded or not self.screen_stack:
            await super().on_event(event)
            return
        if self._collector is not None:
            self._collector.note_key()
            self._collector.plan(self)
        if not self.panes.is_covered and self.focused is None:
            self.panes.focus_code()
        # Keys wait for each other, so that each acts on what the one before has done.
        await self._keys.enqueue(event)

    def _before_key(self, event: Key | Paste) -> bool:
        """Move the focus to where a key belongs, and split a key that stands for two.

        Returns:
            Whether the key is handled, so that no widget may get it.
        """
        key = event.key if isinstance(event, Key) else ""
        character = character_with_alt(key)
        if character and self._is_escape_and_character(key):
            self._keys.replace(Key("escape", None), Key(key.removeprefix("alt+"), character))
            return True
        is_handled = self.command_context.quit_flow.begin_key(key)
        if self._is_for_editor(event):
            self.panes.focus_code()
        return is_handled

    def _after_key(self) -> None:
        self.command_context.quit_flow.end_key()

    def _is_escape_and_character(self, key: str) -> bool:
        """Return whether a key with Alt was in fact Escape, quickly followed by a character.

        Most terminals send the same bytes for both. Over a screen, Escape closes the screen, so two
        keys are likelier than one that nothing is bound to.
        """
        if not self.panes.is_covered or key in self.screen.active_bindings:
            return False
        # A key with Alt that nothing is bound to must not close a field in which something is typed.
        return not (isinstance(self.focused, Input) and self.focused.value)

    def _is_for_editor(self, event: Key | Paste) -> bool:
        """Return whether a key types text, although no text field has the focus."""
        from mahtab_tui.tui.widgets.chips import Chips

        focused = self.focused
        if self.panes.is_covered or isinstance(focused, Input | TextArea | Chips | None):
            return False
        if isinstance(focused, NamespacePane) and focused.filtering:
            return False
        if isinstance(event, Paste):
            return True
        # Panes use the space bar themselves.
        return event.is_printable and event.key != "space" and not event.key.startswith("alt+")

    # Pictures, notices, and the terminal's window

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if renderable is not None and self._is_drawn:
            from mahtab_tui.tui.pictures.overlay import Overlay
            from mahtab_tui.tui.pictures.picture import visible_parts

            if self._overlay is None:
                self._overlay = Overlay(self)
            self._overlay.prepare_update(list(visible_parts(screen)), renderable)
        super()._display(screen, renderable)

    def mask(self, text: str) -> str:
        return self.session.mask(text)

    def _report_history(self) -> None:
        """Say once if inputs cannot be saved."""
        if self.history.problem:
            self.session.notice(self.history.problem, "warning")
            self.history.problem = ""

    def on_app_focus(self, event: AppFocus) -> None:
        self._window_focused = True

    def on_app_blur(self, event: AppBlur) -> None:
        self._window_focused = False

    def _call_user(self, new_records: Sequence[Record]) -> None:
        """Let the terminal notify a user who is in another window: a long cell has ended, or the
        program waits for an answer."""
        if self._window_focused or self._driver is None:
            return
        from mahtab_tui.bus.notifications import notification_sequence

        for record in new_records:
            if sequence := notification_sequence(record, self.session.settings.notifications):
                self._driver.write(sequence)

    def watch_theme(self, theme: str) -> None:
        self.ui_state.theme = theme
