"""The code area with completion: as one types, and on Tab."""

from __future__ import annotations

import re

from rich.cells import cell_len
from textual.document._document import EditResult, Location, Selection
from textual.events import Blur, Key
from textual.geometry import Offset
from textual.message import Message

from mahtab_tui.kernel.base import Completion, Completions
from mahtab_tui.session.mentions import begun
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.completer import Answer, Complete, Completer, Question
from mahtab_tui.tui.panes.editor.completion_list import ROWS, CompletionList
from mahtab_tui.tui.panes.editor.narrowing import Remembered
from mahtab_tui.tui.slash import slash_completions

_WORTH_ASKING = re.compile(r"""[^\W\d]\w$|\.\w*$|\[["']?$|/$|^\s*%%?\w*$|\b(?:import|from)\s+[\w.]*$|^(?:[^"'#]|"[^"]*"|'[^']*')*["'][^"']*$""")
"""Text before the cursor after which it is asked without a key; the last is a string that is open."""

_STEPS = {"down": 1, "up": -1, "pagedown": ROWS, "pageup": -ROWS}


class CompletingArea(CodeArea):
    """Python, or a question, with a list of what may stand at the cursor. Without `complete`, or `complete_question`, it has none."""

    class Answered(Message):
        """The completer has an answer."""

        def __init__(self, answer: Answer) -> None:
            super().__init__()
            self.answer = answer

    _typing = False
    """Whether the cursor moves because something is typed."""

    def __init__(self, completions: CompletionList, complete: Complete | None, complete_question: Complete | None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.completions = completions
        self._complete, self._complete_question = complete, complete_question
        self._completer = Completer(self._found, lambda answer: self.post_message(self.Answered(answer)))
        self._remembered = Remembered()
        self._asked = 0
        """The number of the newest question; answers to others are dropped."""
        self._start = 0
        """Where the text begins that a completion replaces."""

    def on_unmount(self) -> None:
        self._completer.close()

    def _knowing(self, python: bool) -> Complete | None:
        """What knows what may stand in Python, or in a question."""
        return self._complete if python else self._complete_question

    def _found(self, question: Question) -> Completions:
        if not question.python and (commands := slash_completions(question.code, question.cursor)):
            return commands
        complete = self._knowing(question.python)
        assert complete is not None
        return complete(question.code, question.cursor)

    # Keys

    async def on_key(self, event: Key) -> None:
        shown = self.completions
        if not shown.is_open:
            return
        if event.key in _STEPS:
            shown.move(_STEPS[event.key])
        elif event.key == "escape":
            self.close_completions()
        elif event.key == "enter" and shown.asked_for:
            self.take(shown.chosen)
        else:
            if event.key == "enter":
                self.close_completions()
            return
        event.stop()
        event.prevent_default()

    def action_indent(self) -> None:
        """Take the chosen completion; ask for completions behind something; else indent."""
        before = self.document.get_line(self.cursor_location[0])[: self.cursor_location[1]]
        if self.completions.is_open:
            self.take(self.completions.chosen)
        elif self._knowing(self.python) is not None and self.selection.is_empty and (before.strip() if self.python else self._begun(before)):
            self._ask(asked_for=True)
        else:
            super().action_indent()

    def on_blur(self, event: Blur) -> None:
        self.close_completions()

    # What is typed

    def _replace_via_keyboard(self, insert: str, start: Location, end: Location) -> EditResult | None:
        self._typing = True
        try:
            result = super()._replace_via_keyboard(insert, start, end)
        finally:
            self._typing = False
        self._edited(by_character=len(insert) == 1 and insert != "\n")
        return result

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        self._typing = True
        try:
            result = super()._delete_via_keyboard(start, end)
        finally:
            self._typing = False
        self._edited(by_character=False)
        return result

    def watch_selection(self, selection: Selection) -> None:
        """Whoever goes elsewhere has done with the list."""
        super().watch_selection(selection)
        if not self._typing and self.is_mounted:
            self.close_completions()

    def _edited(self, by_character: bool) -> None:
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        self._asked += 1
        if self._knowing(self.python) is None or not (by_character or self.completions.is_open):
            self.close_completions()
        elif not self.python:
            if self._begun(before):
                self._ask(asked_for=self.completions.is_open and self.completions.asked_for)
            else:
                self.close_completions()
        elif _WORTH_ASKING.search(before) or (self.completions.is_open and re.search(r"\w$", before)):
            self._ask(asked_for=self.completions.is_open and self.completions.asked_for)
        else:
            self.close_completions()

    def _begun(self, before: str) -> bool:
        """Whether the text before the cursor in its line begins a mention, or a command."""
        return begun(before) is not None or (self.cursor_location[0] == 0 and slash_completions(before, len(before)) is not None)

    # The list

    def _ask(self, asked_for: bool) -> None:
        self._asked += 1
        self._completer.ask(Question(self._asked, self.text, self.cursor_index, asked_for, self.python))

    def on_completing_area_answered(self, message: Answered) -> None:
        """Show what came, if it is still asked for."""
        message.stop()
        question, found = message.answer
        if question.number != self._asked or question.python != self.python or not self.has_focus:
            return
        if found is not None:
            if question.python:
                self._remembered.keep(question, found)
            self._show(found, question, stale=False)
        elif question.python:
            self._show(self._remembered.for_text(question.code, question.cursor), question, stale=True)
        else:
            self.close_completions()

    def _show(self, found: Completions, question: Question, stale: bool) -> None:
        typed = question.code[found.start : question.cursor]
        opened = self.completions.is_open and self.completions.asked_for
        files = question.python and bool(found.items) and found.items[0].kind in ("file", "folder")
        self._start = found.start
        if not found.items or (not question.asked_for and _says_nothing(found, typed, files and question.code[found.start - 1] != "/")):
            self.close_completions()
        elif question.asked_for and not opened and len(found.items) == 1:
            self.take(found.items[0])
        else:
            at = self.cursor_screen_offset - Offset(cell_len(typed), 0)
            self.completions.open(found.items, found.more, at, asked_for=question.asked_for, stale=stale)

    def close_completions(self) -> None:
        """Close the list, and drop the answer that is still to come."""
        self._asked += 1
        self.completions.close()

    def take(self, item: Completion) -> None:
        """Put a completion in."""
        self.close_completions()
        before = self.text[: self._start]
        start = (before.count("\n"), self._start - before.rfind("\n") - 1)
        self._typing = True
        try:
            super()._replace_via_keyboard(item.text, start, self.cursor_location)
        finally:
            self._typing = False
        if item.kind == "folder":
            self._ask(asked_for=True)

    @property
    def cursor_index(self) -> int:
        """Where the cursor stands, in characters from the beginning."""
        return len(self.get_text_range((0, 0), self.cursor_location))


def _says_nothing(found: Completions, typed: str, of_files: bool) -> bool:
    """Whether a list need not be opened unasked: what it has is typed already, or the string need not be a file's name."""
    return of_files or (len(found.items) == 1 and found.items[0].text == typed)
