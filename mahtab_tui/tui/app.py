"""The application: composes the panes, connects them to the session, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import AppBlur, AppFocus, Event, InputEvent, Key, Paste, Resize
from textual.screen import Screen
from textual.theme import ThemeProvider
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mahtab_tui.bus import tags
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.masking import MASK
from mahtab_tui.search.control import Control
from mahtab_tui.session import Session
from mahtab_tui.session.inbox import Mode
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.store.history import History
from mahtab_tui.tui.attention import Attention, notification
from mahtab_tui.tui.choices import Choices
from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.collector import EVERY, Collector
from mahtab_tui.tui.commands import bindings
from mahtab_tui.tui.drain import RATE, Drain
from mahtab_tui.tui.graphics.drawn import Drawn
from mahtab_tui.tui.guard import ScreenGuard
from mahtab_tui.tui.key_order import KeyOrder
from mahtab_tui.tui.offer_actions import OfferActions
from mahtab_tui.tui.palette import CommandProvider, Palette
from mahtab_tui.tui.pane_actions import PaneActions
from mahtab_tui.tui.panes.editor import EditorPane
from mahtab_tui.tui.panes.namespace import NamespacePane
from mahtab_tui.tui.panes.search_tree import RecursionPane
from mahtab_tui.tui.panes.transcript import TranscriptPane
from mahtab_tui.tui.screens.action_menu import ActionMenu
from mahtab_tui.tui.skill_actions import SkillActions
from mahtab_tui.tui.slash import parse_slash
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, role_variables
from mahtab_tui.tui.widgets.approval_row import ApprovalRow
from mahtab_tui.tui.widgets.chips import Chips
from mahtab_tui.tui.widgets.fan_out_row import FanOutRow
from mahtab_tui.tui.widgets.find_row import FindRow
from mahtab_tui.tui.widgets.header import HeaderBar
from mahtab_tui.tui.widgets.input_row import InputRow
from mahtab_tui.tui.widgets.key_line import KeyLine
from mahtab_tui.tui.widgets.queue_row import QueueRow
from mahtab_tui.tui.widgets.splitter import Splitter


def style_sheets() -> list[Path]:
    """All style sheets, the application's own first."""
    folder = resource_folder("styles")
    first = folder / "app.tcss"
    return [first, *sorted(path for path in folder.glob("*.tcss") if path != first)]


class Panes(Screen[None]):
    """What the application shows when nothing covers it."""

    # Not the first pane, for as long as the editor has to wait for its turn: keys may have been typed already.
    AUTO_FOCUS = "#code"

    def get_focusable_widget_at(self, x: int, y: int) -> Widget | None:
        """Only a text field takes the keys when it is clicked: else the mouse would take the typing away from the editor."""
        widget = super().get_focusable_widget_at(x, y)
        return widget if isinstance(widget, Input | TextArea) else None


