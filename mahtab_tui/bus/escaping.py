"""Texts for models, in which nothing is hidden.

Control, bidirectional and tag characters become symbols. Zero-width characters stay, except within
anything that looks like a tag."""

from __future__ import annotations

import re

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.pens import SGR
from mahtab_tui.bus.sanitize import CONTROL, SURROGATE
from mahtab_tui.bus.terminal_screen import MOVES, collapse, unix_line_ends

_CONTROL = rf"{CONTROL}{SURROGATE}\U000e0000-\U000e0fff"
"""Control characters, with tag characters and variation selectors."""
_UNSEEN = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
UNSEEN = _CONTROL + _UNSEEN
"""Characters that a model may read over."""
_ANY_CONTROL = re.compile(rf"[{_CONTROL}]")
_ANY_UNSEEN = re.compile(rf"[{_UNSEEN}]")
_TAG = re.compile(rf"<[\s/{_UNSEEN}]*+[\w{_UNSEEN}-]*+")
_EMULATED_OR_CONTROL = re.compile(rf"({MOVES}|{SGR.pattern})|(?![\r\b])[{_CONTROL}]")
MAX_LINE_CHARS = 200
OVERWRITTEN = "[Text that was written over in its line is left out.]"


def escape_controls(text: str) -> str:
    """Return a text in which control characters, and invisible ones in tags, are visible."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # same result as the patterns, but twenty times as fast
    text = _ANY_CONTROL.sub(_visible_match, unix_line_ends(text))
    if _ANY_UNSEEN.search(text):
        return _TAG.sub(_visible_match, text)
    return text


def escape_output(text: str, *, rewritten: bool = False) -> str:
    """Return output for a model: overwritten lines in their final form, with a note.

    Args:
        text: The output.
        rewritten: Overwritten lines have their final form already.
    """

    def keep_emulated(match: re.Match[str]) -> str:
        return match[1] or visible(match[0])

    emulated = _EMULATED_OR_CONTROL.sub(keep_emulated, unix_line_ends(text))
    collapsed = collapse(emulated)
    if not rewritten and collapsed == emulated:
        return escape_controls(collapsed)
    visible_text = collapsed.rstrip()
    note = f"{OVERWRITTEN}\n"
    return escape_controls(f"{visible_text}\n{note}" if visible_text else note)


def _visible_match(match: re.Match[str]) -> str:
    return visible(match[0])


def shorten_line(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    """Return a text as one line, escaped and cut."""
    text = escape_controls(text).replace("\n", " ")
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
