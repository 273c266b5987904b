"""Vi's keys on a text, by prompt_toolkit, which has them for the prompts of IPython and others.

prompt_toolkit's application is never run here, and reads and draws nothing: it gets a key, and changes
its buffer. It has modes, motions, operators, text objects, counts, searches and visual modes. Ours are
the repetition of a change with ``.`` and the prefix ``"x`` for registers, which prompt_toolkit (3.0.53)
has for few commands and reads from the wrong keys. In insert mode the text area itself takes the keys.
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
_REPEAT = "."
_REGISTER = '"'
_PREFIXES = frozenset('"q@')
"""Keys that are followed by the name of a register. Macros (q, @) would lack what is typed in insert
mode, so they do nothing."""
_PASTES = frozenset("pP")
_CHANGE = re.compile(r"[0-9]*c[0-9]*")
_WORD_MOTIONS = {"w": "e", "W": "E"}
"""In Vi, `cw` leaves the blanks behind the word."""


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


class ViKeys:
    """The keys of all modes but insert mode."""

    def __init__(self) -> None:
        self._buffer = Buffer(multiline=True)
        self._search_control = SearchBufferControl()
        control = BufferControl(self._buffer, search_buffer_control=self._search_control)
        self._app: Application[None] = Application(
            layout=Layout(HSplit([Window(control), Window(self._search_control)])),
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
        self._last_change: list[KeyPress] = []
        self._last_insertion = ""
        """What was typed in insert mode after the last change."""
        self._insertion: Insertion | None = None
        """Set while the insert mode lasts that a command has begun."""
        self._registers: dict[str, ClipboardData] = {}
        self._register = ""
        """The register of the command that is being entered; empty for the unnamed one."""
        self._prefix = ""
        """The last key, if it is one of `_PREFIXES`."""
        self._is_recording = False
        """Whether the next `q` would end a macro."""

    @property
    def mode(self) -> ViMode:
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
        """The number that was typed before a command; 1 for none."""
        argument = self._app.key_processor.arg or ""
        return int(argument) if argument.isdecimal() else 1

    def takes(self, key: str, character: str | None) -> bool:
        """Return whether `press` knows what to do with a key."""
        return key in _KEYS or (character is not None and character.isprintable())

    def leave_insert_mode(self, text_on_screen: ViText) -> ViText:
        """Go from insert mode to normal mode."""
        if self._insertion is not None:
            self._last_insertion = _inserted_text(self._insertion, text_on_screen.text)
            self._insertion = None
        self._show(text_on_screen)
        self._feed(KeyPress(Keys.Escape))
        return self._state()

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
        self._command = []
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
        is_command_start = not self._command and self.mode in ("normal", "visual", "visual line")
        if self._prefix:
            self._end_prefix(key, character)
        elif is_command_start and character == _REPEAT:
            self._repeat_change()
        elif self._takes_name(character):
            self._begin_prefix(character or "")
        else:
            if not self._command:
                self._command_text = self._buffer.text
            self._command.append(self._key_press(key, character))
            self._press_into_register(self._command[-1])
            self._end_command()
        return self._state()

    def _key_press(self, key: str, character: str | None) -> KeyPress:
        """Return a key as prompt_toolkit knows it."""
        command = "".join(key_press.data for key_press in self._command)
        if character in _WORD_MOTIONS and _CHANGE.fullmatch(command) and self.mode == "normal":
            character = self._end_of_word_motion(character, has_count=command != "c")
        return KeyPress(_KEYS.get(key, character or ""), character or "")

    def _end_of_word_motion(self, motion: str, *, has_count: bool) -> str:
        """Return the motion that ends where `cw` or `cW` ends in Vi: at the end of a word, and not at
        the start of the next one."""
        text = self._buffer.document.text_after_cursor
        kind = _kind_of_character(text[:1], motion)
        if kind == "blank":
            return motion
        is_word_end = _kind_of_character(text[1:2], motion) != kind
        if is_word_end and not has_count:
            return "l"
        return _WORD_MOTIONS[motion]

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
        """Press a key. What the command cuts or copies goes into its register, and what it inserts
        comes from there."""
        clipboard = self._app.clipboard
        old_data = clipboard.get_data()
        is_paste = bool(self._register) and key_press.data in _PASTES
        if is_paste:
            clipboard.set_data(self._registers.get(self._register, ClipboardData()))
        self._feed(key_press)
        new_data = clipboard.get_data()
        if is_paste:
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
            self._last_change = self._command
            self._last_insertion = ""
        if mode == "insert":
            self._insertion = Insertion(self._buffer.text, self._buffer.cursor_position)
        self._command = []

    def _repeat_change(self) -> None:
        for key_press in self._last_change:
            self._feed(key_press)
        if self.mode == "insert":
            self._buffer.insert_text(self._last_insertion)
            self._feed(KeyPress(Keys.Escape))

    def _feed(self, key_press: KeyPress) -> None:
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
