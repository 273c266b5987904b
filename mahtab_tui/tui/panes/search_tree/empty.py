"""What the pane says while there was no search."""

from __future__ import annotations

from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Span, paragraph


def empty_lines(width: int, palette: Palette) -> list[list[Span]]:
    """What a search is for, and one to try. Its colours are put in by hand: the first picture does not wait for the highlighter."""
    words = "A question over a text too long to read is answered by a tree of calls, which grows here. Run"
    rows = [list(row.spans) for row in paragraph([(words, palette.muted)], width, None)]
    return [*rows, [("  rlm(", palette.text), ('"what failed, and why?"', palette.good), (", log)", palette.text)]]
