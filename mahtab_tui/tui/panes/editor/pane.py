"""The editor's pane: a glyph for the mode, the text, and a line of help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static, TextArea

from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.completion import Complete
from mahtab_tui.tui.panes.editor.completion_list import CompletionList
from mahtab_tui.tui.panes.editor.hint import FindChips, Hint
from mahtab_tui.tui.panes.editor.input_history import Inputs
from mahtab_tui.tui.panes.editor.prompt_area import Draft, PromptArea
from mahtab_tui.tui.slash import SlashCompletions
from mahtab_tui.tui.widgets.find_row import FindRow

if TYPE_CHECKING:
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.store.history import History
    from mahtab_tui.tui.panes.editor.help_card import Explain, HelpCard
    from mahtab_tui.tui.panes.editor.suggestion import Suggest

_GLYPHS: dict[Mode, str] = {"python": "❯", "ask": "◈"}
_PROSE = "This is not Python · F2 asks the model instead"
_IS_PYTHON = "This is Python · F2, then Enter, runs it"
_STRAIGHTEN = "Python does not accept curly quotes · Alt+Q makes them straight"


class EditorPane(Widget):
    """Edits Python or a question; a backtick at the very start switches between them."""

    ALLOW_MAXIMIZE = True

    mode: reactive[Mode] = reactive("python", init=False)

    @dataclass
    class Submitted(Message):
        """Posted when the user enters a complete input."""

        mode: Mode
        text: str
        replaces: str = ""
        """The name of the entry that it replaces."""

    @dataclass
    class ModeChanged(Message):
        mode: Mode

    LeaveRequested = PromptArea.LeaveRequested

    def __init__(
        self,
        history: History,
        complete: Complete | None,
        explain: Explain | None,
        suggest: Suggest | None,
        complete_question: Complete | None,
        chips: FindChips | None,
        slash: SlashCompletions,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._inputs = Inputs(history)
        self._completions = CompletionList()
        self._explain = explain
        self._card: HelpCard | None = None
        """Made when it is first shown."""
        self._area = PromptArea(
            self._completions, self._inputs, complete, complete_question, slash, suggest, id="code"
        )
        self._hint = Hint(chips, id="hint")
        self._replaces = ""
        self._draft = Draft("python", "")
        """From before a replacement began."""
        self._find = FindRow(self._area)

    def compose(self) -> ComposeResult:
        with Horizontal(id="editor-line"):
            yield Static(id="glyph", markup=False)
            yield self._area
        yield self._hint
        yield self._find
        yield self._completions

    def on_mount(self) -> None:
        self._inputs.start()
        self._show_mode()

    def on_unmount(self) -> None:
        self._inputs.close()

    @property
    def text(self) -> str:
        """The text in the editor; setting it can be undone."""
        return self._area.whole_text

    @text.setter
    def text(self, text: str) -> None:
        self._area.recall(text)

    @property
    def is_empty(self) -> bool:
        return not self._area.text

    @property
    def selected_text(self) -> str:
        return self._area.selected_text

    def clear(self) -> None:
        """Empty the editor; undo brings the text back."""
        self._area.clear()
        self._inputs.reset()

    def focus(self, scroll_visible: bool = True) -> EditorPane:
        self._area.focus(scroll_visible)
        return self

    def begin_replacing(self, entry: str, mode: Mode, text: str) -> None:
        """Edit a text that will replace an entry of the transcript; Escape cancels."""
        if not self._replaces:
            self._draft = Draft(self.mode, self.text)
            self._area.draft = self._draft if self.text else None
        self._replaces, self.mode, self.text = entry, mode, text
        self._show_mode()

    def end_replacing(self) -> None:
        """Cancel a replacement, if any, and restore the previous text."""
        if self._replaces:
            self._replaces, self._area.draft = "", None
            self.mode, self.text = self._draft
            self._show_mode()

    def begin_question(self, question: str) -> None:
        """Put a question into the editor, without sending it. The previous text comes back when it
        is sent, or by undo."""
        self.put("ask", question)

    def put(self, mode: Mode, text: str) -> None:
        """Put an input into the editor, without sending it. The mode and the text before come back
        when it is sent."""
        if text not in (self.text, "") and not self._replaces:
            self._area.draft = Draft(self.mode, self.text)
        self.mode, self.text = mode, text

    def mention(self, what: str) -> None:
        """Add a mention to the question in the editor, or begin one."""
        question = self._area.text.rstrip() if self.mode == "ask" else ""
        self.mode, self.text = "ask", f"{question} {what} ".lstrip()

    def toggle_mode(self) -> None:
        """Switch between Python and Ask; the text stays."""
        self.mode = "ask" if self.mode == "python" else "python"

    def watch_mode(self, mode: Mode) -> None:
        if self.is_attached:
            self._show_mode()
            self._look_at_text()
            self.post_message(self.ModeChanged(mode))

    def _show_mode(self) -> None:
        self.set_class(self.mode == "ask", "-ask")
        self._area.python = self.mode == "python"
        self.query_one("#glyph", Static).update(
            Content("↻" if self._replaces else _GLYPHS[self.mode])
        )
        self._hint.show(self.mode, replaces=self._replaces)

    @on(TextArea.Changed, "#code")
    def _look_at_text(self) -> None:
        from mahtab_tui.tui.panes.editor.languages import is_code, is_prose
        from mahtab_tui.tui.panes.editor.pasting import has_curly_quotes

        text = self._area.whole_text
        self._hint.look_at(text if self.mode == "ask" else "")
        if self.mode == "python":
            self._hint.offer(
                _PROSE if is_prose(text) else _STRAIGHTEN if has_curly_quotes(text) else ""
            )
        else:
            self._hint.offer(_IS_PYTHON if is_code(text) else "")

    @on(PromptArea.ModeChanged)
    def _mode_changed(self, message: PromptArea.ModeChanged) -> None:
        message.stop()
        self.mode = message.mode

    def explain(self) -> None:
        """Show signature and docstring of the call at the cursor."""
        if self._area.python:
            self._area.completer.close()
            if self._card is None:
                from mahtab_tui.tui.panes.editor.help_card import HelpCard

                self._card = HelpCard(self._explain)
                self.mount(self._card)
            self._card.ask(
                self._area.text, self._area.cursor_index, self._area.cursor_screen_offset
            )

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and self._card is not None and self._card.display:
            event.stop()
            self._card.close()
        elif event.key == "escape" and self._replaces:
            event.stop()
            self.end_replacing()

    def find(self) -> None:
        self._find.open()

    def suggest(self) -> bool:
        """Ask for a suggestion now; returns False if no model is set for suggestions."""
        if self._area.suggester is not None:
            self._area.suggester.ask(at_once=True)
        return self._area.suggester is not None

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _close_card(self) -> None:
        if self._card is not None:
            self._card.close()

    @on(CompletionList.Picked)
    def _picked(self, message: CompletionList.Picked) -> None:
        message.stop()
        self._area.completer.take(message.item)

    @on(CodeArea.Submitted)
    def _submitted(self, message: CodeArea.Submitted) -> None:
        message.stop()
        replaces, self._replaces = self._replaces, ""
        self.post_message(
            self.Submitted("python" if message.python else "ask", message.text, replaces)
        )
        if replaces:
            self._show_mode()
