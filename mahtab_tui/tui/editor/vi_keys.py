"""Vi's keys on a text, by prompt_toolkit, which has them for the prompts of IPython and others.

prompt_toolkit's application is never run here, and reads and draws nothing: it gets a key, and changes
its buffer. It has modes, motions, operators, text objects, counts, searches and visual modes; those
that are not as in Vi stand in `vi_bindings`. Ours are the repetition of a change with ``.``, counts of
insertions, and the prefix ``"x`` for registers, which prompt_toolkit (3.0.53) has for few commands and
reads from the wrong keys. In insert mode the text area itself takes the keys.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.clipboard import ClipboardData
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import DummyInput
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, HSplit, Layout, SearchBufferControl, Window
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.search import SearchDirection
from prompt_toolkit.selection import SelectionState, SelectionType

from mahtab_tui.tui.editor.vi_bindings import MAX_REPEATS, make_bindings

ViMode = Literal["insert", "normal", "visual", "visual line", "replace", "search"]

_KEYS = {
    "escape": Keys.Escape,
    "enter": Keys.Enter,
    "backspace": Keys.Backspace,
    "delete": Keys.Delete,
    "left": Keys.Left,
    "right": Keys.Right,
    "up": Keys.Up,
    "down": Keys.Down,
    "home": Keys.Home,
    "end": Keys.End,
}
"""Keys that are no characters, by their names in Textual."""
_DIGITS = frozenset("0123456789")
_MAX_COUNT_DIGITS = 5
"""More digits of a count are ignored."""
_REPEAT = "."
"""The command that repeats the last change."""
_REGISTER = '"'
"""The prefix before the name of a register."""
_NO_REGISTER = "_"
"""The name of the register that keeps nothing."""
_PREFIXES = frozenset("\"q@m'`")
"""Keys that are followed by the name of a register or mark. Macros (q, @) would lack what is typed in
insert mode, and marks (m, ', `) would have to move with the text, so they do nothing."""
_NO_MOTIONS = frozenset("/?'`")
"""Motions that no operator can have here: a search, and those to marks."""
_INSERT_COMMANDS = frozenset("iIaAoO")
"""Commands that insert as often as their count says."""
_ARGUMENT_COMMANDS = frozenset("fFtTr")
"""Commands that are followed by a character."""
_PASTES = frozenset("pP")
"""Commands that insert what a register has."""
_SEARCHES = frozenset("nN*#")
"""Commands that search as often as their count says."""
_CHANGE = re.compile(r"[0-9]*c[0-9]*")
"""The operator `c` with its counts, before its motion."""
_COUNTS = re.compile(r"(?:[1-9][0-9]*)?(?P<operator>g.|[dcy<>]|)(?:[1-9][0-9]*)?")
"""The counts of a command, before and after its operator."""
_WORD_MOTIONS = {"w": "e", "W": "E"}
"""The motions that replace others after `c`: in Vi, `cw` leaves the blanks after the word, as `ce` does."""


class ViText(NamedTuple):
    """A text with the cursor, and what is selected."""

    text: str
    cursor: int
    """In characters from the start."""
    anchor: int | None = None
    """Where the selection began, in characters from the start; None without a selection."""


class Insertion(NamedTuple):
    """The text when insert mode began."""

    text: str
    cursor: int
    """In characters from the start."""


class ViKeys:
    """Carries out the keys of all modes but insert mode. Main thread only."""

    def __init__(self) -> None:
        self._buffer = Buffer(multiline=True)
        self._search_control = SearchBufferControl()
        control = BufferControl(self._buffer, search_buffer_control=self._search_control)
        self._app: Application[None] = Application(
            layout=Layout(HSplit([Window(control), Window(self._search_control)])),
            key_bindings=make_bindings(),
            editing_mode=EditingMode.VI,
            input=DummyInput(),
            output=DummyOutput(),
        )
        # Without these times, which would need a running event loop, nothing is guessed about a key.
        self._app.timeoutlen = None  # type: ignore[assignment]
        self._app.ttimeoutlen = None  # type: ignore[assignment]
        self._command: list[KeyPress] = []
        """The keys of the command that is being entered, or in visual mode of all since it began."""
        self._command_text = ""
        """The text when the first of them was pressed."""
        self._last_change: list[tuple[str, str | None]] = []
        """The keys of the last command that has changed the text, each by its name in Textual, with the
        character that it types; None if it types none."""
        self._typed_keys: list[tuple[str, str | None]] = []
        """The same keys as in `_command`, in the form of `_last_change`, but without the replacements
        of `_WORD_MOTIONS`."""
        self._last_insertion = ""
        """What was typed in insert mode after the last change."""
        self._insertion: Insertion | None = None
        """The text when a command began insert mode; None in other modes, and if no command began it."""
        self._registers: dict[str, ClipboardData] = {}
        """What the registers have, by their names. The unnamed one is prompt_toolkit's clipboard."""
        self._register = ""
        """The register of the command that is being entered; empty for the unnamed one."""
        self._prefix = ""
        """The last key, if it is one of `_PREFIXES`."""
        self._is_recording = False
        """Whether the next `q` would end a macro."""

    @property
    def mode(self) -> ViMode:
        """The mode, as the screen shows it."""
        vi = self._app.vi_state
        selection = self._buffer.selection_state
        if self._app.layout.is_searching:
            return "search"
        if selection is not None:
            return "visual line" if selection.type == SelectionType.LINES else "visual"
        if vi.input_mode in (InputMode.REPLACE, InputMode.REPLACE_SINGLE):
            return "replace"
        return "insert" if vi.input_mode == InputMode.INSERT else "normal"

    @property
    def is_waiting(self) -> bool:
        """Whether a command is incomplete: of `d2w`, only `d2` has been pressed."""
        return self.has_operator or self._app.key_processor.arg is not None

    @property
    def has_operator(self) -> bool:
        """Whether more than a count has been pressed of a command."""
        is_named = bool(self._prefix or self._register)
        return (
            bool(self._app.key_processor.key_buffer or self._app.vi_state.operator_func) or is_named
        )

    @property
    def pending_keys(self) -> str:
        """What has been pressed of an incomplete command, or typed of a search."""
        if self._app.layout.is_searching:
            direction = self._search_control.searcher_search_state.direction
            sign = "?" if direction == SearchDirection.BACKWARD else "/"
            return sign + self._search_control.buffer.text
        if not self.is_waiting:
            return ""
        register = _REGISTER + self._register if self._register else ""
        return register + "".join(key.data for key in self._command) + self._prefix

    @property
    def count(self) -> int:
        """How often to repeat a command, from the number that was typed before it; 1 for none."""
        argument = self._app.key_processor.arg or ""
        return min(int(argument), MAX_REPEATS) if argument.isdecimal() else 1

    def takes(self, key: str, character: str | None) -> bool:
        """Return whether `press` knows what to do with a key."""
        return key in _KEYS or (character is not None and character.isprintable())

    def leave_insert_mode(self, text_on_screen: ViText) -> ViText:
        """Go from insert mode to normal mode."""
        self._show(text_on_screen)
        if self._insertion is not None:
            self._last_insertion = _inserted_text(self._insertion, text_on_screen.text)
            self._insertion = None
            self._insert_again()
        self._feed(KeyPress(Keys.Escape))
        return self._state()

    def _insert_again(self) -> None:
        """Insert again what was typed after a command with a count: `3i` inserts it three times, of
        which the user has typed the first."""
        command = "".join(character or "" for _, character in self._last_change)
        count = command[:-1]
        if not (count.isdecimal() and command[-1] in _INSERT_COMMANDS):
            return
        line_break = ""
        if command[-1] in "oO":
            line_break = "\n" + self._buffer.document.leading_whitespace_in_current_line
        repeats = min(int(count), MAX_REPEATS) - 1
        self._buffer.insert_text((line_break + self._last_insertion) * repeats)

    def begin_insert_mode(self) -> None:
        """Forget an incomplete command, and go to insert mode."""
        with set_app(self._app):
            self._app.vi_state.reset()
        self._buffer.exit_selection()
        self._insertion = None
        self.forget_command()

    def forget_command(self) -> None:
        """Forget an incomplete command, because somebody else carries it out."""
        with set_app(self._app):
            self._app.key_processor.reset()
        self._app.vi_state.operator_func = None
        self._app.vi_state.operator_arg = None
        self._command = []
        self._typed_keys = []
        self._register = ""
        self._prefix = ""

    def press(self, key: str, character: str | None, text_on_screen: ViText) -> ViText:
        """Do what a key says.

        Args:
            key: Its name in Textual.
            character: What it types.
            text_on_screen: What the text area shows.

        Returns:
            What it should show then.
        """
        self._show(text_on_screen)
        waits_for_motion = (
            self._app.vi_state.operator_func and not self._app.key_processor.key_buffer
        )
        if waits_for_motion and character in _NO_MOTIONS:
            self.forget_command()
        if self._prefix:
            self._end_prefix(key, character)
        elif character == _REPEAT and self.mode == "normal" and not self.has_operator:
            self._repeat_change()
        elif self._takes_name(character):
            self._begin_prefix(character or "")
        elif not self._is_surplus_digit(character):
            if not self._command:
                self._command_text = self._buffer.text
            self._enter_key(key, character)
            self._end_command()
        return self._state()

    def _is_surplus_digit(self, character: str | None) -> bool:
        processor = self._app.key_processor
        has_all_digits = len(processor.arg or "") >= _MAX_COUNT_DIGITS
        return has_all_digits and not processor.key_buffer and character in _DIGITS

    def _enter_key(self, key: str, character: str | None) -> None:
        """Press a key of a command."""
        awaits_character = self._app.key_processor.key_buffer or self.mode in ("replace", "search")
        if key == "delete" and not awaits_character:
            key = "x"
            character = "x"
        if character in _SEARCHES and self._app.key_processor.arg and not awaits_character:
            self._app.key_processor.arg = str(self.count)
        self._typed_keys.append((key, character))
        self._command.append(self._key_press(key, character))
        cursor = self._buffer.cursor_position
        self._press_into_register(self._command[-1])
        has_moved = self._buffer.cursor_position != cursor
        if has_moved and self.mode == "visual" and self._has_selected_object():
            # prompt_toolkit goes behind the last character.
            self._buffer.cursor_position -= 1

    def _has_selected_object(self) -> bool:
        """Return whether the last keys are a text object."""
        characters = [character or "" for _, character in self._typed_keys[-3:]]
        is_object = len(characters) > 1 and characters[-2] in ("i", "a")
        return is_object and characters[0] not in _ARGUMENT_COMMANDS and characters[-1] != "p"

    def _key_press(self, key: str, character: str | None) -> KeyPress:
        """Return a key as prompt_toolkit knows it."""
        command = "".join(key_press.data for key_press in self._command)
        if character in _WORD_MOTIONS and _CHANGE.fullmatch(command) and self.mode == "normal":
            character = self._end_of_word_motion(character)
        return KeyPress(_KEYS.get(key, character or ""), character or "")

    def _end_of_word_motion(self, motion: str) -> str:
        """Return the motion that ends where `cw` or `cW` ends in Vi: at the end of a word, and not at
        the start of the next one."""
        text = self._buffer.document.text_after_cursor
        kind = _kind_of_character(text[:1], motion)
        if kind == "blank":
            return motion
        is_word_end = _kind_of_character(text[1:2], motion) != kind
        if is_word_end and not self._lower_count():
            return "l"
        return _WORD_MOTIONS[motion]

    def _lower_count(self) -> bool:
        """Make the count of an operator and its motion one less; return False if it is 1."""
        vi = self._app.vi_state
        processor = self._app.key_processor
        motion_count = processor.arg or ""
        count = (vi.operator_arg or 1) * (int(motion_count) if motion_count.isdecimal() else 1)
        if count == 1:
            return False
        vi.operator_arg = None
        processor.arg = str(count - 1)
        return True

    def _takes_name(self, character: str | None) -> bool:
        """Return whether a key is followed by the name of a register."""
        is_incomplete = bool(self._app.key_processor.key_buffer or self._app.vi_state.operator_func)
        return (
            character in _PREFIXES and not is_incomplete and self.mode not in ("replace", "search")
        )

    def _begin_prefix(self, character: str) -> None:
        if character == "q" and self._is_recording:
            self._is_recording = False
        else:
            self._prefix = character

    def _end_prefix(self, key: str, name: str | None) -> None:
        """Note the name of a register; a key that types nothing cancels the command."""
        # Terminals also give Escape a character.
        if key in _KEYS or name is None or not name.isprintable():
            self.forget_command()
            return
        if self._prefix == _REGISTER:
            self._register = name
        elif self._prefix == "q":
            self._is_recording = True
        self._prefix = ""

    def _press_into_register(self, key_press: KeyPress) -> None:
        """Press a key.

        What the command cuts or copies goes into its register, and what it inserts comes from
        there.
        """
        clipboard = self._app.clipboard
        old_data = clipboard.get_data()
        is_paste = bool(self._register) and key_press.data in _PASTES
        if is_paste:
            clipboard.set_data(self._registers.get(self._register, ClipboardData()))
        self._feed(key_press)
        new_data = clipboard.get_data()
        if is_paste or self._register == _NO_REGISTER:
            clipboard.set_data(old_data)
        elif self._register and new_data is not old_data:
            self._registers[self._register] = new_data

    def _end_command(self) -> None:
        """Note the command that is complete now, if it has changed the text."""
        mode = self.mode
        if self._app.key_processor.key_buffer or self._app.key_processor.arg:
            return
        if self._app.vi_state.operator_func or mode not in ("normal", "insert"):
            return
        self._register = ""
        has_changed = self._buffer.text != self._command_text
        if mode == "insert" or has_changed:
            self._last_change = self._typed_keys
            self._last_insertion = ""
        if mode == "insert":
            self._insertion = Insertion(self._buffer.text, self._buffer.cursor_position)
        self._command = []
        self._typed_keys = []

    def _repeat_change(self) -> None:
        """Press the keys of the last change again. A count takes the place of that of the change."""
        count = self._app.key_processor.arg
        self.forget_command()
        keys = self._last_change
        if not keys:
            return
        if count is not None:
            digits = [(digit, digit) for digit in count]
            self._last_change = keys = [*digits, *_without_counts(keys)]
        for key, character in keys:
            self._enter_key(key, character)
        self._command = []
        self._typed_keys = []
        if self.mode == "insert":
            self._buffer.insert_text(self._last_insertion)
            self._insert_again()
            self._feed(KeyPress(Keys.Escape))

    def _feed(self, key_press: KeyPress) -> None:
        if key_press.key == Keys.Enter and self._app.layout.is_searching:
            self._search()
            return
        self._process(key_press)

    def _search(self) -> None:
        """End the search that is being typed.

        Forwards, Vi begins behind the cursor; prompt_toolkit at the cursor.
        """
        start = self._buffer.cursor_position
        pattern = self._search_control.buffer.text
        direction = self._search_control.searcher_search_state.direction
        if direction == SearchDirection.FORWARD and start < len(self._buffer.text):
            self._buffer.cursor_position += 1
        self._process(KeyPress(Keys.Enter, "\r"))
        if not self._buffer.text.startswith(pattern, self._buffer.cursor_position):
            self._buffer.cursor_position = start

    def _process(self, key_press: KeyPress) -> None:
        processor = self._app.key_processor
        with set_app(self._app):
            processor.feed(key_press)
            processor.process_keys()

    def _show(self, text_on_screen: ViText) -> None:
        """Take over what was changed elsewhere: by the mouse, an undo or in insert mode."""
        if text_on_screen == self._state():
            return
        document = Document(text_on_screen.text, text_on_screen.cursor)
        self._buffer.set_document(document, bypass_readonly=True)
        self._buffer.exit_selection()
        if text_on_screen.anchor is not None and self.mode != "insert":
            self._buffer.selection_state = SelectionState(
                text_on_screen.anchor, SelectionType.CHARACTERS
            )

    def _state(self) -> ViText:
        selection = self._buffer.selection_state
        anchor = None if selection is None else selection.original_cursor_position
        return ViText(self._buffer.text, self._buffer.cursor_position, anchor)


def _without_counts(keys: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Return the keys of a change without its counts: `d2w` and `2dw` become `dw`."""
    # A key of the keyboard that types more or less than a character counts as one.
    characters = "".join((character or " ")[0] for _, character in keys)
    counts = _COUNTS.match(characters)
    if counts is None:
        return keys
    operator_keys = keys[counts.start("operator") : counts.end("operator")]
    return [*operator_keys, *keys[counts.end() :]]


def _kind_of_character(character: str, motion: str) -> str:
    """Return what a character belongs to, for the motion w; for W, all but blanks is one kind."""
    if not character or character.isspace():
        return "blank"
    is_word = motion == "W" or character.isalnum() or character == "_"
    return "word" if is_word else "sign"


def _inserted_text(insertion: Insertion, text: str) -> str:
    """Return what was typed at the place where insert mode began; empty if more was changed."""
    text_before = insertion.text[: insertion.cursor]
    text_after = insertion.text[insertion.cursor :]
    if not (text.startswith(text_before) and text.endswith(text_after)):
        return ""
    return text[len(text_before) : len(text) - len(text_after)]
