"""Rows of a tool call: name, arguments, state and result."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.panes.transcript.entries import ToolUse
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, hard_cuts, paragraph

LONGEST = 2_000
"""Maximum characters of the arguments; longer ones are cut."""


def tool_rows(use: ToolUse, width: int, palette: Palette) -> list[Row]:
    """Draw a call as `⚒ search_code  pattern="x"`, with the result below."""
    mark, style = {"ok": ("⚒", palette.model), "running": ("⚒", palette.moon), "error": ("✗", palette.bad)}.get(use.state, ("■", palette.moon))
    arguments = _arguments(use.arguments)
    if len(arguments) > LONGEST:
        arguments = f"{arguments[:LONGEST]}… ({len(arguments):,} characters)"
    how = {"running": "  runs", "ok": ""}.get(use.state, f"  {use.state}")
    head: list[Span] = [(f"{mark} ", style), (plain(use.name), palette.text), (f"  {arguments}", palette.muted), (how, style)]
    return [*paragraph(head, width, palette.model, indent="  "), *_given(use, width, palette)]


def _arguments(written: str) -> str:
    """Format arguments as keywords in one line, with strings in quotes."""
    try:
        given = dict(json.loads(written))
    except (ValueError, TypeError, RecursionError):  # a record from elsewhere
        return plain(written).replace("\n", " ")
    return plain("  ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())).replace("\n", " ")


def _given(use: ToolUse, width: int, palette: Palette) -> Iterator[Row]:
    style = palette.bad if use.state == "error" else palette.muted
    if not use.text:
        return
    for line in plain(use.text).expandtabs(4).rstrip("\n").split("\n"):
        spans = [(f"  {line}", style)]
        for number, row in enumerate(cut_spans(spans, hard_cuts(f"  {line}", width))):
            yield Row(row, palette.model, soft=number > 0)
