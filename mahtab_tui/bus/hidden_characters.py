"""Finds the characters that hide something from whoever reads a text, or hide in it.

A character is *hidden* if a screen draws nothing or an odd blank for it, or interprets it, or if it
looks like one of Python's quotes. Joiners and selectors that emoji and scripts need are not hidden.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_NOT_ASCII_TEXT = re.compile(r"[^\n\t -~]")
_JOINERS_AND_FILLERS = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
_VARIATION_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_BLANK_CHARACTERS = frozenset(map(chr, (*_JOINERS_AND_FILLERS, *_VARIATION_SELECTORS)))
_LOOKALIKES = frozenset(map(chr, (0x2B9, 0x2BA, 0x2BC, 0x2EE, 0x374, 0x37E, 0xFF02, 0xFF07)))
"""Characters that look like ``'``, ``"`` or ``;``."""
_ZWNJ = "\u200c"
_ZWJ = "\u200d"
_KEYCAP = "\u20e3"
_EMOJI_SELECTORS = "\ufe0e\ufe0f"
_PERHAPS_NEEDED = frozenset((_ZWNJ, _ZWJ, _KEYCAP, *_EMOJI_SELECTORS))
"""Characters that emoji and scripts need between others; elsewhere they are hidden."""
_JOINING_LETTER = re.compile("[\u1161-\u11ff\ud7b0-\ud7ff]")
"""Letters of Hangul that become one syllable with the letter before."""
_OTHER_EMOJI = "\u203c\u2049\u3030\u303d"
"""Emoji whose category is that of punctuation."""
_VIRAMA_CLASS = 9
"""The combining class of signs that join letters, in Indian scripts."""
MAX_MARKS_PER_LETTER = 4
"""A mark further away from its letter is hidden."""
MAX_EXACT_CHARS = 100_000
"""A longer text is searched by characters, not by positions."""

_REFUSED = re.compile(
    r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]|\r(?!\n)"  # all controls but tab, line end and form feed, which are blanks for Python
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # bidirectional
)


def hidden_characters(text: str) -> Iterator[tuple[int, str]]:
    """Yield position and symbol (``␛``, ``⟨U+202E⟩``) of each hidden character."""
    for match in _NOT_ASCII_TEXT.finditer(text):
        char = match[0]
        offset = match.start()
        if char in _PERHAPS_NEEDED and _is_needed(text, offset):
            continue
        symbol = _symbol(char)
        # A mark is visible on its letter only.
        if not symbol and _joins_letter(char) and _has_no_letter(text, offset):
            symbol = _code_point(char)
        if symbol:
            yield offset, symbol


def symbols(text: str) -> set[str]:
    """Return the symbols of hidden characters.

    In a very long text, marks that may belong to a letter are among them.
    """
    if len(text) <= MAX_EXACT_CHARS:
        return {symbol for _, symbol in hidden_characters(text)}

    text_symbols: set[str] = set()
    for char in set(text):
        if not _NOT_ASCII_TEXT.fullmatch(char):
            continue
        if symbol := _symbol(char):
            text_symbols.add(symbol)
        elif _joins_letter(char):
            text_symbols.add(_code_point(char))
    return text_symbols


def visible(text: str) -> str:
    """Replace hidden characters by their symbols."""
    pieces: list[str] = []
    end = 0
    for offset, symbol in hidden_characters(text):
        pieces += (text[end:offset], symbol)
        end = offset + 1
    if not pieces:
        return text
    pieces.append(text[end:])
    return "".join(pieces)


def refusal(code: str) -> str:
    """Return why code must not run, as a sentence for its author and the user; empty if it may."""
    match = _REFUSED.search(code)
    if match is None:
        return ""
    number = ord(match[0])
    line = code.count("\n", 0, match.start()) + 1
    if number < 0x100:
        escape = f"\\x{number:02x}"
    else:
        escape = f"\\u{number:04x}"
    return (
        f"Line {line} contains the character U+{number:04X}, which can hide code from whoever reads it."
        f" Write it as the escape {escape} and send the code again."
    )


def _is_needed(text: str, offset: int) -> bool:
    """Whether one of `_PERHAPS_NEEDED` has an effect between the characters around it."""
    char = text[offset]
    preceding = text[offset - 1 : offset]
    following = text[offset + 1 : offset + 2]

    if char in _EMOJI_SELECTORS:
        is_keycap = following == _KEYCAP and _may_have_keycap(preceding)
        is_other_emoji = bool(preceding) and preceding in _OTHER_EMOJI
        return is_keycap or is_other_emoji or _is_emoji(preceding)
    if char == _KEYCAP:
        # A selector may stand between the digit and its keycap.
        if preceding and preceding in _EMOJI_SELECTORS:
            return _may_have_keycap(text[offset - 2 : offset - 1])
        return _may_have_keycap(preceding)

    # A joiner or non-joiner.
    if preceding and unicodedata.combining(preceding) == _VIRAMA_CLASS:
        return True
    nearby = text[max(0, offset - MAX_MARKS_PER_LETTER) : offset]
    letter = next(
        (nearby_char for nearby_char in reversed(nearby) if not _joins_letter(nearby_char)), ""
    )
    if _is_arabic(letter) and _is_arabic(following):
        return True
    return char == _ZWJ and _is_emoji(letter) and _is_emoji(following)


def _is_emoji(char: str) -> bool:
    return char > "\x7f" and unicodedata.category(char) in ("So", "Sm", "Sk")


def _may_have_keycap(char: str) -> bool:
    return bool(char) and char in "0123456789#*"


def _is_arabic(char: str) -> bool:
    return bool(char) and char.isalpha() and unicodedata.bidirectional(char) == "AL"


@lru_cache(maxsize=4096)
def _symbol(char: str) -> str:
    """Return the symbol of a character that is hidden wherever it stands; empty if it is not."""
    if char.isprintable() and char not in _BLANK_CHARACTERS and char not in _LOOKALIKES:
        return ""
    if char == "\r":
        return "\\r"
    if char < " ":
        return chr(0x2400 + ord(char))
    if char == "\x7f":
        return "␡"
    return _code_point(char)


def _code_point(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


@lru_cache(maxsize=4096)
def _joins_letter(char: str) -> bool:
    """Whether a character is drawn on or with the letter before it."""
    return unicodedata.category(char).startswith("M") or _JOINING_LETTER.match(char) is not None


def _has_no_letter(text: str, offset: int) -> bool:
    """Whether there is no letter near enough for a mark."""
    first_offset = max(0, offset - MAX_MARKS_PER_LETTER)
    for char in reversed(text[first_offset:offset]):
        if not _joins_letter(char):
            return not char.isalnum()
    return True
