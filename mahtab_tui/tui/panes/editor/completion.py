"""What may stand at the cursor: asked as one types and on Tab, on a thread, so that no kernel holds the keys."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len
from textual.events import Key
from textual.geometry import Offset

from mahtab_tui.kernel.base import Completion, Completions, KernelError
from mahtab_tui.session.mentions import mention_before
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.completion_list import ROWS, CompletionList
from mahtab_tui.tui.panes.editor.narrowing import Remembered
from mahtab_tui.tui.rows.newest import NewestOnly
from mahtab_tui.tui.slash import SlashCompletions

Complete = Callable[[str, int], Completions]
"""What may stand at a cursor of a code; raises `KernelError`."""

_WORTH_ASKING = re.compile(r"""[^\W\d]\w$|\.\w*$|\[["']?$|/$|^\s*%%?\w*$|\b(?:import|from)\s+[\w.]*$|^(?:[^"'#]|"[^"]*"|'[^']*')*["'][^"']*$""")
"""Text before the cursor after which it is asked without a key; the last is a string that is open."""

_STEPS = {"down": 1, "up": -1, "pagedown": ROWS, "pageup": -ROWS}


class Question(NamedTuple):
    """A text with a cursor."""

    number: int
    code: str
    cursor: int
    """In characters."""
    by_key: bool
    """Whether the user asked by a key; else they only type."""
    python: bool
    """Else it is a question to the model."""


class Answer(NamedTuple):
    """What may stand there."""

    question: Question
    completions: Completions | None
    """None: the kernel did not answer."""


class Completing:
    """Completes what stands in an area, by a list over it. Without `complete`, or `complete_question`, it has nothing to offer there."""

    def __init__(
        self,
        area: CodeArea,
        shown: CompletionList,
        complete: Complete | None,
        complete_question: Complete | None,
        slash: SlashCompletions,
    ) -> None:
        """complete, complete_question: know what may stand in Python, and in a question; called on a thread."""
        self._area = area
        self._list = shown
        self._complete = complete
        self._complete_question = complete_question
        self._slash = slash
        self._thread: NewestOnly[Question] = NewestOnly(self._ask_kernel, "completion")
        self._remembered = Remembered()
        self._asked = 0
        """The number of the newest question; answers to others are dropped."""
        self._start = 0
        """Where the text begins that a completion replaces."""

    def end(self) -> None:
        """The area is gone."""
        self._thread.close()

    # Keys

    def take_key(self, event: Key) -> bool:
        """Act on a key for the list; False where it is not meant for it."""
        shown = self._list
        if not shown.is_open:
            return False
        if event.key in _STEPS:
            shown.move(_STEPS[event.key])
        elif event.key == "escape":
            self.close()
        elif event.key == "enter" and shown.asked_for:
            self.take(shown.chosen)
        else:
            if event.key == "enter":
                self.close()
            return False
        return True

    def take_tab(self) -> bool:
        """Take the chosen completion, or ask for completions behind something; False where Tab is for the text."""
        area, before = self._area, self._before
        if self._list.is_open:
            self.take(self._list.chosen)
        elif self._knowing(area.python) is not None and area.selection.is_empty and (before.strip() if area.python else self._begun(before)):
            self._ask(by_key=True)
        else:
            return False
        return True

    def edited(self, *, by_character: bool) -> None:
        """The user has changed the text. by_character: typed a character that is not a line break."""
        area, before = self._area, self._before
        self._asked += 1
        if self._knowing(area.python) is None or not (by_character or self._list.is_open):
            worth_it = False
        elif not area.python:
            worth_it = self._begun(before)
        else:
            worth_it = bool(_WORTH_ASKING.search(before) or (self._list.is_open and re.search(r"\w$", before)))
        if worth_it:
            self._ask(by_key=self._list.is_open and self._list.asked_for)
        else:
            self.close()

    def close(self) -> None:
        """Close the list, and drop the answer that is still to come."""
        self._asked += 1
        self._list.close()

    def take(self, item: Completion) -> None:
        """Put a completion in."""
        self.close()
        before = self._area.text[: self._start]
        start = (before.count("\n"), self._start - before.rfind("\n") - 1)
        with self._area.as_typed():
            self._area.replace(item.text, start, self._area.cursor_location, maintain_selection_offset=False)
        if item.kind == "folder":
            self._ask(by_key=True)

    @property
    def _before(self) -> str:
        """The text before the cursor in its line."""
        row, column = self._area.cursor_location
        return self._area.document.get_line(row)[:column]

    def _begun(self, before: str) -> bool:
        """Whether the text before the cursor in its line begins a mention, or a command."""
        return mention_before(before) is not None or (self._area.cursor_location[0] == 0 and self._slash.complete(before, len(before)) is not None)

    # Questions and answers

    def _knowing(self, python: bool) -> Complete | None:
        return self._complete if python else self._complete_question

    def _ask(self, *, by_key: bool) -> None:
        self._asked += 1
        self._thread.ask(Question(self._asked, self._area.text, self._area.cursor_index, by_key, self._area.python))

    def _ask_kernel(self, question: Question) -> None:
        """Answer a question, on the thread."""
        found: Completions | None = None
        with contextlib.suppress(KernelError):
            found = self._found(question)
        self._area.call_later(self.answered, Answer(question, found))

    def _found(self, question: Question) -> Completions:
        if not question.python and (commands := self._slash.complete(question.code, question.cursor)):
            return commands
        complete = self._knowing(question.python)
        assert complete is not None
        return complete(question.code, question.cursor)

    def answered(self, answer: Answer) -> None:
        """Show an answer, if it is still asked for."""
        question, found = answer
        if question.number != self._asked or question.python != self._area.python or not self._area.has_focus:
            return
        if found is not None:
            if question.python:
                self._remembered.keep(question.code, question.cursor, found)
            self._show(found, question, stale=False)
        elif question.python:
            self._show(self._remembered.for_text(question.code, question.cursor), question, stale=True)
        else:
            self.close()

    def _show(self, found: Completions, question: Question, stale: bool) -> None:
        typed = question.code[found.start : question.cursor]
        opened = self._list.is_open and self._list.asked_for
        files = question.python and bool(found.items) and found.items[0].kind in ("file", "folder")
        self._start = found.start
        if not found.items or (not question.by_key and _says_nothing(found, typed, files and question.code[found.start - 1] != "/")):
            self.close()
        elif question.by_key and not opened and len(found.items) == 1:
            self.take(found.items[0])
        else:
            at = self._area.cursor_screen_offset - Offset(cell_len(typed), 0)
            self._list.open(found.items, found.more, at, asked_for=question.by_key, stale=stale)


def _says_nothing(found: Completions, typed: str, of_files: bool) -> bool:
    """Whether a list need not be opened unasked: what it has is typed already, or the string need not be a file's name."""
    return of_files or (len(found.items) == 1 and found.items[0].text == typed)
