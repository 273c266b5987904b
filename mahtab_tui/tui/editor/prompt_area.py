"""The text of the editor: a code area with two modes, earlier inputs, completions and pastes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Location, Selection
from textual.events import Blur, Key
from textual.message import Message

from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.completion_list import CompletionList

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.session.open_session import Draft
    from mahtab_tui.settings.model import EditorKeys
    from mahtab_tui.store.input_history import History, HistoryEntry
    from mahtab_tui.tui.editor.completion import Completer
    from mahtab_tui.tui.editor.input_help import InputHelp
    from mahtab_tui.tui.editor.pastes import Pastes
    from mahtab_tui.tui.editor.vi_editing import ViEditing

CLOSE_TIMEOUT_S = 1.0
"""Seconds to wait for the inputs that are still to be written."""


class SessionInput(NamedTuple):
    """An input of this session."""

    text: str
    mode: Mode


class HistoryCursor(NamedTuple):
    """Which of the inputs of a mode the editor shows."""

    position: int = 0
    """Counted from the newest input, which is 1; 0 is the draft."""
    draft: str = ""
    """What was typed before the first step."""


class InputHistory:
    """Earlier inputs, with a cursor for each mode.

    Main thread only, except for its own thread, which reads and writes the stored ones.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._stored_entries: list[HistoryEntry] = []
        """The inputs of earlier sessions; empty until they are read."""
        self._session_inputs: list[SessionInput] = []
        """The inputs of this session, the newest first."""
        self._cursors: dict[Mode, HistoryCursor] = {}
        self._write_queue: SimpleQueue[SessionInput | None] = SimpleQueue()
        """The inputs that are still to be stored; None ends the thread."""
        self._thread = threading.Thread(
            target=self._read_and_write, name="input-history", daemon=True
        )

    def start(self) -> None:
        """Begin to read the stored inputs, and to store new ones."""
        self._thread.start()

    def close(self) -> None:
        """Write what is still to be written."""
        self._write_queue.put(None)
        self._thread.join(CLOSE_TIMEOUT_S)

    def for_mode(self, mode: Mode) -> list[str]:
        """Return the inputs of a mode without duplicates, the newest first."""
        texts = [entered.text for entered in self._session_inputs if entered.mode == mode]
        texts += [entry.text for entry in self._stored_entries if entry.mode == mode]
        return list(dict.fromkeys(texts))

    def step(self, step: int, mode: Mode, current_text: str) -> str | None:
        """Go to another input that starts with the draft.

        Args:
            step: 1 for an older input, -1 for a newer one, or for the draft after the newest.
            mode: The mode of the inputs.
            current_text: What the editor has in it: the draft, before the first step.

        Returns:
            The text to show; None if there is no such input.
        """
        inputs = self.for_mode(mode)
        position, draft = self._cursors.get(mode, HistoryCursor())
        if position == 0:
            draft = current_text
        position += step
        while 0 < position <= len(inputs):
            text = inputs[position - 1]
            if text.startswith(draft) and text != draft:
                break
            position += step
        if not 0 <= position <= len(inputs):
            return None
        self._cursors[mode] = HistoryCursor(position, draft)
        if position == 0:
            return draft
        return inputs[position - 1]

    def add(self, text: str, mode: Mode) -> None:
        """Add an input, and forget the drafts."""
        entered = SessionInput(text, mode)
        self._session_inputs.insert(0, entered)
        self._write_queue.put(entered)
        self.forget_drafts()

    def forget_drafts(self) -> None:
        """Start again at the newest input, with what the editor has in it then."""
        self._cursors.clear()

    def _read_and_write(self) -> None:
        """Read the stored inputs, then store new ones until the editor ends. Runs on a thread."""
        self._stored_entries = [*self._history.entries("python"), *self._history.entries("ask")]
        while (entered := self._write_queue.get()) is not None:
            # Masking is loaded after the first picture.
            IMPORTS.wait_for_screen()
            self._history.add(entered.text, entered.mode)


class RecalledInput(NamedTuple):
    """An earlier input as the editor shows it."""

    text: str
    selection: Selection


