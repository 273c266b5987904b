"""Makes external text, which may be hostile, harmless for a terminal and readable for a model. A
character is *hidden* if a screen draws nothing or an odd blank for it, or interprets it, or if it
looks like one of Python's quotes. Joiners and selectors that emoji and scripts need are not
hidden."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.style import Style
    from rich.text import Text

CONTROL = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
)
SURROGATE = r"\ud800-\udfff"
_UNSAFE = re.compile(f"[{CONTROL}{SURROGATE}]")
_SURROGATES = re.compile(f"[{SURROGATE}]")
_REMOVED = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI, even if unterminated
    r"|\x1b\][^\x1b\x07\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC; if unterminated, up to the end of its line
    r"|\x1b[PX^_](?:[^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)|[^\x1b\x07\x9c\n]*)"  # DCS, SOS, PM, APC: pictures have several lines
    r"|\x1b[ -/]*[0-~]?"  # other escapes, and a lone one
    # The 8-bit introducers are removed as single characters: in UTF-8 they are left over from
    # wrongly decoded text, not sequences.
    f"|[{CONTROL}]"
)
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")


def plain(text: str) -> str:
    """Remove escape sequences and control characters; lone surrogates become U+FFFD."""
    if not _UNSAFE.search(text):
        return text
    return _SURROGATES.sub("\ufffd", _REMOVED.sub("", text))


def one_line(text: str) -> str:
    """Return `plain(text)` on one line."""
    return plain(text).replace("\n", " ").replace("\t", " ")


Colour = int | tuple[int, int, int] | None
"""One of 256 colours, or red, green and blue."""


class Graphic(NamedTuple):
    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


NO_STYLE = Graphic()
_SWITCHES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_COLOURS = {30: "foreground", 40: "background"}
_LONGEST = 200


@lru_cache(maxsize=4096)
def apply_sgr(graphic: Graphic, parameters: str) -> Graphic:
    if len(parameters) > _LONGEST:
        return graphic
    codes = [-1 if ":" in part else int(part or 0) for part in parameters.split(";")]
    while codes:
        fields: dict[str, Any] = {}
        match codes:
            case [38 | 48 as kind, 5, number, *codes]:
                if number < 256:
                    fields = {_COLOURS[kind - 8]: number}
            case [38 | 48 as kind, 2, red, green, blue, *codes]:
                if max(red, green, blue) < 256:
                    fields = {_COLOURS[kind - 8]: (red, green, blue)}
            case [38 | 48, _, *codes]:
                pass
            case [0, *codes]:
                graphic = NO_STYLE
            case [code, *codes]:
                fields = _simple(code)
        graphic = graphic._replace(**fields)
    return graphic


def _simple(code: int) -> dict[str, Any]:
    if code in _SWITCHES:
        return {_SWITCHES[code]: True}
    if code in _OFF:
        return dict.fromkeys(_OFF[code], False)
    for base, name in _COLOURS.items():
        if base <= code < base + 8:
            return {name: code - base}
        if base + 60 <= code < base + 68:
            return {name: code - base - 60 + 8}
        if code == base + 9:
            return {name: None}
    return {}


@lru_cache(maxsize=4096)
def rich_style(graphic: Graphic) -> Style:
    """Return the Rich style. Anything off stays unset, so that a pane's own colours show."""
    from rich.color import Color
    from rich.style import Style

    def colour(value: Colour) -> Color | None:
        if isinstance(value, tuple):
            return Color.from_rgb(*value)
        return None if value is None else Color.from_ansi(value)

    switches: dict[str, Any] = {name: True for name in _SWITCHES.values() if getattr(graphic, name)}
    return Style(color=colour(graphic.foreground), bgcolor=colour(graphic.background), **switches)


def styled(text: str) -> Text:
    """Return the text with its colours and styles (SGR), and nothing else that `plain` removes."""
    from rich.text import Text

    if "\x1b" not in text:
        return Text(plain(text))
    result, state, start = Text(), NO_STYLE, 0
    for code in _SGR.finditer(text):
        result.append(plain(text[start : code.start()]), rich_style(state))
        state, start = apply_sgr(state, code[1]), code.end()
    result.append(plain(text[start:]), rich_style(state))
    return result


