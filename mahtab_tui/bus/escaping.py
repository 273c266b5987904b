"""Texts for models, in which nothing is hidden.

Control, bidirectional and tag characters become symbols. Characters that nobody sees, such as those
without a width, stay, except within anything that looks like a tag."""

from __future__ import annotations

import re

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.pens import SGR
from mahtab_tui.bus.sanitize import CONTROL, SURROGATE
from mahtab_tui.bus.terminal_screen import MOVES, collapse, unix_line_ends

MAX_LINE_CHARS = 200
"""Maximum characters of a text that is shortened to a line."""
OVERWRITTEN = "[Text that was written over in its line is left out.]"
"""Tells a model that an output is not as it was printed."""

# What stands between the brackets of a set of characters in a pattern.
_CONTROL = rf"{CONTROL}{SURROGATE}\U000e0000-\U000e0fff"
"""Control characters, with tag characters and variation selectors."""
_UNSEEN = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
"""Characters without a width, and blanks that look like no character at all."""
UNSEEN = _CONTROL + _UNSEEN
"""All characters that a model may read over."""

_ANY_CONTROL = re.compile(rf"[{_CONTROL}]")
_ANY_UNSEEN = re.compile(rf"[{_UNSEEN}]")
_TAG_BEGINNING = re.compile(rf"<[\s/{_UNSEEN}]*+[\w{_UNSEEN}-]*+")
"""What looks like the beginning of a tag, up to the end of its name."""
_EMULATED_OR_CONTROL = re.compile(rf"(?P<emulated>{MOVES}|{SGR.pattern})|(?![\r\b])[{_CONTROL}]")
"""An escape sequence whose effect `collapse` carries out, or a control character that it does not
know."""


def escape_controls(text: str) -> str:
    """Return a text in which control characters, and unseen ones in tags, are visible."""
    # The patterns would change nothing in such a text, but take twenty times as long.
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = _ANY_CONTROL.sub(_make_visible, unix_line_ends(text))
    if _ANY_UNSEEN.search(text):
        return _TAG_BEGINNING.sub(_make_visible, text)
    return text


def escape_output(text: str, *, rewritten: bool = False) -> str:
    """Return output for a model. Lines that were written over have their final form, and a note says
    so.

    Args:
        text: The output.
        rewritten: Whether lines that were written over have their final form already.
    """
    emulated = _EMULATED_OR_CONTROL.sub(_keep_emulated, unix_line_ends(text))
    collapsed = collapse(emulated)
    if not rewritten and collapsed == emulated:
        return escape_controls(collapsed)
    visible_text = collapsed.rstrip()
    note = f"{OVERWRITTEN}\n"
    return escape_controls(f"{visible_text}\n{note}" if visible_text else note)


def shorten_line(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    """Return a text in one line, with control characters made visible. A longer one is cut."""
    line = escape_controls(text).replace("\n", " ")
    if len(line) <= max_chars:
        return line
    return f"{line[: max_chars - 1]}…"


def _make_visible(match: re.Match[str]) -> str:
    """Return a text with symbols in place of its hidden characters."""
    return visible(match[0])


def _keep_emulated(match: re.Match[str]) -> str:
    """Return an emulated sequence as it is, and another control character as a symbol."""
    return match["emulated"] or visible(match[0])
