"""The editor's pane: a glyph for the mode, the text, and a line of help.

The text is a `PromptArea`. The pane looks at it after each change, to say what Enter would do, what a
question mentions, and whether the text seems to belong to the other mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.reactive import reactive, var
from textual.widget import Widget
from textual.widgets import Static, TextArea

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.session.open_session import NO_DRAFT, Draft
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.completion_list import CompletionList
from mahtab_tui.tui.editor.prompt_area import InputHistory, PromptArea
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.session.mentions import MentionChip
    from mahtab_tui.settings.model import EditorKeys
    from mahtab_tui.store.input_history import History
    from mahtab_tui.tui.editor.help_card import HelpCard
    from mahtab_tui.tui.editor.input_help import InputHelp

_MODE_HINTS: dict[Mode, str] = {
    "python": "Python · Enter runs · ` asks the model · Ctrl+J new line",
    "ask": "Ask · Enter sends · ` back to Python · Ctrl+J new line · /help",
}
_LINE_HINT = "Python · Enter opens a line · an empty line at the end runs a block"
_MULTILINE_HINTS: dict[Mode, str] = {
    "python": "Python · Enter opens a line · Escape, then Enter, runs",
    "ask": "Ask · Enter opens a line · Escape, then Enter, sends",
}
_MAX_CHECKED_CHARS = 20_000
"""A longer text is not parsed at each key for the hint."""
_CELL_HINT = "Enter runs it as this cell of the notebook · Escape cancels"
_PROSE_OFFER = "This is not Python · F2 asks the model instead"
_PYTHON_OFFER = "This is Python · F2, then Enter, runs it"
_SHELL_OFFER = "Enter runs the shell command instead of asking"
SHELL_PREFIX = "!"
"""Begins a shell command, in Ask mode too."""
_GLYPHS: dict[Mode, str] = {"python": "❯", "ask": "◈"}

MENTIONS_DELAY_S = 0.15
"""Seconds after the last key until what a question mentions is looked up."""


class EditorPosition(NamedTuple):
    """What decides whether Enter runs the code."""

    mode: Mode
    text: str
    cursor: tuple[int, int]
    """The line and the column, from 0."""


class EditorPane(Widget):
    """Edits Python or a question; a backtick at the start switches."""

    ALLOW_MAXIMIZE = True

    mode: reactive[Mode] = reactive("python", init=False)
    replaced_entry: var[str] = var("", init=False)
    """The key of the notebook's cell that Enter runs in its place; empty for a new input."""
    mentions: var[Sequence[MentionChip]] = var((), init=False)
    """What the question mentions."""
    enter_opens_line: var[bool] = var(False, init=False)
    """Whether the Python code is incomplete, or the cursor is within it, so that Enter does not run
    it."""
    offer: var[str] = var("", init=False)
    """Says that the text belongs to the other mode; empty if it does not."""

    @dataclass
    class Submitted(Message):
        """The user has entered an input."""

        mode: Mode
        text: str
        """The input, in which large pasted texts are written out."""
        replaces: str = ""
        """The key of the notebook's cell that it takes the place of; empty for a new input."""

    @dataclass
    class ModeChanged(Message):
        """The editor is in another mode."""

        mode: Mode

    LeaveRequested = PromptArea.LeaveRequested
    EmptySubmitted = PromptArea.EmptySubmitted

    def __init__(
        self, history: History, input_help: InputHelp | None = None, *, id: str | None = None
    ) -> None:
        """
        Args:
            history: The inputs of earlier sessions.
            input_help: Completes and explains the text; None for an editor without such help.
            id: The widget's id.
        """
        super().__init__(id=id)
        self._inputs = InputHistory(history)
        self._completions = CompletionList()
        self._input_help = input_help
        self._card: HelpCard | None = None
        """Made when first needed."""
        self._area = PromptArea(self._completions, self._inputs, input_help)
        self._hint = Static(id="hint", markup=False)
        self._fetcher = Fetcher(self, max_running_jobs=1)
        self._checked_position: EditorPosition | None = None
        """For which `enter_opens_line` holds; None before the first check."""
        self._draft = NO_DRAFT
        """What was in the editor before an entry was to be replaced."""

    def compose(self) -> ComposeResult:
        with Horizontal(id="editor-line"):
            yield Static(id="glyph", markup=False)
            yield self._area
        yield self._hint
        yield self._completions

    def on_mount(self) -> None:
        self._inputs.start()
        self._show_mode()
        self.watch(self._area, "mode_words", self._show_hint, init=False)

    def on_unmount(self) -> None:
        self._inputs.close()

    @property
    def text(self) -> str:
        """The input, in which large pasted texts are written out."""
        return self._area.whole_text

    @text.setter
    def text(self, text: str) -> None:
        self._area.recall(text)

    @property
    def keys(self) -> EditorKeys:
        return self._area.keys

    @keys.setter
    def keys(self, keys: EditorKeys) -> None:
        self._area.keys = keys
        self._show_hint()

    @property
    def redoes_by_key(self) -> bool:
        """Whether Ctrl+R is the key for a redo, as in Vi."""
        return self._area.has_focus and not self._area.is_typing_mode

    @property
    def is_empty(self) -> bool:
        return not self._area.text

    @property
    def is_being_typed_in(self) -> bool:
        """Whether the keys go to the editor, and it has a text."""
        return self._area.has_focus and not self.is_empty

    @property
    def selected_text(self) -> str:
        return self._area.selected_text

    def clear(self) -> None:
        self._area.clear()
        self._inputs.forget_drafts()

    def focus(self, scroll_visible: bool = True) -> EditorPane:
        self._area.focus(scroll_visible)
        return self

    def begin_replacing(self, entry: str, mode: Mode, text: str) -> None:
        """Edit an earlier input, which Enter replaces; the text in the editor comes back after it.

        Args:
            entry: The key of the notebook's cell.
            mode: Whether the input is a cell or a question.
            text: The input.
        """
        if not self.replaced_entry:
            self._draft = Draft(self.mode, self.text)
            self._area.draft = self._draft if self.text else None
        self.replaced_entry = entry
        self.mode = mode
        self.text = text

    def end_replacing(self) -> None:
        """Bring back what was in the editor before an entry was to be replaced."""
        if self.replaced_entry:
            self.replaced_entry = ""
            self._area.draft = None
            self.mode = self._draft.mode
            self.text = self._draft.text

    def put(self, mode: Mode, text: str) -> None:
        """Put an input into the editor; the previous one comes back after it."""
        if text not in (self.text, "") and not self.replaced_entry:
            self._area.draft = Draft(self.mode, self.text)
        self.mode = mode
        self.text = text

    def mention(self, target: str) -> None:
        """Begin a question about something, or add it to the one in the editor.

        Args:
            target: As it is typed, such as ``@cell:3``.
        """
        question = self._area.text.rstrip() if self.mode == "ask" else ""
        self.mode = "ask"
        self.text = f"{question} {target} ".lstrip()

    def toggle_mode(self) -> None:
        self.mode = "ask" if self.mode == "python" else "python"

    def watch_mode(self, mode: Mode) -> None:
        if self.is_attached:
            self._show_mode()
            self._look_at_text()
            self._look_at_cursor()
            self.post_message(self.ModeChanged(mode))

    def watch_replaced_entry(self) -> None:
        if self.is_attached:
            self._show_mode()

    def watch_mentions(self) -> None:
        self._show_hint()

    def watch_offer(self) -> None:
        self._show_hint()

    def watch_enter_opens_line(self) -> None:
        self._show_hint()

    def _show_mode(self) -> None:
        """Show which mode the editor is in, and give it to the text."""
        self.set_class(self.mode == "ask", "-ask")
        self._area.python = self.mode == "python"
        glyph = "↻" if self.replaced_entry else _GLYPHS[self.mode]
        self.query_one("#glyph", Static).update(glyph)
        self._show_hint()

    def _show_hint(self) -> None:
        """Show the mode of Vi, if there is one, before the most urgent hint."""
        hint = self._hint_line()
        words = self._area.mode_words
        if words:
            hint = Content.assemble((plain(words), "bold $highlight"), "  ", hint)
        self._hint.update(hint)

    def _hint_line(self) -> Content:
        """Return the most urgent hint.

        A text that mentions something is a question, so there is no offer to run it.
        """
        if self.offer and not self.mentions:
            return Content.styled(self.offer, "$highlight")
        if self.replaced_entry:
            return Content(_CELL_HINT)
        if self.mentions:
            return self._mentions_line()
        if self.keys == "vim-multiline" and self._area.is_typing_mode:
            return Content(_MULTILINE_HINTS[self.mode])
        return Content(_LINE_HINT if self.enter_opens_line else _MODE_HINTS[self.mode])

    def _mentions_line(self) -> Content:
        """Draw what the question mentions, each with its size."""
        parts: list[tuple[str, str]] = []
        for chip in self.mentions:
            if parts:
                parts.append(("  ", ""))
            label = " ".join(plain(chip.label).split())
            size = " ".join(plain(chip.size).split())
            size_style = "$bad on $panel" if chip.missing else "$muted on $panel"
            parts += [(f" {label} ", "$highlight on $panel"), (f"{size} ", size_style)]
        return Content.assemble(*parts)

    @on(TextArea.Changed, "#code")
    def _look_at_text(self) -> None:
        """Look up what a question mentions, and whether the text belongs to the other mode."""
        from mahtab_tui.bus.typed_text import is_code, is_prose

        text = self._area.whole_text
        if self.mode == "ask":
            self._look_up_mentions(text)
            if text.startswith(SHELL_PREFIX):
                self.offer = _SHELL_OFFER
            else:
                self.offer = _PYTHON_OFFER if is_code(text) else ""
        else:
            self._look_up_mentions("")
            self.offer = _PROSE_OFFER if is_prose(text) else ""

    @on(TextArea.Changed, "#code")
    @on(TextArea.SelectionChanged, "#code")
    def _look_at_cursor(self) -> None:
        """Note whether Enter would run the code, once for each text and cursor."""
        area = self._area
        position = EditorPosition(self.mode, area.text, area.cursor_location)
        if position == self._checked_position:
            return
        self._checked_position = position
        is_code = self.mode == "python" and 0 < len(area.text) <= _MAX_CHECKED_CHARS
        self.enter_opens_line = is_code and not area.may_run()

    def _look_up_mentions(self, question: str) -> None:
        """Look up what a question mentions, after a pause in typing."""
        input_help = self._input_help
        if not question or input_help is None:
            self._fetcher.forget("mentions")
            self.mentions = ()
            return

        def look_up() -> Sequence[MentionChip]:
            # The code for this is loaded after the first picture.
            IMPORTS.wait_for_screen()
            return input_help.mention_chips(question)

        self._fetcher.run("mentions", look_up, self._show_mentions, delay_s=MENTIONS_DELAY_S)

    def _show_mentions(self, mentions: Sequence[MentionChip]) -> None:
        self.mentions = mentions

    @on(PromptArea.ModeChanged)
    def _mode_changed(self, message: PromptArea.ModeChanged) -> None:
        message.stop()
        self.mode = message.mode

    def explain(self) -> None:
        """Show help on what is at the cursor; it closes the list of completions."""
        area = self._area
        if area.python:
            area.completer.close()
            self._ensure_card().ask(area.text, area.cursor_index, area.cursor_screen_offset)

    def _ensure_card(self) -> HelpCard:
        """Return the card with help, and make it if it is not there yet."""
        from mahtab_tui.tui.editor.help_card import HelpCard

        if self._card is None:
            self._card = HelpCard(self._input_help)
            self.mount(self._card, after=self._completions)
        return self._card

    def on_key(self, event: Key) -> None:
        if event.key != "escape":
            return
        if self._card is not None and self._card.display:
            event.stop()
            self._card.close()
        elif self.replaced_entry:
            event.stop()
            self.end_replacing()
        elif self._area.keeps_escape:
            event.stop()

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _close_card(self) -> None:
        """Close the card with help once the text or the cursor is not that of the question."""
        if self._card is None or self._card.asked_position is None:
            return
        # Messages about what was typed before the question arrive after it.
        if self._card.asked_position != (self._area.text, self._area.cursor_index):
            self._card.close()

    @on(CodeArea.Submitted)
    def _submitted(self, message: CodeArea.Submitted) -> None:
        message.stop()
        replaced_entry = self.replaced_entry
        self.replaced_entry = ""
        mode: Mode = "python" if message.python else "ask"
        self.post_message(self.Submitted(mode, message.text, replaced_entry))
