"""Reads keys, pastes and reports of the terminal, for `TerminalDriver`.

Works around Textual's own parser (8.2.8). This is what it does with what terminals send:

- It types each sequence that it does not know, character by character (issue 3742 brought a list of
  sequences to ignore), also malformed reports of the mouse (issue 6573, open).
- It raises `ValueError` for a number that is no character, after which no key is read any more.
- It accepts any size of the terminal, such as 0 columns.
- It types the end of a sequence that arrives late.
- It reads a paste character by character, and loses it if it contains escape sequences.
- It reads Alt with a sign as the sign alone, Alt+Enter as Enter, and Alt+Backspace as Ctrl+W.
- It types ``^`` and the letter for Alt with a letter if another sequence arrives with it.

`tests/tui/test_textual_fixes.py` tries each of these on the installed version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._keyboard_protocol import FUNCTIONAL_KEYS
from textual._parser import Peek1, Read1, TokenCallback
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import Key, Paste
from textual.keys import _character_to_key, key_to_character
from textual.message import Message

MAX_SEQUENCE_CHARS = 32
"""Longer sequences are not keys."""
MAX_PENDING_CHARS = 256
"""An unfinished sequence is dropped when it is longer."""
MAX_SILENCES = 10
"""After this many calls of `flush_pending` without input, the rest of a sequence is no longer
expected."""

# The parts of sequences, as ECMA-48 defines them.
_MOUSE_REPORT_START = r"\x1b\[<[-+.;\da-ln-zA-LN-Z]{0,32}"
"""A mouse report without its end, which is M or m. Some terminals send "NaN", "undefined" or "1e5"
for a number."""
_CSI_START = r"\x1b\[[0-?]*[ -/]*"
"""A control sequence, as most keys are, without its final character."""
_STRING_TEXT = r"[^\x00-\x1f\x7f\x9c]*"
"""The text of OSC, DCS, SOS, PM or APC, as replies of the terminal are."""

_SEQUENCE = re.compile(
    rf"""
    (?P<outdated_focus>(?:\x1b\[[IO])+)(?=\x1b\[[IO])  # of several reports of the focus, all but the last
    | {_MOUSE_REPORT_START}[Mm]
    | \x1b\[M[^\x00-\x1f]{{3}}                       # the mouse, from terminals without the newer reports
    | {_CSI_START}(?:[@-~]|(?=\x1b|\Z))               # with its end, or interrupted by another sequence
    | \x1b(?:\][\dlLI]|[PX^_]){_STRING_TEXT}(?:\x1b\\|[\x07\x9c])
    """,
    re.VERBOSE,
)
"""A whole sequence, or a control sequence that another one interrupts."""
_UNFINISHED_SEQUENCE = re.compile(
    rf"""
    (?:
        {_MOUSE_REPORT_START}
        | \x1b\[M[^\x00-\x1f]{{0,2}}
        | {_CSI_START}
        | \x1bO                             # a function key
        | \x1b[\]PX^_]{_STRING_TEXT}\x1b?
        | \x1b
    )\Z
    """,
    re.VERBOSE,
)
"""The start of a sequence, at the end of what has come."""
_MOUSE_REPORT = re.compile(r"\x1b\[<\d+;-?\d+;-?\d+[Mm]")
"""A report of the mouse that Textual can read: a button, a column and a line."""
_SIZE_REPORT = re.compile(r"\x1b\[48(?:;0*[1-9]\d{0,3}){4}t")
"""Reports a possible size of the terminal."""
_REPLY_START = re.compile(r"\x1b(?:\[|O\Z|\]\d+(?:;|\Z)|P[\d>!+$|]|_G)")
"""The beginning of what only a terminal sends; Alt and a letter begin differently."""
_ALT_WITH_CHARACTER = re.compile(r"(?<!\x1b)\x1b([^\x00-\x0c\x0e-\x1fbfOPX\[\]^_])")
"""Alt with a character with which no sequence begins, also Enter. Textual knows Alt+B and Alt+F."""
_LONE_KEY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[\d;:]*[u~]")
"""A key that types nothing, such as Ctrl+C."""

_KEY_WITH_NUMBERS = re.compile(r"\x1b\[(\d*)(?:[;:][\d;:]*)?([u~ABCDEFHPQRS])")
"""A key with its number and modifiers, as Kitty and xterm send them."""
_OTHER_KEY = "27"
"""The number with which xterm sends a character with modifiers."""
_REPORT = re.compile(r"\x1b\[(?:\d+;\d+R|\?\d+;\d\$y|[IO]|\[)")
"""Reports the cursor, a mode or the focus, or begins a function key of Linux's console."""
_SECOND_CHARACTERS = frozenset("[O]PX^_\x1b")
"""What follows the escape character in a sequence of more than two characters."""

_REST_OF_SEQUENCE = {
    "\x1b": re.compile(
        r"""
        \[(?:
            <\d[\d;]*(?:[Mm]|\Z)                 # the mouse
            | 20[01]~                            # a paste begins or ends
            | [\d;]*[~ABCDEFHIOPQRSZu]           # a key, or the focus
            | M[^\x00-\x1f]{3}                   # the mouse, from older terminals
            | [?>=]\d[\d;]*(?:\$?[a-z]|\Z)       # attributes and modes
            | \d[\d;]*[nt]                       # the state and the size
        )
        | O[A-DFHM-S]\Z                          # a function key
        | \]\d+;                                # a colour
        | P(?:>\||!\||[01][+$]r)                 # the name and abilities of the terminal
        | _Gi=                                   # graphics
        """,
        re.VERBOSE,
    ),
    "\x1b]": re.compile(r"\d+;"),
    "\x1bP": re.compile(r">\||!\||[01][+$]r"),
    "\x1b_": re.compile(r"Gi="),
}
"""How the rest of a sequence begins whose start was already read as a key, by that start. Typed
characters do not match: they arrive one by one, and the rest of a sequence arrives at once."""
_ALT_START_KEYS = {
    "\x1b]": "alt+right_square_bracket",
    "\x1b^": "alt+circumflex_accent",
    "\x1b_": "alt+underscore",
}
"""Starts of sequences that are keys as well."""
_LATE_KEYS = frozenset(("\x1b[", "\x1bO"))
"""Keys with Alt that may also be the start of another key, or of a mouse report, whose rest a slow
line brings later."""


class KeyParser(XTermParser):
    """Reads input in pieces of any size. Not thread-safe; the driver's input thread uses it."""

    def __init__(
        self, debug: bool = False, take_reply: Callable[[str], bool] = lambda sequence: False
    ) -> None:
        """
        Args:
            debug: Whether Textual logs the input to ``keys.log``.
            take_reply: Called with each whole sequence. Returns True if it is a reply to a query
                of ours, which is then not read as a key.
        """
        super().__init__(debug)
        self._take_reply = take_reply
        self._pending = ""
        """The start of a sequence at the end of the last input."""
        self._pasted_pieces: list[str] | None = None
        """What has arrived of a paste; None outside a paste."""
        self._silence_count = 0
        """Calls of `flush_pending` since the last input."""
        self._start_read_as_key = ""
        """The last input, if it was a start of `_REST_OF_SEQUENCE` and nothing followed in time."""

    def feed(self, data: str) -> Iterable[Message]:
        """Read input.

        Args:
            data: Not empty. It may begin and end within a sequence or a paste.

        Yields:
            Keys, pastes, and reports of the mouse, the focus and the size.
        """
        if self._is_end_of_paste_lost(data):
            data = BRACKETED_PASTE_END + data
        elif self._is_rest_of_key(data):
            data = self._start_read_as_key + data
        self._start_read_as_key = ""
        self._silence_count = 0
        if self._is_typed_after_escape(data):
            self._pending = ""
            yield Key("escape", "\x1b")

        data = self._pending + data
        self._pending = ""
        while data:
            if self._pasted_pieces is None:
                typed, mark, data = data.partition(BRACKETED_PASTE_START)
                yield from self._read_typed(typed, is_last=not mark)
                if mark:
                    self._pasted_pieces = []
            else:
                piece, mark, data = data.partition(BRACKETED_PASTE_END)
                if not mark:
                    piece = self._hold_back_mark(piece)
                self._pasted_pieces.append(piece)
                if mark:
                    pasted_text = "".join(self._pasted_pieces)
                    self._pasted_pieces = None
                    yield Paste(pasted_text.replace("\x00", ""))

    def flush_pending(self) -> Iterable[Message]:
        """Read a pending escape character as the Escape key, and drop a sequence whose rest does not
        come. Call it after every tenth of a second without input."""
        self._silence_count += 1
        if self._pasted_pieces is None:
            yield from self._read_pending()
        # Textual's own parser waits for the rest of a key, too.
        if self._timeout_time is not None:
            self._timeout_time = 0.0
        yield from self.tick()

    def _is_end_of_paste_lost(self, data: str) -> bool:
        """Return whether input is a key that is pressed while a paste seems to go on."""
        is_silent_paste = self._pasted_pieces is not None and self._silence_count > 0
        return is_silent_paste and _LONE_KEY.fullmatch(data) is not None

    def _is_rest_of_key(self, data: str) -> bool:
        """Return whether input continues a sequence whose start was already read as a key."""
        start = self._start_read_as_key
        if not start or self._silence_count > MAX_SILENCES:
            return False
        return _REST_OF_SEQUENCE[start].match(data) is not None

    def _is_typed_after_escape(self, data: str) -> bool:
        """Return whether the pending escape character is the Escape key, and input is what was typed
        after it: a terminal sends Alt and a letter at once."""
        is_escape_pending = self._pending == "\x1b" and self._pasted_pieces is None
        return is_escape_pending and data != "" and data[0] not in _SECOND_CHARACTERS

    def _hold_back_mark(self, piece: str) -> str:
        """Return a piece of a paste without what may be the start of the mark that ends the paste."""
        for length in range(len(BRACKETED_PASTE_END) - 1, 0, -1):
            if piece.endswith(BRACKETED_PASTE_END[:length]):
                self._pending = piece[-length:]
                return piece[:-length]
        return piece

    def _read_typed(self, typed: str, *, is_last: bool) -> Iterable[Message]:
        """Read input outside a paste.

        Args:
            is_last: Whether an unfinished sequence may go on in the next input.
        """
        if is_last and (unfinished := _UNFINISHED_SEQUENCE.search(typed)):
            typed = typed[: unfinished.start()]
            self._pending = unfinished[0][:MAX_PENDING_CHARS]
        typed = _SEQUENCE.sub(self._known_sequence, typed)
        if typed:
            yield from self._read_keys(typed)

    def _known_sequence(self, match: re.Match[str]) -> str:
        """Return a sequence if it is a key or a report that Textual knows, or else nothing."""
        sequence = match[0]
        if self._take_reply(sequence) or match["outdated_focus"]:
            return ""
        is_report = any(
            report.fullmatch(sequence) for report in (_REPORT, _SIZE_REPORT, _MOUSE_REPORT)
        )
        return sequence if is_report or _is_key(sequence) else ""

    def _read_keys(self, typed: str) -> Iterable[Message]:
        """Read keys, those with Alt and a character without Textual."""
        position = 0
        for alt_key in _ALT_WITH_CHARACTER.finditer(typed):
            yield from self._read_by_textual(typed[position : alt_key.start()])
            yield Key(f"alt+{_key_name(alt_key[1])}", None)
            position = alt_key.end()
        yield from self._read_by_textual(typed[position:])

    def _read_by_textual(self, typed: str) -> Iterable[Message]:
        # An empty text would end Textual's parser.
        if typed:
            yield from super().feed(typed)

    def _read_pending(self) -> Iterable[Message]:
        """Read the pending characters as keys, unless the rest of a terminal's reply may come."""
        pending = self._pending
        if not pending:
            return
        is_late = self._silence_count >= MAX_SILENCES
        is_key = pending in ANSI_SEQUENCES_KEYS or (pending in _LATE_KEYS and is_late)
        if not is_key and _REPLY_START.match(pending):
            if is_late or len(pending) >= MAX_PENDING_CHARS:
                self._pending = ""
            return

        self._pending = ""
        if pending in _REST_OF_SEQUENCE:
            self._start_read_as_key = pending
        else:
            self._start_read_as_key = ""
        if pending in _ALT_START_KEYS:
            yield Key(_ALT_START_KEYS[pending], None)
        elif len(pending) <= MAX_SEQUENCE_CHARS:
            yield from self._read_by_textual(pending)

    def parse(self, token_callback: TokenCallback[Message]) -> Generator[Read1 | Peek1, str, None]:
        """Go on after an error, and change keys that Textual reads wrongly."""

        def correct_key(token: Message) -> None:
            if isinstance(token, Key):
                # Otherwise an unknown key with Alt would type its letter.
                if token.key.startswith("alt+"):
                    token.character = None
                # A lone surrogate is not a character; it cannot be encoded.
                elif token.character and "\ud800" <= token.character <= "\udfff":
                    return
            token_callback(token)

        while not self.is_eof:
            # After an error, the next character starts a key.
            with suppress(ArithmeticError, ValueError):
                yield from super().parse(correct_key)


def _is_key(sequence: str) -> bool:
    """Return whether a control sequence is a key that Textual knows.

    Of others it types the characters, or the one that has the number.
    """
    if sequence in ANSI_SEQUENCES_KEYS:
        return True
    key = _KEY_WITH_NUMBERS.fullmatch(sequence)
    if key is None or len(sequence) > MAX_SEQUENCE_CHARS:
        return False
    number, final_character = key.groups()
    types_characters = final_character == "u" or (number, final_character) == (_OTHER_KEY, "~")
    return types_characters or f"{number or 1}{final_character}" in FUNCTIONAL_KEYS


def _key_name(character: str) -> str:
    """Return the name of the key that types a character, after ``alt+``."""
    if character == "\r":
        return "enter"
    if character == "\x7f":
        return "backspace"
    name = _character_to_key(character)
    is_capital_letter = len(name) == 1 and name.isupper()
    return f"shift+{name.lower()}" if is_capital_letter else name


def character_with_alt(key: str) -> str:
    """Return the character that is typed with Alt in a key such as ``alt+shift+d``.

    Empty for other keys.
    """
    if not key.startswith("alt+"):
        return ""
    name = key.removeprefix("alt+")
    is_capital = name.startswith("shift+")
    character = key_to_character(name.removeprefix("shift+")) or ""
    if is_capital:
        character = character.upper()
    return character if character.isprintable() else ""
