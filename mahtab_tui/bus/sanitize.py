"""Makes external text, which may be hostile, harmless for a terminal."""

from __future__ import annotations

import re

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


def plain(text: str) -> str:
    """Remove escape sequences and control characters; lone surrogates become U+FFFD."""
    if not _UNSAFE.search(text):
        return text
    return _SURROGATES.sub("\ufffd", _REMOVED.sub("", text))


def one_line(text: str) -> str:
    """Return `plain(text)` on one line."""
    return plain(text).replace("\n", " ").replace("\t", " ")
