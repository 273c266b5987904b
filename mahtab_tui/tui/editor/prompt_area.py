"""The code area as a prompt with modes, history and collapsed pastes."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Location, Selection
from textual.events import Blur, Key
from textual.message import Message

from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.completion import Completer, CompletionList, InputHelp

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.store.input_history import History, HistoryEntry

CLOSE_TIMEOUT_S = 1.0


class InputHistory:
    """Earlier inputs, newest first, with a cursor for each mode."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._stored_entries: list[HistoryEntry] = []
        self._session_inputs: list[tuple[str, Mode]] = []
        self._write_queue: SimpleQueue[tuple[str, Mode] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._read_and_write, name="input-history", daemon=True
        )
        self.reset()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._write_queue.put(None)
        self._thread.join(CLOSE_TIMEOUT_S)

    def for_mode(self, mode: Mode) -> list[str]:
        """Return the inputs of a mode without duplicates, the newest first."""
        inputs = [text for text, input_mode in self._session_inputs if input_mode == mode]
        inputs += [entry.text for entry in self._stored_entries if entry.mode == mode]
        return list(dict.fromkeys(inputs))

    def step(self, step: int, mode: Mode, current_text: str) -> str | None:
        """Return an older (1) or newer (-1) input that starts with the draft; None at the end."""
        inputs = self.for_mode(mode)
        index, draft = self._cursors.get(mode, (0, ""))
        if index == 0:
            draft = current_text
        index += step
        while 0 < index <= len(inputs):
            text = inputs[index - 1]
            if text.startswith(draft) and text != draft:
                break
            index += step
        if not 0 <= index <= len(inputs):
            return None
        self._cursors[mode] = (index, draft)
        return inputs[index - 1] if index else draft

    def add(self, text: str, mode: Mode) -> None:
        self._session_inputs.insert(0, (text, mode))
        self._write_queue.put((text, mode))
        self.reset()

    def reset(self) -> None:
        self._cursors: dict[Mode, tuple[int, str]] = {}
        """Index in the history, where 0 is the draft, and the draft."""

    def _read_and_write(self) -> None:
        self._stored_entries = [*self._history.entries("python"), *self._history.entries("ask")]
        while (entry := self._write_queue.get()) is not None:
            # Masking is loaded after the first picture.
            IMPORTS.wait_for_screen()
            self._history.add(*entry)


class Draft(NamedTuple):
    """A text that comes back into the editor."""

    mode: Mode
    text: str


