"""Reads keys, pastes and reports from the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._parser import Peek1, Read1, TokenCallback
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import Key, Paste
from textual.keys import _character_to_key, key_to_character
from textual.message import Message

MAX_SEQUENCE_CHARS = 32
MAX_PENDING_CHARS = 256
MAX_SILENCES = 10
"""After so many calls of `flush_pending` without input, the rest of a sequence is no longer
expected."""

_SEQUENCE = re.compile(
    r"(?:\x1b\[[IO])+(?=\x1b\[[IO])"  # only the last of several reports of the focus counts
    r"|\x1b\[(?:<[-+.;\da-ln-zA-LN-Z]{0,32}[Mm]"  # the mouse, also with malformed numbers
    r"|[0-?]*[ -/]*(?:(?P<final>[@-~])|(?=\x1b|\Z)))"  # CSI
    r"|\x1b(?:\][\dlLI]|[PX^_])[^\x00-\x1f\x7f\x9c]*(?:\x1b\\|[\x07\x9c])"  # OSC, DCS, SOS, PM, APC
)
_UNFINISHED = re.compile(
    r"\x1b(?:\[(?:<[-+.;\da-ln-zA-LN-Z]{0,32}|[0-?]*[ -/]*)|O|(?:\]|[PX^_])[^\x00-\x1f\x7f\x9c]*\x1b?)?\Z"
)
_REST_OF_SEQUENCE = {
    "\x1b": re.compile(
        r"\[(?:<\d[\d;]*(?:[Mm]|\Z)|20[01]~|[\d;]*[~ABCDEFHIOPQRSZu])|O[A-DFHM-S]\Z"
        r"|\]\d+;|P(?:>\||!\||[01][+$]r)|_Gi="
    ),
    "\x1b]": re.compile(r"\d+;"),
    "\x1bP": re.compile(r">\||!\||[01][+$]r"),
    "\x1b_": re.compile(r"Gi="),
}
"""By the start of a sequence that was already read as a key: how its rest begins. It is not typed: it
arrives at once, and typed characters arrive one by one."""
_ALT_START_KEYS = {"\x1b]": "alt+right_square_bracket", "\x1b_": "alt+underscore"}
"""Starts that are keys as well. Textual would read them as the sign alone."""
_SECOND_CHARACTERS = frozenset("[O]PX^_\x1b")
"""What follows the escape character in a sequence of more than two characters."""
_REPLY_START = re.compile(r"\x1b(?:\[|O\Z|\]\d+(?:;|\Z)|P[\d>!+$|]|_G)")
"""The beginning of what only a terminal sends; Alt and a letter begin differently."""
_LATE_KEYS = frozenset(("\x1b[", "\x1bO"))
"""Keys with Alt that may also be the beginning of another key, or of a mouse report, whose rest a
slow line brings later."""
_ALT_WITH_SIGN = re.compile(r"(?<!\x1b)\x1b([ -/:-@\\`{|}~0-9\x7f])")
"""Alt with a character with which no sequence begins."""
_MOUSE_REPORT = re.compile(r"\x1b\[<\d+;-?\d+;-?\d+[Mm]")
_FINAL_CHARACTERS = {keys[-1] for keys in ANSI_SEQUENCES_KEYS if keys.startswith("\x1b[")} | set(
    "u~ABCDEFHPQRSIOty["
)
_SIZE_REPORT = re.compile(r"\x1b\[48(?:;0*[1-9]\d{0,3}){4}t")
"""A possible size of the terminal."""
_LONE_KEY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[\d;:]*[u~]")


class KeyParser(XTermParser):
    """Drops unreadable sequences and impossible sizes, and takes a paste as a whole."""

    def __init__(
        self, debug: bool = False, take_reply: Callable[[str], bool] = lambda sequence: False
    ) -> None:
        """take_reply: gets each whole sequence, and returns True if it was a reply to a query."""
        super().__init__(debug)
        self._take_reply = take_reply
        self._pending = ""
        self._pasted: list[str] | None = None
        self._is_silent = False
        self._silences = 0
        """Calls of `flush_pending` since the last input."""
        self._read_start = ""
        """The last input, if it was the start of a sequence that has been read as a key: an escape
        character, or Alt with a sign."""

    def feed(self, data: str) -> Iterable[Message]:
        # A lone key within a paste, after a silence: the end of the paste was lost.
        if self._pasted is not None and self._is_silent and _LONE_KEY.fullmatch(data):
            data = BRACKETED_PASTE_END + data
        # The rest of a sequence may come late, after its start was read as a key.
        start = self._read_start
        if start and self._silences <= MAX_SILENCES and _REST_OF_SEQUENCE[start].match(data):
            data = start + data
        self._read_start = ""
        self._silences = 0
        # A terminal sends Alt and a letter at once, and a hand types the letter behind Escape.
        is_escape_alone = self._pending == "\x1b" and self._pasted is None
        if is_escape_alone and data and data[0] not in _SECOND_CHARACTERS:
            self._pending = ""
            yield Key("escape", "\x1b")
        data = self._pending + data
        self._pending = ""
        self._is_silent = False
        while data:
            if self._pasted is None:
                typed, mark, data = data.partition(BRACKETED_PASTE_START)
                yield from self._feed_typed(typed, is_last=not mark)
                if mark:
                    self._pasted = []
            else:
                text, mark, data = data.partition(BRACKETED_PASTE_END)
                self._pasted.append(text if mark else self._hold_back_mark(text))
                if mark:
                    pasted = "".join(self._pasted)
                    self._pasted = None
                    yield Paste(pasted.replace("\x00", ""))

    def _feed_typed(self, typed: str, *, is_last: bool) -> Iterable[Message]:
        """Read keys. The start of a sequence at the end of the last input waits for its rest."""
        if is_last and (unfinished := _UNFINISHED.search(typed)):
            typed = typed[: unfinished.start()]
            self._pending = unfinished[0][:MAX_PENDING_CHARS]
        typed = _SEQUENCE.sub(self._readable, typed)
        if typed:
            yield from self._feed_keys(typed)

    def _hold_back_mark(self, text: str) -> str:
        """Return a pasted text without what may be the start of the mark that ends the paste."""
        for length in range(len(BRACKETED_PASTE_END) - 1, 0, -1):
            if text.endswith(BRACKETED_PASTE_END[:length]):
                self._pending = text[-length:]
                return text[:-length]
        return text

    def _feed_keys(self, typed: str) -> Iterable[Message]:
        """Read keys. Textual would read Alt with a sign as the sign, and Alt+Backspace as Ctrl+W."""
        for index, piece in enumerate(_ALT_WITH_SIGN.split(typed)):
            if index % 2:
                name = "backspace" if piece == "\x7f" else _character_to_key(piece)
                yield Key(f"alt+{name}", None)
            # An empty text would end the parser.
            elif piece:
                yield from super().feed(piece)

    def flush_pending(self) -> Iterable[Message]:
        """Read a pending escape character as the Escape key, and drop a sequence whose rest does not
        come. Call it after every tenth of a second without input."""
        self._is_silent = True
        self._silences += 1
        if self._pasted is None:
            yield from self._flush_unfinished()
        if self._timeout_time is not None:
            self._timeout_time = 0.0
        yield from self.tick()

    def _flush_unfinished(self) -> Iterable[Message]:
        """Read the pending characters as keys, unless the rest of a terminal's reply may come."""
        pending = self._pending
        if not pending:
            return
        is_late = self._silences >= MAX_SILENCES
        is_key = pending in ANSI_SEQUENCES_KEYS or (pending in _LATE_KEYS and is_late)
        if not is_key and _REPLY_START.match(pending):
            if is_late or len(pending) >= MAX_PENDING_CHARS:
                self._pending = ""
            return
        self._pending = ""
        self._read_start = pending if pending in _REST_OF_SEQUENCE else ""
        if pending in _ALT_START_KEYS:
            yield Key(_ALT_START_KEYS[pending], None)
        elif len(pending) <= MAX_SEQUENCE_CHARS:
            yield from super().feed(pending)

    def _readable(self, match: re.Match[str]) -> str:
        """Return a sequence if it is a key or a report that Textual knows, or else nothing."""
        sequence = match[0]
        final = match["final"]
        if self._take_reply(sequence):
            return ""
        is_size_report = final == "t" and sequence.startswith("\x1b[48;")
        if is_size_report and not _SIZE_REPORT.fullmatch(sequence):
            return ""
        is_key = final in _FINAL_CHARACTERS and len(sequence) <= MAX_SEQUENCE_CHARS
        if is_key or _MOUSE_REPORT.fullmatch(sequence):
            return sequence
        return ""

    def parse(self, token_callback: TokenCallback[Message]) -> Generator[Read1 | Peek1, str, None]:
        def take(token: Message) -> None:
            if isinstance(token, Key):
                # Otherwise an unknown key would type its letter.
                if token.key.startswith("alt+"):
                    token.character = None
                is_surrogate = token.character and "\ud800" <= token.character <= "\udfff"
                if is_surrogate:
                    return
            token_callback(token)

        while not self.is_eof:
            # After an error, the next character starts a key.
            with suppress(ArithmeticError, ValueError):
                yield from super().parse(take)


def character_with_alt(key: str) -> str:
    """Return the character that is typed with Alt in a key such as ``alt+shift+d``; empty for other
    keys."""
    if not key.startswith("alt+"):
        return ""
    name = key.removeprefix("alt+")
    is_capital = name.startswith("shift+")
    character = key_to_character(name.removeprefix("shift+")) or ""
    if is_capital:
        character = character.upper()
    return character if character.isprintable() else ""