class MahtabApp(OfferActions, SkillActions, PaneActions, KeyOrder, Drawn[int]):
    """The full screen over one session."""

    TITLE = "mahtab"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    COMMANDS: ClassVar = {CommandProvider}
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        session: Session,
        guard: ScreenGuard,
        history: History,
        *,
        keymap: dict[str, str] | None = None,
        collector: Collector | None = None,
        namespace_stays: bool = False,
    ) -> None:
        super().__init__(css_path=list(style_sheets()))
        self._collector = collector
        self._after_first_picture: list[Callable[[], None]] = []
        self.session = session
        self.namespace_stays = namespace_stays
        self.guard = guard
        self.history = history
        self.searches: Control = session.searches
        self.choices = Choices.load().with_model(session.model)
        self.keymap_given = keymap or {}
        self.attention = Attention(self._call_back)
        for theme in (MAHTAB, MAHTAB_DAY):
            self.register_theme(theme)
        self.theme = self._known_theme(session.settings.theme or self.choices.theme)

    def call_after_first_picture(self, callback: Callable[[], None]) -> None:
        """To be called before `run`."""
        self._after_first_picture.append(callback)

    def get_default_screen(self) -> Panes:
        return Panes(id="_default")

    def compose(self) -> ComposeResult:
        yield HeaderBar(id="header")
        with Horizontal(id="body"):
            with Vertical(id="main"):
                yield (transcript := TranscriptPane(id="transcript"))
                yield FindRow(transcript, id="transcript-find")
                yield ApprovalRow(lambda: self.editor.is_empty, self.sees_code)
                with Vertical(id="lower"):
                    yield FanOutRow(lambda: self.editor.is_empty)
                    yield InputRow()
                    yield QueueRow()
                    yield EditorPane(
                        self.history, self.session.complete, self.session.explain, self.session.suggest, self.session.preview, id="editor"
                    )
            yield Splitter("vertical", id="side-splitter")
            with Vertical(id="side"):
                yield NamespacePane(id="namespace")
                yield Splitter("horizontal", id="namespace-splitter")
                yield (recursion := RecursionPane(self.searches, id="recursion"))
                yield FindRow(recursion.finder, id="recursion-find")
        yield KeyLine()

    def on_mount(self) -> None:
        self.set_keymap(self.keymap_given)
        self.set_pictures()
        self.drain = Drain(
            [
                self.query_one(HeaderBar).fold,
                self.query_one(TranscriptPane).fold,
                self.query_one(ApprovalRow).fold,
                self.query_one(FanOutRow).fold,
                self.query_one(InputRow).fold,
                self.query_one(QueueRow).fold,
                self.query_one(NamespacePane).fold,
                self.query_one(RecursionPane).fold,
                self.attention.fold,
                self.fold_offers,
            ]
        )
        # Of a resumed session what was said, searched and paid comes back: not its namespace, nor what waited in it.
        self.query_one(TranscriptPane).fold(self.session.past)
        self.query_one(RecursionPane).fold(self.session.past)
        self.query_one(RecursionPane).end()
        self.query_one(HeaderBar).fold([record for record in self.session.past if record.tag in (tags.USAGE, tags.SKILL)])
        self.watch(self.query_one(HeaderBar), "waits", lambda: self.refresh_bindings(), init=False)
        self.watch(self.query_one(TranscriptPane), "room", self._tell_code_of_room)
        self.session.log.addHandler(self.drain.handler)
        self.set_interval(RATE, self.drain.tick)
        self.greet()
        self.apply_layout()
        self.watch(self.query_one(RecursionPane), "searched", lambda: self.apply_layout(), init=False)
        self.fit_heights_from_now_on()
        self.editor.focus()
        for callback in (*self._after_first_picture, self.session.start):
            self.call_after_refresh(callback)
        self._tell_of_history()
        self.tell_of_settings()
        if self._collector is not None:
            self.call_after_refresh(self._collector.settle)
            self.set_interval(EVERY, self._collector.tick)

    @property
    def editor(self) -> EditorPane:
        return self.query_one(EditorPane)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    # What the panes say

    @on(EditorPane.Submitted)
    def _submitted(self, message: EditorPane.Submitted) -> None:
        command = parse_slash(message.text) if message.mode == "ask" else None
        if command is not None:
            self.run_slash(*command)
        elif not message.replaces:
            self._submit(message.mode, message.text)
        elif self.session.replace(message.replaces, message.mode, message.text):
            self.query_one(TranscriptPane).action_scroll_end()
        else:
            self.tell("Something is at work: wait until it has ended, or stop it. Then enter this again.", "warning")
            self.editor.begin_replacing(message.replaces, message.mode, message.text)
        self._tell_of_history()

    @on(EditorPane.ModeChanged)
    def _mode_changed(self, message: EditorPane.ModeChanged) -> None:
        self.set_class(message.mode == "ask", "-ask")
        if message.mode == "ask":
            self.session.agent.warm_up()

    @on(EditorPane.LeaveRequested)
    async def _leave_requested(self) -> None:
        await self.action_quit()

    @on(ApprovalRow.Decided)
    def _decided(self, message: ApprovalRow.Decided) -> None:
        self.session.decide(message.request, Decision(message.action, message.code, message.reason))
        self.editor.focus()

    @on(FanOutRow.Answered)
    def _fan_out_answered(self, message: FanOutRow.Answered) -> None:
        self.searches.answer(message.request, message.run)

    @on(InputRow.Answered)
    def _answered(self, message: InputRow.Answered) -> None:
        self.session.answer_input(message.request, message.text)

    @on(QueueRow.Cancelled)
    def _cancelled(self, message: QueueRow.Cancelled) -> None:
        item = self.session.cancel(message.item_id)
        if item is not None and not item.party and self.editor.is_empty:
            self.editor.text = item.text

    def action_edit_input(self) -> None:
        # Not within the key's own event: the screen would not be drawn anew.
        self.call_later(self._edit_input)

    def _edit_input(self) -> None:
        from mahtab_tui.tui.external_editor import edited

        try:
            self.editor.text = edited(self, self.editor.text, ".py" if self.editor.mode == "python" else ".md")
        except RuntimeError as error:
            self.tell(str(error), "warning")
        self.editor.focus()

    @on(TranscriptPane.Again)
    def _again(self, message: TranscriptPane.Again) -> None:
        masked = message.mode == "python" and MASK in message.text
        if masked:
            self.tell("There was a secret in this cell, which is not kept: write it in again.", "warning")
        if message.edit or masked:
            self.editor.end_replacing()
            self.editor.mode, self.editor.text = message.mode, message.text
            self.editor.focus()
        else:
            self._submit(message.mode, message.text)

    def _submit(self, mode: Mode, text: str) -> None:
        """Enter what the person has written; they will want to see what comes of it."""
        self.session.submit(mode, text)
        self.query_one(TranscriptPane).action_scroll_end()

    @on(TranscriptPane.Mentioned)
    def _mentioned(self, message: TranscriptPane.Mentioned) -> None:
        self.editor.mention(message.text)
        self.editor.focus()

    @on(TranscriptPane.Copied)
    def _copied(self, message: TranscriptPane.Copied) -> None:
        copy(self, message.text)

    @on(TranscriptPane.Replacing)
    def _replacing(self, message: TranscriptPane.Replacing) -> None:
        self.editor.begin_replacing(message.entry, message.mode, message.text)
        self.editor.focus()

    @on(TranscriptPane.Pinned)
    def _pinned(self, message: TranscriptPane.Pinned) -> None:
        self.session.pin(message.entry, message.pinned)

    @on(TranscriptPane.OutputOpened)
    def _output_opened(self, message: TranscriptPane.OutputOpened) -> None:
        from mahtab_tui.tui.screens.output import PagerScreen

        session, cell = self.session, message.cell
        self.push_screen(PagerScreen(cell, lambda: session.output(cell), session.look(), Path(session.kernel.info().cwd)))

    @on(TranscriptPane.PicturesOpened)
    def _pictures_opened(self, message: TranscriptPane.PicturesOpened) -> None:
        from mahtab_tui.tui.screens.output import PicturesScreen
        from mahtab_tui.tui.screens.output.pictures import Picture

        pictures = [Picture(*each) for each in message.pictures]
        self.push_screen(PicturesScreen(message.cell, pictures, self.session.look(), Path(self.session.kernel.info().cwd)))

    @on(TranscriptPane.FramesOpened)
    def _frames_opened(self, message: TranscriptPane.FramesOpened) -> None:
        from mahtab_tui.tui.screens.output import FramesScreen

        cell, code = message.cell, self.query_one(TranscriptPane).code_of_cell
        assert cell.number is not None
        folder = Path(self.session.kernel.info().cwd)
        self.push_screen(FramesScreen(cell.number, cell.exception, cell.frames, message.at, code, self.session.look(), folder))

    @on(TranscriptPane.Hidden)
    def _hidden(self, message: TranscriptPane.Hidden) -> None:
        self.session.hide(message.entry, message.hidden)

    @on(TranscriptPane.FindWanted)
    def _find_wanted(self) -> None:
        self.query_one("#transcript-find", FindRow).open()

    @on(TranscriptPane.Refused)
    def _refused(self, message: TranscriptPane.Refused) -> None:
        self.tell(message.sentence)

    @on(NamespacePane.Opened)
    def _opened(self, message: NamespacePane.Opened) -> None:
        from mahtab_tui.tui.screens.inspector import InspectorScreen

        self.push_screen(InspectorScreen(message.name, self.session.look(), lambda code: self.session.submit("python", code)))

    @on(NamespacePane.Asked)
    def _variable_asked(self, message: NamespacePane.Asked) -> None:
        from mahtab_tui.tui.panes.namespace.variable_actions import VariableActions

        actions = VariableActions(self, lambda code: self.session.submit("python", code), self.query_one(NamespacePane).has)
        {"rename": actions.rename, "delete": actions.delete, "copy": actions.copy_name}[message.what](message.name)

    @on(Splitter.Dragged)
    def _dragged(self, message: Splitter.Dragged) -> None:
        self.drag_splitter(message)

    def action_command_palette(self) -> None:
        self.push_screen(Palette(id="--command-palette"))

    def search_themes(self) -> None:
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

    # What the terminal says

    def _tell_code_of_room(self, room: tuple[int, int]) -> None:
        """Programs, pip and pandas lay their output out for the width that it is shown at."""
        if any(room):
            self.session.kernel.set_size(*room)

    def on_resize(self, event: Resize) -> None:
        self.apply_layout(event.size)

    async def on_event(self, event: Event) -> None:
        if self._collector is not None and isinstance(event, InputEvent):
            self._collector.key()
        if isinstance(event, Key | Paste) and not event.is_forwarded and len(self.screen_stack) == 1 and self.focused is None:
            # At once, so that no key that is pressed later overtakes this one.
            self.screen.set_focus(self.query_one("#code"))
        await super().on_event(event)

    def before_key(self, event: Key | Paste) -> bool:
        """Takes the question before leaving away: the key answers it. Gives what is typed to the editor."""
        self.leaving_confirmed = self.leave_row is not None
        if self.leave_row is not None:
            self.leave_row.remove()
            self.leave_row = None
        if self._is_for_editor(event):
            self.screen.set_focus(self.query_one("#code"))
        return self.leaving_confirmed and isinstance(event, Key) and event.key == "escape"

    def _is_for_editor(self, event: Key | Paste) -> bool:
        """Whether something is typed or pasted while no text field and no question has the focus. A blank is a key of the panes."""
        focused = self.focused
        if len(self.screen_stack) > 1 or focused is None or isinstance(focused, Input | TextArea | Chips):
            return False
        typed = isinstance(event, Paste) or (event.is_printable and event.key != "space")
        return typed and not (isinstance(focused, NamespacePane) and focused.filtering)

    @on(ActionMenu.Typed)
    def _typed_in_menu(self, message: ActionMenu.Typed) -> None:
        code = self.screen_stack[0].query_one("#code")
        self.screen_stack[0].set_focus(code)
        for key in message.keys:
            code.post_message(key)

    def on_app_focus(self, event: AppFocus) -> None:
        self.attention.focused = True

    def on_app_blur(self, event: AppBlur) -> None:
        self.attention.focused = False

    def mask(self, text: str) -> str:
        return self.session.secrets.mask(text)

    def _tell_of_history(self) -> None:
        """What is wrong with the input history, once."""
        if self.history.problem:
            self.session.notice(self.history.problem, "warning")
            self.history.problem = ""

    def _call_back(self, text: str) -> None:
        self.bell()
        if self.terminal is not None and (sequence := notification(text)):
            self.terminal.send(sequence)

    def _known_theme(self, name: str) -> str:
        return name if name in self.available_themes else MAHTAB.name

    def watch_theme(self, theme: str) -> None:
        self.choices = self.choices.model_copy(update={"theme": theme})
