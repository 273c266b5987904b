"""Text as a model is told it: nothing is deleted, so that nothing can hide from the model what code sees, or from the person what the model reads.

Control, bidirectional and tag characters come as symbols (``␛``, ``⟨U+202E⟩``), which a model reads as what they are. What else is not
seen (zero-width characters, soft hyphens) belongs to many languages and stays, but where it stands in what looks like a tag: there it
could make a record's end that only the model sees.
"""

from __future__ import annotations

import re

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.overwrite import LINE_END, MOVES, collapse

_CONTROL = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional
    r"\ud800-\udfff"
    r"\U000e0000-\U000e0fff"  # letters of tags and further variation selectors: a whole text can stand in them
)
_UNSEEN = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
_SHOWN = re.compile(rf"[{_CONTROL}]")
_ANY_UNSEEN = re.compile(rf"[{_UNSEEN}]")
_TAG = re.compile(rf"<[\s/{_UNSEEN}]*+[\w{_UNSEEN}-]*+")
_PLAYED = re.compile(rf"({MOVES}|\x1b\[[0-9;:]*m)|(?![\r\b])[{_CONTROL}]")
"""A sequence that `collapse` plays or keeps, or a control character that it would drop."""

OVERWRITTEN = "[Text that was written over in its line is left out.]"
"""Told behind output whose lines were rewritten, as progress bars do."""


def told(text: str) -> str:
    """A text, with line ends of one kind."""
    text = _SHOWN.sub(_visible, LINE_END.sub("\n", text))
    return _TAG.sub(_visible, text) if _ANY_UNSEEN.search(text) else text


def told_output(text: str, *, rewritten: bool = False) -> str:
    """What was printed: lines that rewrite themselves come as they stand at their end, and that there was more is said.

    rewritten: whether the text stands so already, and there was more.
    """
    text = LINE_END.sub("\n", text)
    played = _PLAYED.sub(lambda found: found[1] or visible(found[0]), text)
    collapsed = collapse(played)
    if not rewritten and collapsed == played:
        return told(collapsed)
    seen = collapsed.rstrip()
    return told(f"{seen}\n{OVERWRITTEN}\n" if seen else f"{OVERWRITTEN}\n")


def _visible(found: re.Match[str]) -> str:
    return visible(found[0])
