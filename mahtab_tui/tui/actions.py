"""What each command of the registry does, as the application's `action_*` methods."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.actions import ActionParseResult
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.commands import Command, acts_above
from mahtab_tui.tui.panes.namespace import NamespacePane
from mahtab_tui.tui.panes.search_tree import RecursionPane
from mahtab_tui.tui.panes.transcript import TranscriptPane
from mahtab_tui.tui.pressing import PressGuard
from mahtab_tui.tui.screens.confirm import Confirm
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.widgets.approval_row import ApprovalRow
from mahtab_tui.tui.widgets.fan_out_row import FanOutRow
from mahtab_tui.tui.widgets.input_row import InputRow
from mahtab_tui.tui.widgets.leave_row import LeaveRow
from mahtab_tui.tui.widgets.queue_row import QueueRow

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.store.history import History, HistoryEntry
    from mahtab_tui.tui.choices import Choices
    from mahtab_tui.tui.panes.editor import EditorPane

SECOND_STOP = 2.0
"""Seconds within which stopping again offers to kill the kernel."""

REACTION = 0.4
"""Seconds that a cell has to end before it is told how to kill its kernel."""

HELD = 0.3
"""Seconds within which a key that leaves, pressed again, is taken for one that is held down."""


class SessionActions(PressGuard[int]):
    """Actions on the session and the conversation."""

    session: Session
    history: History
    choices: Choices
    keymap_given: dict[str, str]
    _quit_pressed = -math.inf
    leave_row: LeaveRow | None = None
    """The question before leaving, while it stands."""
    leaving_confirmed = False
    """Whether the key that acts now follows on the question before leaving."""
    namespace_stays: bool
    """The namespace is the caller's, and outlives the screen."""
    _stopped_at = 0.0

    @property
    def editor(self) -> EditorPane:
        raise NotImplementedError

    async def run_action(
        self, action: str | ActionParseResult, default_namespace: DOMNode | None = None, namespaces: Mapping[str, DOMNode] | None = None
    ) -> bool:
        """What a key does to the panes it does only where they are seen, and over a question nothing is opened: not a second one either.

        Not by `check_action`, which would empty the footer under the dialog.
        """
        if isinstance(action, str) and default_namespace in (self, None) and len(self.screen_stack) > 1:
            asks = isinstance(self.screen, CommandPalette) or (isinstance(self.screen, Dialog) and self.screen.asks)
            if not acts_above(action, asks=asks):
                return False
        return await super().run_action(action, default_namespace, namespaces)

    def action_toggle_mode(self) -> None:
        self.editor.toggle_mode()
        self.editor.focus()

    def action_stop(self) -> None:
        """Stop the model or the cell; once more within two seconds offers to kill the kernel."""
        if self.session.cell_runs and time.monotonic() - self._stopped_at < SECOND_STOP:
            self.action_kill_kernel()
            return
        if (stopped := self.session.stop()) is not None:
            self._stopped_at = time.monotonic()
            if stopped == "cell":
                self.set_timer(REACTION, self._tell_of_kill)

    def _tell_of_kill(self) -> None:
        """Of a cell that goes on: what stopping it once more does, from now on."""
        if self.session.cell_runs:
            self._stopped_at = time.monotonic()
            self.tell("The cell goes on. Stop it again within two seconds to kill the kernel; you are asked first.", "warning")

    def action_interrupt_or_copy(self) -> None:
        """Stop what goes on; else copy the selection, else clear the editor, if it is to be seen."""
        if self.session.cell_runs or self.session.turn_runs:
            self.action_stop()
        elif not self.copy_selection() and len(self.screen_stack) == 1:
            self.editor.clear()

    def action_copy(self) -> None:
        if not self.copy_selection():
            self.tell("Nothing is selected.")

    def copy_selection(self) -> bool:
        """Copy what is selected where one types, in the editor or with the mouse; False where nothing is."""
        focused = self.screen.focused
        typed = focused.selected_text if isinstance(focused, Input | TextArea) else ""
        text = typed or (self.editor.selected_text if len(self.screen_stack) == 1 else "") or self.screen.get_selected_text()
        if not text:
            return False
        copy(self, text)
        return True

    async def action_quit(self) -> None:
        """Leave; where something would be lost, ask first, and leave when asked once more. A key that is held down asks once."""
        now = time.monotonic()
        held, self._quit_pressed = now - self._quit_pressed < HELD, now
        asked = self.leaving_confirmed or self.leave_row is not None
        if (asked and not held) or not self._lost():
            self.exit(0)
            return
        if self.leave_row is not None:
            return
        quit_key = next((active.binding for active in self.active_bindings.values() if active.binding.id == "quit"), None)
        self.leave_row = LeaveRow(self._lost, self.get_key_display(quit_key) if quit_key else "The same key")
        self.screen.mount(self.leave_row)

    async def leave_by_code(self) -> None:
        """Leave because a cell called `exit()`: the person's own leaves at once, the model's asks as the key does."""
        if self.session.turn_runs:
            await self.action_quit()
        else:
            self.exit(0)

    def _lost(self) -> list[str]:
        """What leaving would lose."""
        names = 0 if self.namespace_stays else self.screen_stack[0].query_one(NamespacePane).made
        queued = len(self.screen_stack[0].query_one(QueueRow).items)
        return [
            *(["the cell that runs"] if self.session.cell_runs else []),
            *(["the answer that is being written"] if self.session.turn_runs else []),
            *([f"{queued} queued {'input' if queued == 1 else 'inputs'}"] if queued else []),
            *(["what stands in the editor"] if self.editor.text.strip() else []),
            *([f"{names:,} {'name' if names == 1 else 'names'} of the namespace"] if names else []),
        ]

    def action_reset(self) -> None:
        def reset(sure: bool | None) -> None:
            if sure:
                self.session.reset()

        self.push_screen(Confirm("Start over with an empty namespace? The transcript stays.", yes="Reset", no="Keep"), reset)

    def action_kill_kernel(self) -> None:
        def kill(sure: bool | None) -> None:
            if sure:
                self.session.kill_kernel()

        question = "Kill the kernel? All variables are lost; the transcript stays."
        self.push_screen(Confirm(question, yes="Kill", no="Wait"), kill)

    def action_cycle_approval(self) -> None:
        self.session.set_approval("auto" if self.session.approval == "ask" else "ask")

    def action_choose_python(self, value: str = "") -> None:
        self._with_value(value, "Interpreter or virtual environment", self.session.activate, self.session.kernel.info().executable)

    def action_change_directory(self, value: str = "") -> None:
        cwd = self.session.kernel.info().cwd
        self._with_value(value, "Working directory", self.session.change_directory, cwd)

    def action_agents(self) -> None:
        self.session.notice(self.session.guests.sentence())

    def action_pause_agent(self, name: str = "") -> None:
        self.session.notice(self.session.guests.pause(name))

    def action_disconnect_agent(self, name: str = "") -> None:
        self.session.notice(self.session.guests.disconnect(name))

    def action_usage(self) -> None:
        from mahtab_tui.tui.screens.usage import UsageScreen

        self.push_screen(UsageScreen(self.session.spending.table))

    def action_clear(self) -> None:
        self.query_one(TranscriptPane).clear()

    def action_help(self, topic: str = "") -> None:
        from mahtab_tui.manual.pages import NoTopic, page
        from mahtab_tui.tui.screens.help import KEYS, HelpScreen

        try:
            self.push_screen(HelpScreen(self.keymap_given, page(topic or KEYS).topic))
        except NoTopic as error:
            self._refuse(str(error), f"/help {topic}")

    def action_explain(self) -> None:
        self.editor.explain()

    def action_explain_last_error(self) -> None:
        if question := self.query_one(TranscriptPane).question_about_error:
            self.editor.begin_question(question)
            self.editor.focus()
        else:
            self.tell("No cell has failed.")

    def action_suggest(self) -> None:
        if not self.editor.suggest():
            self.tell("No model was chosen for suggestions: set suggestion_model in the configuration.")

    def action_find_input(self) -> None:
        """Find in the input, or in the pane that has the keys."""
        focused = self.focused
        if isinstance(focused, TranscriptPane):
            focused.action_find()
        elif isinstance(focused, NamespacePane):
            focused.action_filter()
        elif isinstance(focused, RecursionPane):
            focused.action_find()
        else:
            self.editor.find()

    def action_history_search(self) -> None:
        from mahtab_tui.tui.screens.history_search import HistorySearch

        def chosen(entry: HistoryEntry | None) -> None:
            if self._exit:  # the key after it has left the application
                return
            if entry is not None:
                self.editor.mode = "ask" if entry.mode == "ask" else "python"
                self.editor.text = entry.text
            self.editor.focus()

        self.push_screen(HistorySearch(self.history), chosen)

    def action_focus_approval(self) -> None:
        """Go to the code that waits; else to a search that asks; else to the line that code asks for."""
        if (asking := self.asking_row) is not None:
            asking.focus()

    @property
    def asking_row(self) -> Widget | None:
        """The row that is to be answered first; None where nothing waits."""
        kinds = (ApprovalRow, FanOutRow, InputRow) if self.screen_stack else ()
        return next((row for kind in kinds for row in self.screen_stack[0].query(kind) if row.display), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The key that goes to what waits is shown while something does."""
        if action == "focus_approval":
            return self.asking_row is not None
        return super().check_action(action, parameters)

    def run_slash(self, command: Command | str, argument: str) -> None:
        """A command entered as ``/name argument`` in Ask mode."""
        if isinstance(command, str):
            self._refuse(f"There is no command /{command}. F1 lists them.", f"/{command} {argument}".rstrip())
        elif argument and not command.argument:
            self._refuse(f"/{command.slash} takes nothing after it.", f"/{command.slash} {argument}")
        elif argument:
            self.call_later(getattr(self, f"action_{command.action}"), argument)
        else:
            self.call_later(self.run_action, command.action)

    def _refuse(self, why: str, text: str) -> None:
        """Say why, and give the person their words back."""
        self.tell(why, "warning")
        if self.editor.is_empty:
            self.editor.text = text

    def tell(self, text: str, severity: str = "information") -> None:
        """A short notification; the text is never read as markup."""
        self.notify(text, severity=severity, markup=False, timeout=3)

    def _with_value(self, value: str, title: str, use: Callable[[str], None], present: str) -> None:
        """Use a value that was given, or ask for one."""
        from mahtab_tui.tui.screens.prompt import Prompt

        if value:
            use(value)
            return

        def chosen(text: str | None) -> None:
            if text:
                use(text)

        self.push_screen(Prompt(title, present), chosen)
