"""Glyphs and colours of states and of coverage. The glyphs differ, so that they can be read without
colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mahtab_tui.search.coverage import How
from mahtab_tui.search.node import SearchNode, State
from mahtab_tui.tui.rows.spinner import FRAME_RATE, FRAMES

Role = Literal["person", "model", "moon", "good", "bad", "hairline", "muted", "text"]
"""The name of a style in the palette."""

PHASES = "◐◓◑◒"
_PHASE_RATE = 4

GLYPHS: Mapping[State, tuple[str, Role]] = {
    "waiting": ("◌", "muted"),
    "thinking": ("◉", "model"),
    "running": ("●", "moon"),
    "done": ("✓", "good"),
    "partial": ("≈", "moon"),
    "error": ("✗", "bad"),
    "stopped": ("■", "muted"),
}

CELLS: Mapping[State, tuple[str, Role]] = {
    "waiting": ("·", "muted"),
    "thinking": ("◦", "model"),
    "running": ("▪", "moon"),
    "done": ("■", "good"),
    "partial": ("◪", "moon"),
    "error": ("✗", "bad"),
    "stopped": ("□", "muted"),
}
"""Glyphs of the cells of a field."""

COVER: Mapping[How | None, tuple[str, Role]] = {
    None: ("▁", "hairline"),
    "handed": ("▂", "person"),
    "peek": ("▄", "model"),
    "grep": ("▆", "model"),
    "answer": ("█", "moon"),
}

LEGEND: Mapping[How, str] = {
    "handed": "handed",
    "peek": "read",
    "grep": "matched",
    "answer": "answers",
}


def legend() -> list[tuple[str, Role]]:
    """Return the pieces of text that explain the coverage bar, and their styles."""
    pieces = [
        piece for how, words in LEGEND.items() for piece in (COVER[how], (f" {words} ", "muted"))
    ]
    last, role = pieces[-1]
    return [*pieces[:-1], (last.rstrip(), role)]


def glyph(node: SearchNode, now: float) -> tuple[str, Role]:
    """Return a node's mark. It is animated while the model answers, or code runs without waiting
    for other nodes."""
    if any(batch.asks for batch in node.batches.values()):
        return "?", "moon"
    mark, role = GLYPHS[node.state]
    if node.state == "thinking" and not node.alive:
        mark = FRAMES[int(now * FRAME_RATE) % len(FRAMES)]
    elif node.state == "running" and not node.alive:
        mark = PHASES[int(now * _PHASE_RATE) % len(PHASES)]
    return mark, role
