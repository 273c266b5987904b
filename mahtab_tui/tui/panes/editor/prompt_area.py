"""The code area as a prompt: a mode, a history at its edges, and a way out."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.document._document import Selection
from textual.events import Key
from textual.message import Message

from mahtab_tui.session.inbox import Mode
from mahtab_tui.tui.panes.editor.completeness import is_complete
from mahtab_tui.tui.panes.editor.completer import Complete
from mahtab_tui.tui.panes.editor.completion_list import CompletionList
from mahtab_tui.tui.panes.editor.pastes import Pastes
from mahtab_tui.tui.panes.editor.pasting import clean, has_curly_quotes, straightened
from mahtab_tui.tui.panes.editor.recall import Recalls
from mahtab_tui.tui.panes.editor.suggesting_area import Suggest, SuggestingArea


class Draft(NamedTuple):
    """A text that was put aside."""

    python: bool
    """Else it is a question."""
    text: str


class PromptArea(SuggestingArea):
    """Says what the keys mean that an editor alone has no use for."""

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
        complete: Complete | None = None,
        complete_question: Complete | None = None,
        suggest: Suggest | None = None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(completions, complete, complete_question, suggest, id=id)
        self._recalls = recalls
        self._pastes = Pastes()

    @property
    def mode(self) -> Mode:
        return "python" if self.python else "ask"

    async def on_key(self, event: Key) -> None:
        if event.character == "`" and self.cursor_location == (0, 0) and self.selection.is_empty:
            event.stop()
            event.prevent_default()
            self._change_mode(not self.python)

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

    @property
    def whole_text(self) -> str:
        return self._pastes.unfold(self.text)

    def folded(self, text: str) -> str:
        return self._pastes.fold(text)

    def action_unfold(self) -> None:
        """Show what was pasted in full; undo folds it again."""
        text = self.whole_text
        if text != self.text:
            self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)

    def action_straighten(self) -> None:
        """Make curly quotes straight; undo makes them curly again."""
        text = self.whole_text
        if self.python and has_curly_quotes(text):
            self.replace(self.folded(straightened(text)), (0, 0), self.document.end, maintain_selection_offset=False)

    def _walk(self, step: int) -> None:
        """To an older input (1) or a newer one (-1), at once: the next key is meant for it."""
        if (text := self._recalls.step(step, self.mode, self.text)) is not None:
            self.recall(text)

    def recall(self, text: str) -> None:
        """Show an input of the history; undo brings back what stood here."""
        text = clean(text)
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self._recalled = (text, self.selection)

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

    def action_delete_left(self) -> None:
        if self.text:
            if not self._delete_paste_before(""):
                super().action_delete_left()
        else:
            self._change_mode(True)

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

    def action_end_of_input(self) -> None:
        """Leave, where there is nothing to delete."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.LeaveKey())
