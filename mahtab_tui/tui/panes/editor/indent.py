"""The indentation of a new line."""

from __future__ import annotations

import re

from mahtab_tui.tui.panes.editor.pieces import bare, spans

STEP = "    "

_LEAVES_BLOCK = re.compile(r"\s*(?:return|pass|break|continue|raise)\b")


def next_indent(before: str) -> str:
    """What a line after this text (all of it, up to the cursor) begins with."""
    start = before.rfind("\n") + 1
    # What was begun in an earlier line and ends in this one belongs to that line.
    for span in sorted(spans(before), reverse=True):
        if span.start < start <= span.end:
            start = before.rfind("\n", 0, span.start) + 1
    statement = before[start:]
    indent = statement[: len(statement) - len(statement.lstrip())]
    if bare(statement).rstrip().endswith((":", "(", "[", "{")):
        return indent + STEP
    if _LEAVES_BLOCK.match(statement):
        return indent[: -len(STEP)]
    return indent