_SUSPECT = re.compile(r"[^\n\t -~]")
_JOINERS_AND_FILLERS = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
_VARIATION_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_BLANK = frozenset(map(chr, (*_JOINERS_AND_FILLERS, *_VARIATION_SELECTORS)))
_LOOKALIKES = frozenset(map(chr, (0x2B9, 0x2BA, 0x2BC, 0x2EE, 0x374, 0x37E, 0xFF02, 0xFF07)))
"""Characters that look like ``'``, ``"`` or ``;``."""
_ZWNJ, _ZWJ, _KEYCAP = "\u200c", "\u200d", "\u20e3"
_SELECTORS = "\ufe0e\ufe0f"
_NEEDED = frozenset((_ZWNJ, _ZWJ, _KEYCAP, *_SELECTORS))
_JOINING = "\u1161-\u11ff\ud7b0-\ud7ff"
_LONG = 100_000
_MOST_MARKS = 4

_REFUSED = re.compile(
    r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]|\r(?!\n)"  # all controls but tab, line end and form feed, which are blanks for Python
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # bidirectional
)


def hidden_characters(text: str) -> Iterator[tuple[int, str]]:
    """Yield position and symbol (``␛``, ``⟨U+202E⟩``) of each hidden character."""
    for found in _SUSPECT.finditer(text):
        if found[0] in _NEEDED and _is_needed(text, found.start()):
            continue
        if symbol := _symbol(found[0]) or (
            _joins(found[0]) and _stray(text, found.start()) and _code_point(found[0])
        ):
            yield found.start(), symbol


def symbols(text: str) -> set[str]:
    """Return the symbols of hidden characters; of a very long text, also of marks that may belong
    to a letter."""
    if len(text) <= _LONG:
        return {symbol for _, symbol in hidden_characters(text)}
    rare = (char for char in set(text) if _SUSPECT.fullmatch(char))
    return {
        symbol for char in rare if (symbol := _symbol(char) or (_joins(char) and _code_point(char)))
    }


def visible(text: str) -> str:
    parts: list[str] = []
    done = 0
    for offset, symbol in hidden_characters(text):
        parts += (text[done:offset], symbol)
        done = offset + 1
    return "".join([*parts, text[done:]]) if done else text


def refusal(code: str) -> str:
    """Return why code must not run, as a sentence for its author and the user; empty if it may."""
    found = _REFUSED.search(code)
    if found is None:
        return ""
    number, line = ord(found[0]), code.count("\n", 0, found.start()) + 1
    escape = f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
    return (
        f"Line {line} contains the character U+{number:04X}, which can hide code from whoever reads it."
        f" Write it as the escape {escape} and send the code again."
    )


def _is_needed(text: str, offset: int) -> bool:
    char, before, after = text[offset], text[offset - 1 : offset], text[offset + 1 : offset + 2]
    if char in _SELECTORS:
        is_digit = after == _KEYCAP and _has_keycap(before)
        return is_digit or _is_emoji(before) or (bool(before) and before in _OTHER_EMOJI)
    if char == _KEYCAP:
        is_selected = bool(before) and before in _SELECTORS
        return _has_keycap(text[offset - 2 : offset - 1] if is_selected else before)
    if before and unicodedata.combining(before) == _VIRAMA:
        return True
    near = reversed(text[max(0, offset - _MOST_MARKS) : offset])
    letter = next((each for each in near if not _joins(each)), "")
    if _is_arabic(letter) and _is_arabic(after):
        return True
    return char == _ZWJ and _is_emoji(letter) and _is_emoji(after)


_OTHER_EMOJI = "\u203c\u2049\u3030\u303d"
_VIRAMA = 9
"""The combining class of signs that join letters, in Indian scripts."""


def _is_emoji(char: str) -> bool:
    return char > "\x7f" and unicodedata.category(char) in ("So", "Sm", "Sk")


def _has_keycap(char: str) -> bool:
    return bool(char) and char in "0123456789#*"


def _is_arabic(char: str) -> bool:
    return bool(char) and char.isalpha() and unicodedata.bidirectional(char) == "AL"


@lru_cache(maxsize=4096)
def _symbol(char: str) -> str:
    if char.isprintable() and char not in _BLANK and char not in _LOOKALIKES:
        return ""
    if char == "\r":
        return "\\r"
    if char < " ":
        return chr(0x2400 + ord(char))
    return "␡" if char == "\x7f" else _code_point(char)


def _code_point(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


@lru_cache(maxsize=4096)
def _joins(char: str) -> bool:
    return unicodedata.category(char).startswith("M") or re.match(f"[{_JOINING}]", char) is not None


def _stray(text: str, offset: int) -> bool:
    start = max(0, offset - _MOST_MARKS)
    base = next((at for at in range(offset - 1, start - 1, -1) if not _joins(text[at])), None)
    return base is None or not text[base].isalnum()
