"""The editor's pane: a glyph for the mode, the text, and a line of help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.completion import Complete, CompletionList, Explain, HelpCard
from mahtab_tui.tui.editor.prompt_area import Draft, InputHistory, PromptArea
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session.attachments import MentionChip
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.store.database import History

_KEYS: dict[Mode, str] = {
    "python": "Python · Enter runs · ` asks the model · Ctrl+J new line",
    "ask": "Ask · Enter sends · ` back to Python · Ctrl+J new line · /help",
}
_CHANGING = "Enter runs it as this cell of the notebook · Escape cancels"
_REPLACING = (
    "Enter replaces your earlier input · Escape cancels · later entries leave the conversation"
)
_PROSE = "This is not Python · F2 asks the model instead"
_IS_PYTHON = "This is Python · F2, then Enter, runs it"
_GLYPHS: dict[Mode, str] = {"python": "❯", "ask": "◈"}

FindChips = Callable[[str], "Sequence[MentionChip]"]

PAUSE = 0.15


class EditorPane(Widget):
    """Edits Python or a question; a backtick at the start switches."""

    ALLOW_MAXIMIZE = True

    mode: reactive[Mode] = reactive("python", init=False)

    @dataclass
    class Submitted(Message):
        mode: Mode
        text: str
        replaces: str = ""

    @dataclass
    class ModeChanged(Message):
        mode: Mode

    LeaveRequested = PromptArea.LeaveRequested
    EmptySubmitted = PromptArea.EmptySubmitted

    def __init__(
        self,
        history: History,
        complete: Complete | None,
        explain: Explain | None,
        complete_question: Complete | None,
        chips: FindChips | None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._inputs = InputHistory(history)
        self._completions = CompletionList()
        self._card = HelpCard(explain)
        self._area = PromptArea(self._completions, self._inputs, complete, complete_question)
        self._hint = Static(id="hint", markup=False)
        self._offer = ""
        self._find_chips = chips
        self._chips: Sequence[MentionChip] = ()
        self._fetcher = Fetcher(self, at_once=1)
        self._replaces = ""
        self._draft = Draft("python", "")

    def compose(self) -> ComposeResult:
        with Horizontal(id="editor-line"):
            yield Static(id="glyph", markup=False)
            yield self._area
        yield self._hint
        yield self._completions
        yield self._card

    def on_mount(self) -> None:
        self._inputs.start()
        self._show_mode()

    def on_unmount(self) -> None:
        self._inputs.close()

    @property
    def text(self) -> str:
        return self._area.whole_text

    @text.setter
    def text(self, text: str) -> None:
        self._area.recall(text)

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
        self._inputs.reset()

    def focus(self, scroll_visible: bool = True) -> EditorPane:
        self._area.focus(scroll_visible)
        return self

    def begin_replacing(self, entry: str, mode: Mode, text: str) -> None:
        if not self._replaces:
            self._draft = Draft(self.mode, self.text)
            self._area.draft = self._draft if self.text else None
        self._replaces, self.mode, self.text = entry, mode, text
        self._show_mode()

    def end_replacing(self) -> None:
        if self._replaces:
            self._replaces, self._area.draft = "", None
            self.mode, self.text = self._draft
            self._show_mode()

    def put(self, mode: Mode, text: str) -> None:
        """Put an input into the editor; the previous one comes back after it."""
        if text not in (self.text, "") and not self._replaces:
            self._area.draft = Draft(self.mode, self.text)
        self.mode, self.text = mode, text

    def mention(self, target: str) -> None:
        question = self._area.text.rstrip() if self.mode == "ask" else ""
        self.mode, self.text = "ask", f"{question} {target} ".lstrip()

    def toggle_mode(self) -> None:
        self.mode = "ask" if self.mode == "python" else "python"

    def watch_mode(self, mode: Mode) -> None:
        if self.is_attached:
            self._show_mode()
            self._refresh_mentions()
            self.post_message(self.ModeChanged(mode))

    def _show_mode(self) -> None:
        self.set_class(self.mode == "ask", "-ask")
        self._area.python = self.mode == "python"
        glyph = "↻" if self._replaces else _GLYPHS[self.mode]
        self.query_one("#glyph", Static).update(glyph)
        self._draw_hint()

    def _draw_hint(self) -> None:
        if self._offer and not self._chips:  # a text with attachments is a question
            hint = Content.styled(self._offer, "$moon")
        elif self._replaces:
            hint = Content(_CHANGING if self._replaces.startswith("place ") else _REPLACING)
        elif self._chips:
            parts: list[tuple[str, str]] = []
            for chip in self._chips:
                label, size = (" ".join(plain(text).split()) for text in (chip.label, chip.size))
                style = "$bad on $panel" if chip.missing else "$muted on $panel"
                parts += [(f" {label} ", "$moon on $panel"), (f"{size} ", style), ("  ", "")]
            hint = Content.assemble(*parts[:-1])
        else:
            hint = Content(_KEYS[self.mode])
        self._hint.update(hint)

    @on(TextArea.Changed, "#code")
    def _refresh_mentions(self) -> None:
        from mahtab_tui.tui.editor.pasting import is_code, is_prose

        text = self._area.whole_text
        if self.mode == "ask":
            self._resolve_mentions(text)
            offer = _IS_PYTHON if is_code(text) else ""
        else:
            self._resolve_mentions("")
            offer = _PROSE if is_prose(text) else ""
        if offer != self._offer:
            self._offer = offer
            self._draw_hint()

    def _resolve_mentions(self, question: str) -> None:
        if not question or (find := self._find_chips) is None:
            self._fetcher.forget("attachments")
            self._show_chips(())
            return

        def resolve() -> Sequence[MentionChip]:
            IMPORTS.wait_for_screen()  # the code for this is loaded after the first picture
            return find(question)

        self._fetcher.ask("attachments", resolve, self._show_chips, pause=PAUSE)

    def _show_chips(self, chips: Sequence[MentionChip]) -> None:
        if chips != self._chips:
            self._chips = chips
            self._draw_hint()

    @on(PromptArea.ModeChanged)
    def _mode_changed(self, message: PromptArea.ModeChanged) -> None:
        message.stop()
        self.mode = message.mode

    def explain(self) -> None:
        area = self._area
        if area.python:
            area.completer.close()
            self._card.ask(area.text, area.cursor_index, area.cursor_screen_offset)

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and (self._card.display or self._replaces):
            event.stop()
            if self._card.display:
                self._card.close()
            else:
                self.end_replacing()

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _close_card(self) -> None:
        self._card.close()

    @on(CodeArea.Submitted)
    def _submitted(self, message: CodeArea.Submitted) -> None:
        message.stop()
        replaces, self._replaces = self._replaces, ""
        mode: Mode = "python" if message.python else "ask"
        self.post_message(self.Submitted(mode, message.text, replaces))
        if replaces:
            self._show_mode()
