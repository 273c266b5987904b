"""Reads the terminal's control sequences: those that are no key are dropped, so that none of their
characters is typed.

Textual's own parser raises on numbers that are no characters, and types a sequence that it does not
know, key by key.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterable

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._parser import Peek1, Read1, TokenCallback
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.events import Key, Paste, Resize
from textual.message import Message

LONGEST_SEQUENCE = 32
"""Characters of the longest sequence of a key or the mouse."""
LONGEST_TYPED = 256
"""Characters that a user may have typed since the last read."""
LARGEST = 10_000
"""Columns or lines of the largest terminal."""

_SEQUENCE = re.compile(
    r"(?P<focus>(?:\x1b\[[IO])+(?=\x1b\[[IO]))"
    r"|(?P<mouse>\x1b\[<[-+.;\w]{0,32}?)(?:(?P<button>[Mm])|\Z)"  # also with numbers that are none
    r"|(?P<no_numbers>\x1b\[[=>?]?(?:[-+.:;\d]*(?:NaN|Infinity|null|undefined))+[-+.:;\d]*[@-~])"
    r"|(?P<control>\x1b\[[0-?]*[ -/]*)(?P<final>[@-~])?"  # CSI
    r"|(?P<string>\x1b(?:\][\dlLI]|[PX^_])[^\x00-\x1f\x7f\x9c]*)(?:(?P<end>\x1b\\|[\x07\x9c])|\x1b\Z)?"  # OSC, DCS, SOS, PM, APC
    r"|(?P<escape>\x1b)\Z"
)
_MOUSE = re.compile(r"\x1b\[<\d+;-?\d+;-?\d+[Mm]")
_FINALS = {keys[-1] for keys in ANSI_SEQUENCES_KEYS if keys.startswith("\x1b[")} | set(
    "u~ABCDEFHPQRSMmIOty["
)
"""The last characters of sequences for keys, the mouse, the focus, sizes and modes."""
_PASTED_ESCAPE = "\ufdd0"
"""Replaces Escape within a paste, so that nothing in it looks like the end of the paste; no text
has this character."""
_LONE_KEY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[\d;:]*[u~]")


class KeySequences:
    """Passes on the sequences of keys, the mouse and pastes. A sequence may be split over several
    reads."""

    def __init__(self) -> None:
        self._held = ""
        """The beginning of a sequence that continues in the next read, up to the length from which
        it is too long."""
        self._pasting = False
        self._silent = False

    def take(self, typed: str) -> str:
        """Filter what was read; linear time."""
        if (
            self._pasting
            and self._silent
            and typed != BRACKETED_PASTE_END
            and _LONE_KEY.fullmatch(typed)
        ):
            typed = (
                BRACKETED_PASTE_END + typed
            )  # the end of the paste was lost, and the user presses a key
        if self._silent and len(typed) == 1 and self._is_no_key():
            self._held = ""  # the end of the sequence was lost, and the user presses a key
        typed, self._held, self._silent = self._held + typed, "", False
        passed = []
        while typed:
            if self._pasting:
                text, mark, typed = typed.partition(BRACKETED_PASTE_END)
                if not mark:
                    text, self._held = _without_begun(text, BRACKETED_PASTE_END)
                text = text.replace("\x1b", _PASTED_ESCAPE)
            else:
                text, mark, typed = typed.partition(BRACKETED_PASTE_START)
                text = self._readable(text, last=not mark)
            self._pasting ^= bool(mark)
            passed += [text, mark]
        return "".join(passed)

    def silence(self) -> str:
        """Return what was held back if it may be a key, because nothing came for a while."""
        self._silent = True
        if self._pasting or self._is_no_key():  # the rest may still come
            return ""
        held, self._held = self._held, ""
        return held

    def _is_no_key(self) -> bool:
        """Whether what is held back is too long to be typed."""
        return len(self._held) > (
            LONGEST_SEQUENCE if self._held.startswith("\x1b[") else LONGEST_TYPED
        )

    def _readable(self, text: str, *, last: bool) -> str:
        """Drop what is no key. last: whether nothing after this text was read yet."""

        def readable(found: re.Match[str]) -> str:
            goes_on = last and found.end() == len(text)
            if found["focus"]:
                return ""  # of several reports only the last counts
            if found["button"]:
                return found[0] if _MOUSE.fullmatch(found[0]) else ""
            if found["mouse"]:
                self._held = found[0] if last else ""
                return ""
            if found["no_numbers"]:
                return ""
            if found["escape"] and last:  # the key, or the beginning of a sequence
                self._held = found[0]
                return ""
            if found["string"]:
                return self._string(found[0], ended=bool(found["end"]), goes_on=goes_on)
            if found["final"]:
                return (
                    found[0]
                    if len(found[0]) <= LONGEST_SEQUENCE and found["final"] in _FINALS
                    else ""
                )
            if goes_on:
                self._held = found[0][: LONGEST_SEQUENCE + 1]
                return ""
            broken = len(found[0]) > LONGEST_SEQUENCE or text[found.end() : found.end() + 1] in (
                "",
                "\x1b",
            )
            return "" if broken else found[0]

        return _SEQUENCE.sub(readable, text)

    def _string(self, sequence: str, *, ended: bool, goes_on: bool) -> str:
        """Drop an answer of the terminal. A short one without an end is Alt and a letter, followed
        by what was typed."""
        if not ended and len(sequence) <= LONGEST_TYPED:
            if not goes_on or len(sequence) <= LONGEST_SEQUENCE:
                return sequence
            self._held = sequence  # an answer that comes in several reads, unless nothing follows
            return ""
        if not ended and goes_on:
            self._held = sequence[:LONGEST_TYPED] + sequence[-1]
        return ""


def _without_begun(text: str, mark: str) -> tuple[str, str]:
    """Split off the end of a text if it may be the beginning of a mark."""
    begun = next(
        (length for length in range(len(mark) - 1, 0, -1) if text.endswith(mark[:length])), 0
    )
    return text[: len(text) - begun], text[len(text) - begun :]


class KeyParser(XTermParser):
    """Textual's parser, which survives a sequence that it cannot read, takes a paste as a whole (2
    µs a character otherwise), and ignores impossible sizes of the terminal. Feed it with what
    `KeySequences` passes on."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        """The parts of a paste so far; None outside a paste."""

    def feed(self, data: str) -> Iterable[Message]:
        if not data:
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                typed, mark, data = data.partition(BRACKETED_PASTE_START)
                if typed:
                    yield from super().feed(typed)
                if mark:
                    self._pasted = []
            else:
                text, mark, data = data.partition(BRACKETED_PASTE_END)
                self._pasted.append(text)
                if mark:
                    whole, self._pasted = "".join(self._pasted), None
                    yield Paste(whole.replace(_PASTED_ESCAPE, "\x1b").replace("\x00", ""))

    def silence(self) -> Iterable[Message]:
        """Treat the beginning of a sequence as a key, because nothing came for a while."""
        if self._timeout_time is not None:
            self._timeout_time = 0.0
        return self.tick()

    def parse(self, token_callback: TokenCallback[Message]) -> Generator[Read1 | Peek1, str, None]:
        believed = self.terminal_size, self.terminal_pixel_size, self.mouse_pixels

        def take(token: Message) -> None:
            nonlocal believed
            if isinstance(token, Resize):
                if _is_possible(token):
                    believed = self.terminal_size, self.terminal_pixel_size, self.mouse_pixels
                else:
                    self.terminal_size, self.terminal_pixel_size, self.mouse_pixels = believed
                    return
            if not (
                isinstance(token, Key)
                and token.character
                and "\ud800" <= token.character <= "\udfff"
            ):
                token_callback(token)

        while not self.is_eof:
            with contextlib.suppress(
                ArithmeticError, ValueError
            ):  # the next character begins a key
                yield from super().parse(take)


def _is_possible(size: Resize) -> bool:
    pixels = size.pixel_size
    return (
        0 < size.size.width <= LARGEST
        and 0 < size.size.height <= LARGEST
        and (pixels is None or (pixels.width > 0 and pixels.height > 0))
    )
