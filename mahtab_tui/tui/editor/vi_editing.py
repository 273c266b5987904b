"""Vi's keys in the editor, if the user wants them. Loaded only then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.document._document import Selection
from textual.events import Key

from mahtab_tui.tui.editor.code_area import CodeArea, location

if TYPE_CHECKING:
    from mahtab_tui.settings.model import EditorKeys
    from mahtab_tui.tui.editor.vi_keys import ViKeys, ViText

_HISTORY_KEYS = "kj"
"""On the first or last line they go to earlier and later inputs."""
MAX_UNDO_TEXTS = 200
"""How many beginnings of commands an undo can go back to; those before are forgotten."""


class ViEditing:
    """Gives a text area Vi's keys.

    It starts in insert mode, in which all keys do what they do otherwise, and Escape leaves it.
    """

    def __init__(self, area: CodeArea, keys: EditorKeys) -> None:
        """
        Args:
            keys: The setting of this name; not `standard`.
        """
        self._area = area
        self.keys = keys
        self._vi_keys: ViKeys | None = None
        """Made when insert mode is left for the first time, because it takes a while to load."""
        self._vi_state: ViText | None = None
        """What Vi's keys have made of the text."""
        self._shown_state: tuple[str, Selection] | None = None
        """Text and selection as they were set for `_vi_state`."""
        self._command_texts: deque[str] = deque(maxlen=MAX_UNDO_TEXTS)
        """The texts at which commands began. An undo goes back to one of them."""
        self._show_mode()

    @property
    def is_typing_mode(self) -> bool:
        """Whether keys type text."""
        return self._vi_keys is None or self._vi_keys.mode == "insert"

    @property
    def is_between_commands(self) -> bool:
        """Whether the next key begins a command, or types text."""
        if self._vi_keys is None or self.is_typing_mode:
            return True
        return self._vi_keys.mode == "normal" and not self._vi_keys.is_waiting

    def begin_insert_mode(self) -> None:
        """Start again, as after an input was entered."""
        if self._vi_keys is not None:
            self._vi_keys.begin_insert_mode()
        self._show_mode()

    def handle_key(self, event: Key) -> bool:
        """Do what a key says; return False if it is none of Vi's."""
        if self.is_typing_mode:
            return self._press_in_insert_mode(event.key)
        return self._press_in_command_mode(event.key, event.character)

    def _press_in_insert_mode(self, key: str) -> bool:
        """Return whether the key was for Vi."""
        if key == "escape":
            self._show_text(self._make_vi_keys().leave_insert_mode(self._read_text()))
        elif key == "enter" and self.keys == "vim-multiline":
            self._area.action_new_line()
        else:
            return False
        return True

    def _press_in_command_mode(self, key: str, character: str | None) -> bool:
        """Return whether the key was for Vi."""
        if self.is_between_commands and key in ("escape", "up", "down"):
            return False
        if self.is_between_commands and key == "enter":
            self._area.action_submit()
            return True
        if key == "ctrl+r":
            self._repeat_history_action(self._area.action_redo)
            return True
        vi_keys = self._make_vi_keys()
        if not vi_keys.takes(key, character):
            return False
        if character is None or len(character) == 1:
            self._press_key(key, character)
        else:
            self._press_joined_keys(character)
        return True

    def _press_joined_keys(self, characters: str) -> None:
        """Press keys that came so fast that they were joined."""
        for position, character in enumerate(characters):
            if self.is_typing_mode:
                self._area._replace_via_keyboard(characters[position:], *self._area.selection)
                return
            self._press_key(character, character)

    def _press_key(self, key: str, character: str | None) -> None:
        """Do what one of Vi's keys says, outside of insert mode."""
        vi_keys = self._make_vi_keys()
        if self.is_between_commands:
            self._command_texts.append(self._area.text)
        if vi_keys.mode == "normal" and not vi_keys.has_operator:
            if character == "u":
                self._repeat_history_action(self._area.action_undo)
                return
            if key in _HISTORY_KEYS and not vi_keys.is_waiting and self._is_at_edge(key):
                self._step_to_input(key)
                return
        self._show_text(vi_keys.press(key, character, self._read_text()))

    def _is_at_edge(self, key: str) -> bool:
        """Return whether there is no line above (k) or below (j) the cursor."""
        row = self._area.cursor_location[0]
        return row == (0 if key == "k" else self._area.document.line_count - 1)

    def _step_to_input(self, key: str) -> None:
        if key == "k":
            self._area.action_cursor_up()
        else:
            self._area.action_cursor_down()

    def _repeat_history_action(self, action: Callable[[], None]) -> None:
        """Undo or redo as many commands as the count before the key says."""
        vi_keys = self._make_vi_keys()
        count = vi_keys.count
        vi_keys.forget_command()
        self._command_texts.append(self._area.text)
        for _ in range(count):
            self._change_history(action)
        self._show_mode()

    def _change_history(self, action: Callable[[], None]) -> None:
        """Undo or redo a command, with all that was typed in the insert mode that it has begun."""
        text = self._area.text
        action()
        while self._area.text != text and self._area.text not in self._command_texts:
            text = self._area.text
            action()

    def _make_vi_keys(self) -> ViKeys:
        if self._vi_keys is None:
            from mahtab_tui.tui.editor.vi_keys import ViKeys

            self._vi_keys = ViKeys()
        return self._vi_keys

    def _read_text(self) -> ViText:
        """Return the text with cursor and selection, as Vi has them."""
        from mahtab_tui.tui.editor.vi_keys import ViText

        if self._vi_state is not None and self._shown_state == (
            self._area.text,
            self._area.selection,
        ):
            return self._vi_state
        anchor = len(self._area.get_text_range((0, 0), self._area.selection.start))
        cursor = self._area.cursor_index
        if anchor == cursor or self.is_typing_mode:
            return ViText(self._area.text, cursor)
        # For Vi, both ends are part of a selection.
        if anchor < cursor:
            return ViText(self._area.text, cursor - 1, anchor)
        return ViText(self._area.text, cursor, anchor - 1)

    def _show_text(self, state: ViText) -> None:
        """Show what Vi's keys have made of the text."""
        if state.text != self._area.text:
            self._replace_difference(state.text)
        self._area.selection = self._selection_for(state)
        self._vi_state = state
        self._shown_state = (self._area.text, self._area.selection)
        self._show_mode()

    def _replace_difference(self, new_text: str) -> None:
        """Replace only what is different, so that an undo goes back to where it was."""
        old_text = self._area.text
        max_length = min(len(old_text), len(new_text))
        start = 0
        while start < max_length and old_text[start] == new_text[start]:
            start += 1
        end = 0
        while end < max_length - start and old_text[-1 - end] == new_text[-1 - end]:
            end += 1
        # Else the text area would undo quick commands together.
        self._area.history.checkpoint()
        replacement = new_text[start : len(new_text) - end]
        start_location = location(old_text, start)
        end_location = location(old_text, len(old_text) - end)
        self._area.replace(
            replacement, start_location, end_location, maintain_selection_offset=False
        )

    def _selection_for(self, state: ViText) -> Selection:
        cursor = location(state.text, state.cursor)
        if state.anchor is None:
            return Selection(cursor, cursor)
        is_forward = state.anchor <= state.cursor
        if self._vi_keys is not None and self._vi_keys.mode == "visual line":
            anchor_row = location(state.text, state.anchor)[0]
            lines = state.text.split("\n")
            if is_forward:
                return Selection((anchor_row, 0), (cursor[0], len(lines[cursor[0]])))
            return Selection((anchor_row, len(lines[anchor_row])), (cursor[0], 0))
        # The character below the cursor is drawn as such, not as selected.
        anchor = state.anchor if is_forward else state.anchor + 1
        return Selection(location(state.text, anchor), cursor)

    def _show_mode(self) -> None:
        words = "insert"
        if self._vi_keys is not None:
            words = f"{self._vi_keys.mode} {self._vi_keys.pending_keys}".rstrip()
        self._area.mode_words = words
