"""Draws changes to variables and files as lines."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from mahtab_tui.bus import change_lines as changes_in_words
from mahtab_tui.bus.change_lines import ChangeLine
from mahtab_tui.bus.values import Change, FileRestoration, NotRestored


def change_lines(
    changes: Sequence[Change],
    not_restored: Sequence[NotRestored],
    files: Sequence[FileRestoration] = (),
) -> list[Content]:
    """Return a line per change, per file that an undo restores, and per thing that it does not."""
    lines = changes_in_words.change_lines(changes, not_restored, files)
    return [_draw_line(line) for line in lines]


def _draw_line(line: ChangeLine) -> Content:
    parts = [(part.text, "" if part.role == "plain" else f"${part.role}") for part in line]
    return Content.assemble(*parts)
