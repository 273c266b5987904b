"""Removes from outside text everything that could drive a terminal.

Text of a model, a cell or a file may be hostile: an OSC 52 sequence writes the clipboard, others
rename the window, clear the screen or make the terminal type; bidirectional controls make code read
differently than it runs. The results of `plain` and `styled` hold no control characters but newline
and tab.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

CONTROL = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
)
SURROGATE = r"\ud800-\udfff"
_UNSAFE = re.compile(f"[{CONTROL}{SURROGATE}]")
_SURROGATES = re.compile(f"[{SURROGATE}]")
_REMOVED = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI, even unterminated
    r"|\x1b\][^\x1b\x07\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC; if unterminated, up to the end of its line
    r"|\x1b[PX^_](?:[^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)|[^\x1b\x07\x9c\n]*)"  # DCS, SOS, PM, APC: pictures have several lines
    r"|\x1b[ -/]*[0-~]?"  # the other escapes, and a lone one
    # The 8-bit introducers are removed as single characters: in UTF-8 they are remains of wrongly
    # decoded text, not sequences.
    f"|[{CONTROL}]"
)
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")


def plain(text: str) -> str:
    """Remove escape sequences and control characters; lone surrogates become U+FFFD."""
    if not _UNSAFE.search(text):
        return text
    return _SURROGATES.sub("\ufffd", _REMOVED.sub("", text))


def one_line(text: str) -> str:
    """Return `plain(text)` in one line."""
    return plain(text).replace("\n", " ").replace("\t", " ")


def styled(text: str) -> Text:
    """Return the text with its colours and styles (SGR), without everything else that `plain`
    removes."""
    from rich.text import Text

    from mahtab_tui.bus.sgr import NO_STYLE, after

    if "\x1b" not in text:
        return Text(plain(text))
    result, state, start = Text(), NO_STYLE, 0
    for code in _SGR.finditer(text):
        result.append(plain(text[start : code.start()]), state.style())
        state, start = after(state, code[1]), code.end()
    result.append(plain(text[start:]), state.style())
    return result