class PromptArea(CodeArea):
    """The text of the editor's pane, with its history and completions."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "end_of_input", "Leave", show=False),
        Binding("alt+e", "expand_pastes", "Show pasted text", show=False),
    ]

    @dataclass
    class ModeChanged(Message):
        """Posted when the mode has changed."""

        mode: Mode

    class LeaveRequested(Message):
        """Posted on Ctrl+D in an empty text."""

    class EmptySubmitted(Message):
        """Posted on Enter in an empty text."""

    draft: Draft | None = None
    """Comes back after the next input is submitted."""
    _vi: ViEditing | None = None
    """Vi's keys; None without them."""
    _recalled: RecalledInput | None = None
    """The input that was recalled last. While it is unchanged, the Up key goes on to an older one."""
    _pastes: Pastes | None = None
    """The large texts that were pasted since the editor was empty; None before the first one."""

    def __init__(
        self,
        completions: CompletionList,
        inputs: InputHistory,
        input_help: InputHelp | None,
    ) -> None:
        self._completions = completions
        self._input_help = input_help
        self._inputs = inputs
        super().__init__("code")

    @cached_property
    def completer(self) -> Completer:
        """Completes what is typed.

        Made when first needed, because the first picture waits for what this class imports.
        """
        from mahtab_tui.tui.editor.completion import Completer

        return Completer(self, self._completions, self._input_help)

    @property
    def mode(self) -> Mode:
        return "python" if self.python else "ask"

    async def on_key(self, event: Key) -> None:
        is_at_start = self.cursor_location == (0, 0) and self.selection.is_empty
        begins_command = self._vi is None or self._vi.is_between_commands
        if event.character == "`" and is_at_start and begins_command:
            self._change_mode("ask" if self.python else "python")
        elif not self._handle_key(event):
            return
        event.stop()
        event.prevent_default()

    def _handle_key(self, event: Key) -> bool:
        """Give a key to the list of completions, then to Vi's keys.

        Return False if it is for neither. Escape is for both.
        """
        is_handled = self.completer.handle_key(event)
        if self._vi is not None and (not is_handled or event.key == "escape"):
            is_handled = self._vi.handle_key(event)
        return is_handled

    @property
    def keys(self) -> EditorKeys:
        """The setting of this name."""
        return "standard" if self._vi is None else self._vi.keys

    @keys.setter
    def keys(self, keys: EditorKeys) -> None:
        if keys == self.keys:
            return
        if keys == "standard":
            self._vi = None
            self.mode_words = ""
        else:
            from mahtab_tui.tui.editor.vi_editing import ViEditing

            self._vi = ViEditing(self, keys)

    @property
    def is_typing_mode(self) -> bool:
        """Whether keys type text, as always without Vi's keys."""
        return self._vi is None or self._vi.is_typing_mode

    @property
    def keeps_escape(self) -> bool:
        """Whether Escape stops nothing, since many who use Vi press it again and again while they
        edit. In an empty text it stops what runs, as usual."""
        return self._vi is not None and bool(self.text)

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
        """Change the mode, and tell the pane."""
        self.python = mode == "python"
        self.post_message(self.ModeChanged(mode))

    def action_submit(self) -> None:
        """Enter the text, and empty the editor, unless an earlier draft comes back."""
        text = self.whole_text.rstrip()
        if not text:
            self.post_message(self.EmptySubmitted())
            return
        self.post_message(self.Submitted(text, python=self.python))
        self._inputs.add(text, self.mode)
        self.load_text("")
        if self._vi is not None:
            self._vi.begin_insert_mode()
        # The editor is empty, and undo cannot bring its text back.
        self._pastes = None
        draft = self.draft
        self.draft = None
        if draft is not None:
            # At once, because the next key continues it.
            self._change_mode(draft.mode)
            self.recall(draft.text)

    def action_end_of_input(self) -> None:
        """Delete to the right, as in a shell; in an empty text, leave."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.LeaveRequested())

    def _step_history(self, step: int) -> None:
        """Show an older input (1) or a newer one (-1), if there is one."""
        text = self._inputs.step(step, self.mode, self.text)
        if text is not None:
            self.recall(text)

    def recall(self, text: str) -> None:
        """Show an input; undo brings back the previous text."""
        from mahtab_tui.bus.typed_text import clean

        text = clean(text)
        self._replace_text(text)
        self._recalled = RecalledInput(text, self.selection)

    def _replace_text(self, text: str) -> None:
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)

    def may_run(self) -> bool:
        """Return whether Enter runs the code. A recalled input needs no empty line at its end."""
        if not self._is_recalled:
            return super().may_run()
        from mahtab_tui.bus.typed_text import is_complete

        return is_complete(self.whole_text + "\n")

    @property
    def _is_recalled(self) -> bool:
        """Whether the text and the selection are still those of the recalled input."""
        return self._recalled == RecalledInput(self.text, self.selection)

    def action_cursor_up(self, select: bool = False) -> None:
        in_first_line = self.navigator.is_first_wrapped_line(self.cursor_location)
        if not select and (self._is_recalled or in_first_line):
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
        is_whole_text_visible = self.wrapped_document.height <= self.size.height
        if is_whole_text_visible and action in ("cursor_page_up", "cursor_page_down"):
            return False
        return super().check_action(action, parameters)

    @property
    def whole_text(self) -> str:
        """The text, in which large pasted texts are written out."""
        return self.text if self._pastes is None else self._pastes.expand(self.text)

    def collapse_paste(self, text: str) -> str:
        from mahtab_tui.tui.editor.pastes import Pastes

        if self._pastes is None:
            self._pastes = Pastes()
        return self._pastes.collapse(text)

    def action_expand_pastes(self) -> None:
        """Write large pasted texts out in the editor."""
        text = self.whole_text
        if text != self.text:
            self._replace_text(text)

    def action_delete_left(self) -> None:
        """Delete a character, the whole word of a paste, or in an empty text the mode for questions."""
        row, column = self.cursor_location
        word = ""
        if self._pastes is not None:
            word = self._pastes.word_at_end(self.document.get_line(row)[:column])
        if not self.text:
            self._change_mode("python")
        elif word and self.selection.is_empty:
            self._delete_via_keyboard((row, column - len(word)), (row, column))
        else:
            super().action_delete_left()
