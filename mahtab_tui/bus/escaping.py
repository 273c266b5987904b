"""Prepares text for a model. Nothing is deleted, so that text hides nothing from the model that
code sees.

Control, bidirectional and tag characters become symbols (``␛``, ``⟨U+202E⟩``). Other invisible
characters (zero-width characters, soft hyphens) belong to many languages and stay, except in what
looks like a tag: there they could form a record's end that only the model sees.
"""

from __future__ import annotations

import re

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.sanitize import CONTROL, SURROGATE
from mahtab_tui.bus.terminal_screen import LINE_END, MOVES, collapse

_CONTROL = rf"{CONTROL}{SURROGATE}\U000e0000-\U000e0fff"
"""Tag characters and more variation selectors, too, which can encode a whole text."""
_UNSEEN = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
_SHOWN = re.compile(rf"[{_CONTROL}]")
_ANY_UNSEEN = re.compile(rf"[{_UNSEEN}]")
_TAG = re.compile(rf"<[\s/{_UNSEEN}]*+[\w{_UNSEEN}-]*+")
_PLAYED = re.compile(rf"({MOVES}|\x1b\[[0-9;:]*m)|(?![\r\b])[{_CONTROL}]")
"""A sequence that `collapse` obeys or keeps, or a control character that it would drop."""

OVERWRITTEN = "[Text that was written over in its line is left out.]"
"""Note to the model after output with overwritten lines, such as progress bars."""


def escape_for_model(text: str) -> str:
    """Return text as a model gets it, with ``\\n`` as line ends."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # as the patterns would, but twenty times as fast
    text = _SHOWN.sub(_visible, LINE_END.sub("\n", text))
    return _TAG.sub(_visible, text) if _ANY_UNSEEN.search(text) else text


def escape_output(text: str, *, rewritten: bool = False) -> str:
    """Return output as a model gets it: overwritten lines as they are in the end, with a note that
    there was more.

    rewritten: whether lines of the text were already collapsed.
    """
    text = LINE_END.sub("\n", text)
    played = _PLAYED.sub(lambda found: found[1] or visible(found[0]), text)
    collapsed = collapse(played)
    if not rewritten and collapsed == played:
        return escape_for_model(collapsed)
    seen = collapsed.rstrip()
    return escape_for_model(f"{seen}\n{OVERWRITTEN}\n" if seen else f"{OVERWRITTEN}\n")


def _visible(found: re.Match[str]) -> str:
    return visible(found[0])
