"""The code area as a prompt: it completes and suggests, has a mode, a history at its edges, and a way out."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Location, Selection
from textual.events import Blur, Key
from textual.message import Message

from mahtab_tui.session.inbox import Mode
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.completion import Complete, Completing
from mahtab_tui.tui.panes.editor.completion_list import CompletionList
from mahtab_tui.tui.panes.editor.line_breaks import is_complete
from mahtab_tui.tui.panes.editor.pastes import Pastes
from mahtab_tui.tui.panes.editor.pasting import clean, has_curly_quotes, straightened
from mahtab_tui.tui.panes.editor.recall import Recalls
from mahtab_tui.tui.panes.editor.suggestion import Suggest, Suggesting
from mahtab_tui.tui.slash import SlashCompletions


class Draft(NamedTuple):
    """A text that was put aside."""

    python: bool
    """Else it is a question."""
    text: str


class PromptArea(CodeArea):
    """Owns completion, suggestion, history and pasted texts, and tells them what is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "end_of_input", "Leave", show=False),
        Binding("alt+e", "unfold", "Show what was pasted", show=False),
        Binding("alt+q", "straighten", "Straighten quotes", show=False),
    ]

    class ModeChanged(Message):
        """A backtick at the very start, or Backspace in an empty text: it is edited as Python now, or no longer."""

        def __init__(self, *, python: bool) -> None:
            super().__init__()
            self.python = python

    class LeaveKey(Message):
        """Ctrl+D in an empty text."""

    draft: Draft | None = None
    """What comes back here when the text is entered."""
    _recalled: tuple[str, Selection] | None = None
    """The text and the cursor as the history put them."""

    def __init__(
        self,
        completions: CompletionList,
        recalls: Recalls,
        complete: Complete | None,
        complete_question: Complete | None,
        slash: SlashCompletions,
        suggest: Suggest | None,
        *,
        id: str | None = None,
    ) -> None:
        self.completing = Completing(self, completions, complete, complete_question, slash)
        self.suggesting = None if suggest is None else Suggesting(self, completions, suggest)
        self._recalls = recalls
        self._pastes = Pastes()
        super().__init__(id=id)

    @property
    def mode(self) -> Mode:
        return "python" if self.python else "ask"

    # What the parts are told

    async def on_key(self, event: Key) -> None:
        if event.character == "`" and self.cursor_location == (0, 0) and self.selection.is_empty:
            self._change_mode(not self.python)
        elif not self.completing.take_key(event):
            return
        event.stop()
        event.prevent_default()

    def on_blur(self, event: Blur) -> None:
        self.completing.close()

    def on_unmount(self) -> None:
        self.completing.end()
        if self.suggesting is not None:
            self.suggesting.end()

    def watch_selection(self, selection: Selection) -> None:
        """Where the cursor goes elsewhere, the list closes and the suggestion goes."""
        super().watch_selection(selection)
        if self.typing or not self.is_mounted:
            return
        self.completing.close()
        if self.suggesting is not None:
            self.suggesting.forget()

    def update_suggestion(self) -> None:
        """The text has changed: of a suggestion that is being typed the rest stays, else there is something new to ask for."""
        if self.suggesting is not None and not self.suggestion:
            self.suggesting.ask(at_once=False)

    def _replace_via_keyboard(self, insert: str, start: Location, end: Location) -> EditResult | None:
        with self.as_typed():
            result = super()._replace_via_keyboard(insert, start, end)
        self.completing.edited(by_character=len(insert) == 1 and insert != "\n")
        return result

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        with self.as_typed():
            result = super()._delete_via_keyboard(start, end)
        self.completing.edited(by_character=False)
        return result

    def action_indent(self) -> None:
        """Take the suggestion, or the chosen completion; ask for completions behind something; else indent."""
        if not (self.suggesting and self.suggesting.take()) and not self.completing.take_tab():
            super().action_indent()

    # The mode, and entering

    def _change_mode(self, python: bool) -> None:
        """At once: what is typed next, and Enter, is meant in the new mode."""
        self.python = python
        self.post_message(self.ModeChanged(python=python))

    def action_submit(self) -> None:
        """Enter what is written, if anything is; what is typed next belongs to another input."""
        if text := self.whole_text.rstrip():
            self.post_message(self.Submitted(text, python=self.python))
            self._recalls.entered(text, self.mode)
            self.load_text("")
            self._pastes.forget()
            self._bring_draft_back()

    def _bring_draft_back(self) -> None:
        """At once, too: what is typed next goes on with it."""
        draft, self.draft = self.draft, None
        if draft is not None:
            self._change_mode(draft.python)
            self.recall(draft.text)

    def action_end_of_input(self) -> None:
        """Leave, where there is nothing to delete."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.LeaveKey())

    # The history

    def _walk(self, step: int) -> None:
        """To an older input (1) or a newer one (-1), at once: the next key is meant for it."""
        if (text := self._recalls.step(step, self.mode, self.text)) is not None:
            self.recall(text)

    def recall(self, text: str) -> None:
        """Show an input of the history; undo brings back what stood here."""
        text = clean(text)
        self._show_instead(text)
        self._recalled = (text, self.selection)

    def _show_instead(self, text: str) -> None:
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)

    @property
    def _untouched(self) -> bool:
        """Whether what stands here is as the history put it: then Up and Enter mean the input as a whole."""
        return self._recalled == (self.text, self.selection)

    def may_run(self) -> bool:
        return is_complete(self.whole_text + "\n") if self._untouched else super().may_run()

    def action_cursor_up(self, select: bool = False) -> None:
        if not select and (self._untouched or self.navigator.is_first_wrapped_line(self.cursor_location)):
            self._walk(1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if not select and self.navigator.is_last_wrapped_line(self.cursor_location):
            self._walk(-1)
        else:
            super().action_cursor_down(select)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where all of the text is seen, the keys for pages scroll the transcript."""
        if action in ("cursor_page_up", "cursor_page_down") and self.wrapped_document.height <= self.size.height:
            return False
        return super().check_action(action, parameters)

    # Large pasted texts, which stand here as one word each

    @property
    def whole_text(self) -> str:
        return self._pastes.unfold(self.text)

    def folded(self, text: str) -> str:
        return self._pastes.fold(text)

    def action_unfold(self) -> None:
        """Show what was pasted in full; undo shows the words again."""
        text = self.whole_text
        if text != self.text:
            self._show_instead(text)

    def action_straighten(self) -> None:
        """Make curly quotes straight; undo makes them curly again."""
        text = self.whole_text
        if self.python and has_curly_quotes(text):
            self._show_instead(self.folded(straightened(text)))

    def action_delete_left(self) -> None:
        if not self.text:
            self._change_mode(True)
        elif not self._delete_paste_before(""):
            super().action_delete_left()

    def action_delete_word_left(self) -> None:
        if not self._delete_paste_before(" "):
            super().action_delete_word_left()

    def action_delete_right(self) -> None:
        if not self._delete_paste_after(""):
            super().action_delete_right()

    def action_delete_word_right(self) -> None:
        if not self._delete_paste_after(" "):
            super().action_delete_word_right()

    def _delete_paste_before(self, blanks: str) -> bool:
        """Delete the word of a pasted text as a whole, where it stands left of the cursor; also with these between them."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column].rstrip(blanks)
        word = self._pastes.word_before(before) if self.selection.is_empty else ""
        if word:
            self._delete_via_keyboard((row, len(before) - len(word)), (row, column))
        return bool(word)

    def _delete_paste_after(self, blanks: str) -> bool:
        """The same right of it."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        after = line[column:].lstrip(blanks)
        word = self._pastes.word_after(after) if self.selection.is_empty else ""
        if word:
            self._delete_via_keyboard((row, column), (row, len(line) - len(after) + len(word)))
        return bool(word)