class Pastes:
    """Large pasted texts, by the words that stand for them in the editor."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        from mahtab_tui.session.attachments import is_large

        if not is_large(text):
            return text
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        word = f"[Pasted {size}]"
        number = 1
        while self._texts.get(word, text) != text:
            number += 1
            word = f"[Pasted {size}, {number}]"
        self._texts[word] = text
        return word

    def expand(self, text: str) -> str:
        if not self._texts:
            return text
        # In one pass, because a pasted text may contain the word of another one.
        words = "|".join(map(re.escape, self._texts))
        return re.sub(words, lambda match: self._texts[match[0]], text)

    def word_at_end(self, text: str) -> str:
        """Return the word of a pasted text that is at the end of a text, or nothing."""
        for word in self._texts:
            if text.endswith(word):
                return word
        return ""


class PromptArea(CodeArea):
    """The text of the editor's pane, with its history and completions."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "end_of_input", "Leave", show=False),
        Binding("alt+e", "expand_pastes", "Show pasted text", show=False),
    ]

    @dataclass
    class ModeChanged(Message):
        mode: Mode

    class LeaveRequested(Message):
        """Posted on Ctrl+D in an empty text."""

    class EmptySubmitted(Message):
        """Posted on Enter in an empty text."""

    draft: Draft | None = None
    _recalled: tuple[str, Selection] | None = None

    def __init__(
        self,
        completions: CompletionList,
        inputs: InputHistory,
        input_help: InputHelp | None,
    ) -> None:
        self.completer = Completer(self, completions, input_help)
        self._inputs = inputs
        self._pastes = Pastes()
        super().__init__("code")

    @property
    def mode(self) -> Mode:
        return "python" if self.python else "ask"

    async def on_key(self, event: Key) -> None:
        if event.character == "`" and self.cursor_location == (0, 0) and self.selection.is_empty:
            self._change_mode("ask" if self.python else "python")
        elif not self.completer.handle_key(event):
            return
        event.stop()
        event.prevent_default()

    def on_blur(self, event: Blur) -> None:
        self.completer.close()

    def watch_selection(self, selection: Selection) -> None:
        if self.is_mounted and not self.typing:
            self.completer.close()

    def _replace_via_keyboard(
        self, insert: str, start: Location, end: Location
    ) -> EditResult | None:
        if self.completer.skip_quote(insert):
            return None
        with self.as_typed():
            result = super()._replace_via_keyboard(insert, start, end)
        self.completer.update_after_edit(by_character=len(insert) == 1 and insert != "\n")
        return result

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        with self.as_typed():
            result = super()._delete_via_keyboard(start, end)
        self.completer.update_after_edit(by_character=False)
        return result

    def action_indent(self) -> None:
        if not self.completer.handle_tab():
            super().action_indent()

    def _change_mode(self, mode: Mode) -> None:
        self.python = mode == "python"
        self.post_message(self.ModeChanged(mode))

    def action_submit(self) -> None:
        text = self.whole_text.rstrip()
        if not text:
            self.post_message(self.EmptySubmitted())
            return
        self.post_message(self.Submitted(text, python=self.python))
        self._inputs.add(text, self.mode)
        self.load_text("")
        # The editor is empty, and undo cannot bring its text back.
        self._pastes = Pastes()
        draft = self.draft
        self.draft = None
        if draft is not None:
            # At once, because the next key continues it.
            self._change_mode(draft.mode)
            self.recall(draft.text)

    def action_end_of_input(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.LeaveRequested())

    def _step_history(self, step: int) -> None:
        text = self._inputs.step(step, self.mode, self.text)
        if text is not None:
            self.recall(text)

    def recall(self, text: str) -> None:
        """Show an input; undo brings back the previous text."""
        from mahtab_tui.tui.editor.pasting import clean

        text = clean(text)
        self._replace_text(text)
        self._recalled = (text, self.selection)

    def _replace_text(self, text: str) -> None:
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)

    def may_run(self) -> bool:
        if self._recalled != (self.text, self.selection):
            return super().may_run()
        from mahtab_tui.tui.editor.pasting import is_complete

        return is_complete(self.whole_text + "\n")

    def action_cursor_up(self, select: bool = False) -> None:
        in_first_line = self.navigator.is_first_wrapped_line(self.cursor_location)
        is_recalled = self._recalled == (self.text, self.selection)
        if not select and (is_recalled or in_first_line):
            self._step_history(1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if not select and self.navigator.is_last_wrapped_line(self.cursor_location):
            self._step_history(-1)
        else:
            super().action_cursor_down(select)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the page keys scroll the transcript if the whole text is visible."""
        fits = self.wrapped_document.height <= self.size.height
        if fits and action in ("cursor_page_up", "cursor_page_down"):
            return False
        return super().check_action(action, parameters)

    @property
    def whole_text(self) -> str:
        return self._pastes.expand(self.text)

    def collapse_paste(self, text: str) -> str:
        return self._pastes.collapse(text)

    def action_expand_pastes(self) -> None:
        text = self.whole_text
        if text != self.text:
            self._replace_text(text)

    def action_delete_left(self) -> None:
        row, column = self.cursor_location
        word = self._pastes.word_at_end(self.document.get_line(row)[:column])
        if not self.text:
            self._change_mode("python")
        elif word and self.selection.is_empty:
            self._delete_via_keyboard((row, column - len(word)), (row, column))
        else:
            super().action_delete_left()
