"""Rows of text that is not Markdown: questions, tool calls, notes, the spinner."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.activity import Activity
from mahtab_tui.tui.panes.transcript.entries import AttachmentChip, Note, Question, ToolUse
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span, hard_rows, paragraph
from mahtab_tui.tui.rows.spinner import FRAME_RATE, FRAMES

if TYPE_CHECKING:
    from mahtab_tui.search.trees import SearchProgress

WAITS = "◈"
LONGEST = 2_000
"""Maximum characters of the arguments; longer ones are cut."""


def question_rows(question: Question, width: int, palette: Palette) -> list[Row]:
    """Draw a question as `You  text`, with the user's line breaks."""
    first, *lines = plain(question.text).expandtabs(4).split("\n")
    spans = [("You", palette.person + BOLD), ("  ", palette.text), (first, palette.text)]
    rows = [*paragraph(spans, width, palette.person)]
    for line in lines:
        rows += paragraph([(line, palette.text)], width, palette.person)
    chips = [chip for attached in question.attached for chip in _chip(attached, palette)]
    return [*rows, *(paragraph(chips, width, palette.person) if chips else ())]


def _chip(attached: AttachmentChip, palette: Palette) -> list[Span]:
    """Draw an attachment with its size, or why it is missing."""
    detail, style = (
        (attached.problem, palette.bad) if attached.problem else (attached.size, palette.muted)
    )
    label, words = (" ".join(plain(text).split()) for text in (attached.label, detail))
    return [(label, palette.moon), (f" {words}   " if words else "   ", style)]


def tool_rows(use: ToolUse, width: int, palette: Palette) -> list[Row]:
    """Draw a call as `⚒ search_code  pattern="x"`, with the result below."""
    mark, style = {
        "ok": ("⚒", palette.model),
        "running": ("⚒", palette.moon),
        "error": ("✗", palette.bad),
    }.get(use.state, ("■", palette.moon))
    arguments = _arguments(use.arguments)
    if len(arguments) > LONGEST:
        arguments = f"{arguments[:LONGEST]}… ({len(arguments):,} characters)"
    how = {"running": "  runs", "ok": ""}.get(use.state, f"  {use.state}")
    head: list[Span] = [
        (f"{mark} ", style),
        (plain(use.name), palette.text),
        (f"  {arguments}", palette.muted),
        (how, style),
    ]
    lines = plain(use.text).expandtabs(4).rstrip("\n").split("\n") if use.text else []
    given = palette.bad if use.state == "error" else palette.muted
    rows = [*paragraph(head, width, palette.model, indent="  ")]
    for line in lines:
        rows += hard_rows([(f"  {line}", given)], width, palette.model)
    return rows


def _arguments(written: str) -> str:
    """Format arguments as keywords in one line, with strings in quotes."""
    try:
        given = dict(json.loads(written))
    except (ValueError, TypeError, RecursionError):  # a record from elsewhere
        return plain(written).replace("\n", " ")
    return plain(
        "  ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items()
        )
    ).replace("\n", " ")


def note_rows(note: Note, width: int, palette: Palette) -> list[Row]:
    """Draw a mark and a sentence."""
    mark, style = {"warning": ("!", palette.moon), "error": ("✗", palette.bad)}.get(
        note.level, ("·", palette.muted)
    )
    words = palette.muted if note.level in ("info", "quiet") else palette.text
    rows: list[Row] = []
    for number, line in enumerate(plain(note.text).expandtabs(4).split("\n")):
        spans = [(f"{mark} " if number == 0 else "  ", style), (line, words)]
        rows += paragraph(spans, width, None, indent="  ")
    return rows


def activity_rows(activity: Activity, palette: Palette) -> list[Row]:
    """Draw the last line; the spinner turns while there is work, but not while the program waits
    for the user."""
    elapsed = max(0.0, time.time() - activity.since)
    frame = WAITS if activity.waits_for_person else FRAMES[int(elapsed * FRAME_RATE) % len(FRAMES)]
    spans = [
        (f"{frame} ", palette.model),
        (f"{plain(activity.party).capitalize()} ", palette.model + BOLD),
        (f"{activity.doing} · {int(elapsed)} s", palette.muted),
    ]
    return [Row(), Row(spans, palette.model)]


def search_rows(search: SearchProgress, width: int, palette: Palette) -> list[Row]:
    """Draw the line below a cell that searches, such as `⠹ 13 calls · 9 s · 12 of 12 parts · F3
    shows them`."""
    elapsed = max(0.0, time.time() - search.begun)
    words = [f"{search.calls:,} call{'s' * (search.calls != 1)}", f"{int(elapsed)} s"]
    if search.parts:
        words.append(f"{search.finished:,} of {search.parts:,} parts")
    frame = FRAMES[int(elapsed * FRAME_RATE) % len(FRAMES)]
    spans = [(f"{frame} ", palette.moon), (" · ".join([*words, "F3 shows them"]), palette.muted)]
    return [Row(), *paragraph(spans, width, palette.hairline, indent="  ")]
