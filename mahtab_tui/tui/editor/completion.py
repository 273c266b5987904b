"""Asks for completions while the user types, and inserts them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from textual.events import Key
from textual.geometry import Offset

from mahtab_tui.session.mentions import partial_mention
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.editor.code_area import CodeArea, location
from mahtab_tui.tui.editor.completion_list import MAX_VISIBLE_ITEMS, CompletionList
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completion, Completions
    from mahtab_tui.tui.editor.input_help import InputHelp

QUOTES = ("'", '"')
PENDING_RETRY_S = 0.3
"""Seconds until another request, while an MCP server starts."""

_TRIGGER = re.compile(
    r"""
    [^\W\d]\w$                     # a word of two letters
    | \.\w*$                        # an attribute
    | \[["']?$                      # a subscript
    | /$                            # a folder in a path
    | ^\s*%%?\w*$                   # a magic command
    | \b(?:import|from)\s+[\w.]*$   # a module
    | ^(?:[^"'\#]|"[^"]*"|'[^']*')*["'][^"']*$   # an open string
    """,
    re.VERBOSE,
)
"""Text before the cursor that triggers completion in Python."""
_MOVE_KEYS = {"down": 1, "up": -1, "pagedown": MAX_VISIBLE_ITEMS, "pageup": -MAX_VISIBLE_ITEMS}
"""Keys that move in the list, and by how many rows."""


class EditorState(NamedTuple):
    """What completions depend on."""

    code: str
    cursor: int
    """Offset in characters."""
    is_python: bool


class Completer:
    """Asks for completions as the user types, and inserts them."""

    def __init__(
        self,
        area: CodeArea,
        completion_list: CompletionList,
        input_help: InputHelp | None,
    ) -> None:
        """
        Args:
            input_help: None for an editor without completions.
        """
        self._area = area
        self._list = completion_list
        self._input_help = input_help
        self._fetcher = Fetcher(area, max_running_jobs=1)
        self._prefix = ""
        """The text before what the items complete."""
        self._state_after_insert: EditorState | None = None

    def handle_key(self, event: Key) -> bool:
        """Move in an open list, accept its item, or close it.

        Return False if the key acts on the text.
        """
        completions = self._list
        if not completions.is_open:
            return False
        if event.key in _MOVE_KEYS:
            completions.move(_MOVE_KEYS[event.key])
        elif event.key == "escape":
            self.close()
        elif event.key == "enter" and completions.is_requested:
            self._insert(completions.chosen_item)
        else:
            if event.key == "enter":
                self.close()
            return False
        return True

    def handle_tab(self) -> bool:
        """Insert or request completions; return False if Tab acts on the text."""
        if self._list.is_open:
            self._insert(self._list.chosen_item)
            return True
        area = self._area
        if self._input_help is None or not area.selection.is_empty:
            return False
        text_before = self._text_before_cursor
        if area.python:
            can_complete = bool(text_before.strip())
        else:
            can_complete = self._starts_mention_or_command(text_before)
        if can_complete:
            self._ask(by_key=True)
        return can_complete

    def update_after_edit(self, *, by_character: bool) -> None:
        """Ask for completions of what the user types, or close the list.

        Args:
            by_character: Whether the edit was a character that the user typed.
        """
        self._fetcher.forget("completion")
        if self._should_complete(by_character=by_character):
            self._filter_list()
            self._ask(by_key=self._list.is_open and self._list.is_requested)
        else:
            self.close()

    def _should_complete(self, *, by_character: bool) -> bool:
        is_open = self._list.is_open
        if self._input_help is None or not (by_character or is_open):
            return False
        text_before = self._text_before_cursor
        if not self._area.python:
            return self._starts_mention_or_command(text_before)
        # An open list goes on within a word, also where it would not open.
        continues_word = is_open and re.search(r"\w$", text_before) is not None
        return continues_word or _TRIGGER.search(text_before) is not None

    def skip_quote(self, typed: str) -> bool:
        """Return whether a typed quote is already there, because the text has not changed since a
        completion was inserted, and the same quote stands before or after the cursor. If it stands
        after the cursor, move the cursor behind it."""
        state = self._state_after_insert
        if typed not in QUOTES or state is None or state != self._state:
            return False

        self._state_after_insert = None
        if state.code.startswith(typed, state.cursor):
            self._area.move_cursor(self._area.get_cursor_right_location())
            return True
        return state.code.endswith(typed, 0, state.cursor)

    def close(self) -> None:
        """Close the list, and forget what was asked."""
        self._fetcher.forget("completion")
        self._list.close()

    def _insert(self, item: Completion) -> None:
        self.close()
        area = self._area
        start = location(area.text, len(self._prefix))
        end = area.cursor_location
        with area.as_typed():
            area.replace(item.text, start, end, maintain_selection_offset=False)
        self._state_after_insert = self._state
        if item.kind == "folder":
            self._ask(by_key=True)

    def _filter_list(self) -> None:
        if not self._list.is_open:
            return
        text_before = self._area.text[: self._area.cursor_index]
        typed = text_before[len(self._prefix) :]
        matching_items = _starting_with(self._list.items, typed)
        if matching_items and text_before.startswith(self._prefix):
            self._list.filter_items(matching_items)
        else:
            self._list.close()

    @property
    def _text_before_cursor(self) -> str:
        """The text before the cursor, in its line."""
        row, column = self._area.cursor_location
        return self._area.document.get_line(row)[:column]

    def _starts_mention_or_command(self, text_before: str) -> bool:
        return self._starts_command(text_before) or partial_mention(text_before) is not None

    def _starts_command(self, text_before: str) -> bool:
        in_first_line = self._area.cursor_location[0] == 0
        if self._input_help is None or not in_first_line:
            return False
        return self._input_help.complete_command(text_before, len(text_before)) is not None

    def _ask(self, *, by_key: bool, pause: float = 0.0) -> None:
        state = self._state
        self._fetcher.run(
            "completion",
            partial(self._ask_kernel, *state),
            partial(self._handle_response, state, by_key),
            delay_s=pause,
        )

    @property
    def _state(self) -> EditorState:
        return EditorState(self._area.text, self._area.cursor_index, self._area.python)

    def _ask_kernel(self, code: str, cursor: int, is_python: bool) -> Completions | None:
        """Return completions of what is at the cursor; None if there are none. Runs on a thread."""
        IMPORTS.wait_for_screen()
        from mahtab_tui.kernel.base import KernelError

        input_help = self._input_help
        assert input_help is not None
        command_completions = input_help.complete_command(code, cursor)
        if command_completions is not None:
            return command_completions
        with contextlib.suppress(KernelError):
            if is_python:
                return input_help.complete(code, cursor)
            return input_help.complete_question(code, cursor)
        return None

    def _handle_response(
        self, state: EditorState, by_key: bool, completions: Completions | None
    ) -> None:
        """Show the completions of a state of the editor, unless it has changed meanwhile.

        Args:
            state: What was asked about.
            by_key: Whether the user asked by a key.
            completions: The answer; None if there are none.
        """
        if state != self._state or not self._area.has_focus:
            return
        if completions is not None and completions.items:
            self._show(completions, state, by_key)
        else:
            self.close()
        # What was inserted now is complete: more completions belong to the text before it.
        is_inserted = state != self._state
        if completions is not None and completions.pending and not is_inserted:
            self._ask(by_key=by_key, pause=PENDING_RETRY_S)

    def _show(self, completions: Completions, state: EditorState, by_key: bool) -> None:
        """Insert the only item if the user asked by a key; else show the items, if one helps."""
        self._prefix = state.code[: completions.start]
        typed = state.code[completions.start : state.cursor]
        items = _offered_items(completions, typed, by_key=by_key)
        if not by_key and _is_needless(items, typed, self._prefix, state):
            self.close()
            return
        has_single_item = len(items) == 1
        is_list_requested = self._list.is_open and self._list.is_requested
        if by_key and has_single_item and not is_list_requested:
            self._insert(items[0])
            return
        has_all_items = len(items) == len(completions.items)
        omitted_count = completions.more if has_all_items else 0
        anchor = self._area.cursor_screen_offset - Offset(cell_len(typed), 0)
        self._list.open(items, omitted_count, anchor, is_requested=by_key)


def _offered_items(completions: Completions, typed: str, *, by_key: bool) -> tuple[Completion, ...]:
    """Return the items to show.

    Those that match in the middle of their name are among them only on request, or if no other item
    matches.
    """
    starting_items = _starting_with(completions.items, typed)
    if not starting_items:
        return completions.items
    if by_key and len(starting_items) > 1:
        return completions.items
    return starting_items


def _is_needless(items: Sequence[Completion], typed: str, prefix: str, state: EditorState) -> bool:
    """Return whether items need not be shown to a user who has not asked for them.

    Args:
        items: The items.
        typed: What they complete.
        prefix: The text before that.
        state: The editor.
    """
    first_item = items[0]
    if len(items) == 1 and typed in (first_item.text, first_item.label):
        return True
    # A string in Python may not be a file name.
    are_files = first_item.kind in ("file", "folder")
    return state.is_python and are_files and not prefix.endswith("/")


def _starting_with(items: Sequence[Completion], typed: str) -> tuple[Completion, ...]:
    """Return the items whose label begins with what is typed, in any case."""
    typed = typed.lower()
    return tuple(item for item in items if item.label.lower().startswith(typed))
