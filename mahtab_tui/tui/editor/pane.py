"""The editor's pane: a glyph for the mode, the text, and a line of help."""

from __future__ import annotations

import ast
import re
import warnings
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
from mahtab_tui.system.imports import IMPORTS
from mahtab_tui.tui.commands import SlashCompletions
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.completion import Complete, CompletionList
from mahtab_tui.tui.editor.prompt_area import Draft, InputHistory, PromptArea
from mahtab_tui.tui.find import FindRow
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session.attached import MentionChip
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.store.history import History
    from mahtab_tui.tui.editor.help_card import Explain, HelpCard, Suggest

_KEYS: dict[Mode, str] = {
    "python": "Python · Enter runs · ` asks the model · Ctrl+J new line",
    "ask": "Ask · Enter sends · ` back to Python · Ctrl+J new line · /help",
}
_CHANGING = "Enter runs it as this cell of the notebook · Escape cancels"
_REPLACING = (
    "Enter replaces your earlier input · Escape cancels · later entries leave the conversation"
)

FindChips = Callable[[str], "Sequence[MentionChip]"]
"""Previews the attachments of a question; called on a thread."""

PAUSE = 0.15
"""Seconds without a key press before the mentions in a question are resolved."""


class Hint(Static):
    """Shows the keys of the mode, an offer, or the attachments of a question, which are resolved on
    a thread."""

    def __init__(self, find: FindChips | None, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._mode: Mode = "python"
        self._replaces = ""
        self._offer = ""
        self._chips: Sequence[MentionChip] = ()
        self._find = find
        self._fetcher = Fetcher(self, at_once=1)

    def show(self, mode: Mode, *, replaces: str) -> None:
        """Show the keys of a mode. replaces: the name of the entry that the input will replace;
        empty for none."""
        self._mode, self._replaces = mode, replaces
        self._draw()

    def show_mentions(self, question: str) -> None:
        """Resolve the mentions in the question being written; empty for none."""
        find = self._find
        if not question or find is None:
            self._fetcher.forget("attachments")
            self._show_chips(())
            return

        def resolve() -> Sequence[MentionChip]:
            IMPORTS.wait_for_screen()  # the code for this is loaded after the first picture
            return find(question)

        self._fetcher.ask("attachments", resolve, self._show_chips, pause=PAUSE)

    def offer(self, offer: str) -> None:
        """Show an offer instead of the keys; empty removes it."""
        if offer != self._offer:
            self._offer = offer
            self._draw()

    def _show_chips(self, chips: Sequence[MentionChip]) -> None:
        if chips != self._chips:
            self._chips = chips
            self._draw()

    def _draw(self) -> None:
        if self._offer and not self._chips:  # a text with attachments is a question
            self.update(Content.styled(self._offer, "$moon"))
        elif self._replaces:
            self.update(Content(_CHANGING if self._replaces.startswith("place ") else _REPLACING))
        else:
            self.update(
                Content("  ").join(map(_draw_chip, self._chips))
                if self._chips
                else Content(_KEYS[self._mode])
            )


def _draw_chip(chip: MentionChip) -> Content:
    label, size = (" ".join(plain(text).split()) for text in (chip.label, chip.size))
    return Content.assemble(
        (f" {label} ", "$moon on $panel"),
        (f"{size} ", "$bad on $panel" if chip.missing else "$muted on $panel"),
    )


LONGEST = 2_000
"""Characters of a text to classify: it is parsed at each key press."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[,.;:?!…]*|\d+[,.?!%]*")
_CODE_NODES = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Attribute,
    ast.BinOp,
    ast.Call,
    ast.Compare,
    ast.Import,
    ast.ImportFrom,
    ast.Subscript,
)


def is_prose(text: str) -> bool:
    """Return whether a text is a sentence of at least three words and not valid Python."""
    words = text[: LONGEST + 1].split()
    if len(text) > LONGEST or len(words) < 3 or _parse(text) is not None:
        return False
    return 5 * sum(_WORD.fullmatch(word) is not None for word in words) >= 4 * len(words)


def is_code(text: str) -> bool:
    """Return whether a text is Python that does something, rather than words that happen to
    parse."""
    tree = _parse(text) if len(text) <= LONGEST else None
    return tree is not None and any(isinstance(node, _CODE_NODES) for node in ast.walk(tree))


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


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
        """The name of the entry that it replaces; empty for none."""

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
        self._inputs = InputHistory(history)
        self._completions = CompletionList()
        self._explain = explain
        self._card: HelpCard | None = None
        """Created when it is first shown."""
        self._area = PromptArea(
            self._completions, self._inputs, complete, complete_question, slash, suggest, id="code"
        )
        self._hint = Hint(chips, id="hint")
        self._replaces = ""
        self._draft = Draft("python", "")
        """The input before a replacement began."""
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
        is sent, or on undo."""
        self.put("ask", question)

    def put(self, mode: Mode, text: str) -> None:
        """Put an input into the editor, without sending it. The previous mode and text come back
        when it is sent."""
        if text not in (self.text, "") and not self._replaces:
            self._area.draft = Draft(self.mode, self.text)
        self.mode, self.text = mode, text

    def mention(self, target: str) -> None:
        """Add a mention to the question in the editor, or start a question with it."""
        question = self._area.text.rstrip() if self.mode == "ask" else ""
        self.mode, self.text = "ask", f"{question} {target} ".lstrip()

    def toggle_mode(self) -> None:
        """Switch between Python and Ask, keeping the text."""
        self.mode = "ask" if self.mode == "python" else "python"

    def watch_mode(self, mode: Mode) -> None:
        if self.is_attached:
            self._show_mode()
            self._refresh_mentions()
            self.post_message(self.ModeChanged(mode))

    def _show_mode(self) -> None:
        self.set_class(self.mode == "ask", "-ask")
        self._area.python = self.mode == "python"
        self.query_one("#glyph", Static).update(
            Content("↻" if self._replaces else _GLYPHS[self.mode])
        )
        self._hint.show(self.mode, replaces=self._replaces)

    @on(TextArea.Changed, "#code")
    def _refresh_mentions(self) -> None:
        from mahtab_tui.tui.editor.pasting import has_curly_quotes

        text = self._area.whole_text
        self._hint.show_mentions(text if self.mode == "ask" else "")
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
        """Show the signature and docstring of the call at the cursor."""
        if self._area.python:
            self._area.completer.close()
            if self._card is None:
                from mahtab_tui.tui.editor.help_card import HelpCard

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
        """Request a suggestion now; returns False if no suggestion model is set."""
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
        self._area.completer.accept(message.item)

    @on(CodeArea.Submitted)
    def _submitted(self, message: CodeArea.Submitted) -> None:
        message.stop()
        replaces, self._replaces = self._replaces, ""
        self.post_message(
            self.Submitted("python" if message.python else "ask", message.text, replaces)
        )
        if replaces:
            self._show_mode()
