"""Draws the entries of a transcript as rows, and estimates how many rows they have.

`_DRAWERS` names what draws each kind of entry: a function, or for what grows while it is shown (cells,
answers) a class that draws only what is new. `EntryRows` is the same for all kinds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.entries import (
    AnswerText,
    Cell,
    Entry,
    Note,
    PlanState,
    PlanStep,
    Question,
    ToolUse,
)
from mahtab_tui.bus.plans import PLAN_HEADING
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.long_texts import MAX_CODE_LINES, fits_undivided, shorten_text
from mahtab_tui.tui.rows.row import FRAME_RATE, FRAMES, Row, Rows, Span, hard_cuts, paragraph
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.transcript.activities import Activity
from mahtab_tui.tui.transcript.cell_rows import CellRows
from mahtab_tui.tui.transcript.notebook_text import NotebookText
from mahtab_tui.tui.transcript.output import FOLD_ABOVE_LINES, OutputRows
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace
from mahtab_tui.tui.transcript.words_rows import (
    MAX_HEAD_CHARS,
    MAX_HEAD_LINES,
    MAX_TAIL_CHARS,
    MAX_TAIL_LINES,
    WordsRows,
    is_drawn_whole,
)

if TYPE_CHECKING:
    from mahtab_tui.search.trees import SearchProgress

MAX_ARGUMENTS_CHARS = 2_000
"""Characters that are drawn of a tool's arguments."""
_STATE_MARKS: Mapping[PlanState, str] = {
    "to do": "·",
    "runs": "▸",
    "done": "✓",
    "answered": "✓",
    "failed": "✗",
    "skipped": "–",
    "undone": "–",
}
"""What stands before a step of a plan, by its state."""
_REMOVED_LABELS = {"hidden": "hidden from the model", "replaced": "rewound", "undone": "undone"}
"""What stands beside an entry that was taken out of the conversation, by the reason."""
_PLAN_INDENT = "     "
"""Stands before the rows that continue a step of a plan, below its words."""
_READING_BAR_CELLS = 20
"""Width of the bar that shows how much of a prompt has been read."""
COLLAPSED_ROWS = 3
"""Rows of a collapsed entry, the last of which says how many more there are."""


def question_rows(question: Question, width: int, palette: Palette) -> list[Row]:
    """Draw a question, the steps of its plan, and its attachments."""
    rows: list[Row] = []
    author = [("You", palette.person + BOLD), ("  ", palette.text)]
    # The steps of a plan are drawn with their states instead.
    text = PLAN_HEADING if question.plan else question.text
    for line in shorten_text(plain(text)).expandtabs(4).split("\n"):
        rows += paragraph([*author, (line, palette.text)], width, palette.person)
        author = []
    for number, step in enumerate(question.plan, 1):
        spans = _plan_step_spans(number, step, palette)
        rows += paragraph(spans, width, palette.person, indent=_PLAN_INDENT)
    if question.attachments:
        rows += paragraph(_attachment_spans(question, palette), width, palette.person)
    return rows


def _attachment_spans(question: Question, palette: Palette) -> list[Span]:
    """Draw the attachments, each with its size, or with the reason why it is missing."""
    spans: list[Span] = []
    for attachment in question.attachments:
        label = " ".join(plain(attachment.label).split())
        detail = " ".join(plain(attachment.problem or attachment.size).split())
        detail_style = palette.bad if attachment.problem else palette.muted
        spans.append((label, palette.highlight))
        spans.append((f" {detail}   " if detail else "   ", detail_style))
    return spans


def _plan_step_spans(number: int, step: PlanStep, palette: Palette) -> list[Span]:
    """Draw `✓ 2. Clean the prices  done`."""
    state = step.state
    style = {
        "runs": palette.highlight,
        "done": palette.good,
        "answered": palette.good,
        "failed": palette.bad,
    }.get(state, palette.muted)
    return [
        (f"{_STATE_MARKS[state]} ", style),
        (f"{number}. {one_line(step.text)}", palette.text),
        (f"  {state}", style),
    ]


def tool_rows(use: ToolUse, width: int, palette: Palette) -> list[Row]:
    """Draw a call: `⚒ search_code pattern="x"`, and its result."""
    marks = {
        "ok": ("⚒", palette.model, ""),
        "running": ("⚒", palette.highlight, "  runs"),
        "error": ("✗", palette.bad, "  error"),
    }
    mark, style, state = marks.get(use.state, ("■", palette.highlight, f"  {use.state}"))
    arguments = _arguments(use.arguments)
    if len(arguments) > MAX_ARGUMENTS_CHARS:
        arguments = f"{arguments[:MAX_ARGUMENTS_CHARS]}… ({len(arguments):,} characters)"
    call = [
        (f"{mark} ", style),
        (plain(use.name[:MAX_ARGUMENTS_CHARS]), palette.text),
        (f"  {arguments}", palette.muted),
        (state, style),
    ]
    rows = list(paragraph(call, width, palette.model, indent="  "))
    if not use.text:
        return rows

    result_style = palette.bad if use.state == "error" else palette.muted
    result = shorten_text(plain(use.text)).expandtabs(4).rstrip("\n")
    for line in result.split("\n"):
        rows += paragraph([(f"  {line}", result_style)], width, palette.model, cut=hard_cuts)
    return rows


def _arguments(source: str) -> str:
    """Return arguments as `name=value`; as they are if they are not a JSON object."""
    text = source
    # The record may come from another program.
    with suppress(ValueError, TypeError, RecursionError):
        arguments = dict(json.loads(source)).items()
        text = "  ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments
        )
    return plain(text).replace("\n", " ")


def note_rows(note: Note, width: int, palette: Palette) -> list[Row]:
    """Draw a sentence of the program, with a mark for its level."""
    marks = {"warning": ("!", palette.highlight), "error": ("✗", palette.bad)}
    mark, style = marks.get(note.level, ("·", palette.muted))
    text_style = palette.muted if note.level in ("info", "quiet") else palette.text
    # Without a hint, because Enter does not open notes.
    text = shorten_text(plain(note.text), hint="")
    rows: list[Row] = []
    lead = f"{mark} "
    for line in text.expandtabs(4).split("\n"):
        rows += paragraph([(lead, style), (line, text_style)], width, None, indent="  ")
        lead = "  "
    return rows


def activity_rows(activity: Activity, palette: Palette) -> list[Row]:
    """Draw `⠹ Model is thinking · 4 s`, or `⠹ Model is reading ████░░░░ 50% · 4 s`."""
    elapsed_s = max(0.0, time.time() - activity.since)
    frame = "◈" if activity.waits_for_person else _spinner(elapsed_s)
    spans: list[Span] = [
        (f"{frame} ", palette.model),
        (f"{plain(activity.author).capitalize()} ", palette.model + BOLD),
    ]
    if activity.read_share is None:
        spans.append((f"{activity.doing} · {int(elapsed_s)} s", palette.muted))
    else:
        filled_cells = int(activity.read_share * _READING_BAR_CELLS)
        spans += [
            ("is reading ", palette.muted),
            ("█" * filled_cells, palette.model),
            ("░" * (_READING_BAR_CELLS - filled_cells), palette.muted),
            (f" {activity.read_share:.0%} · {int(elapsed_s)} s", palette.muted),
        ]
    return [Row(), Row(spans, palette.model)]


def search_rows(search: SearchProgress, width: int, palette: Palette) -> list[Row]:
    """Draw `⠹ 13 calls · 9 s · 12 of 12 parts · F3 shows them`."""
    elapsed_s = max(0.0, time.time() - search.begun)
    plural = "" if search.calls == 1 else "s"
    facts = [f"{search.calls:,} call{plural}", f"{int(elapsed_s)} s"]
    if search.parts:
        facts.append(f"{search.finished:,} of {search.parts:,} parts")
    facts.append("F3 shows them")
    spans = [(f"{_spinner(elapsed_s)} ", palette.highlight), (" · ".join(facts), palette.muted)]
    return [Row(), *paragraph(spans, width, palette.hairline, indent="  ")]


def _spinner(elapsed_s: float) -> str:
    """Return the picture of an animation after a time."""
    return FRAMES[int(elapsed_s * FRAME_RATE) % len(FRAMES)]


_DRAWERS: Mapping[type[Entry], Callable[[Any, int, Palette], Rows]] = {
    AnswerText: WordsRows,
    NotebookText: WordsRows,
    Question: question_rows,
    ToolUse: tool_rows,
    Note: note_rows,
}


def removed_row(row: Row, entry: Entry, palette: Palette, *, first: bool) -> Row:
    """Draw a row without its colours; the first one shows the reason.

    It stays readable, which dim text would not.
    """
    spans = [(text, style + palette.muted) for text, style in row.spans]
    right = [(text, style + palette.muted) for text, style in row.right]
    if first and not isinstance(entry, Note):
        label = _REMOVED_LABELS[entry.removed or "undone"]
        right = [(f"{label}  " if right else label, palette.muted), *right]
    bar = palette.muted if row.bar else None
    return row._replace(spans=spans, bar=bar, right=right)


class EntryRows:
    """The rows of any entry, with the gap above it."""

    def __init__(
        self, entry: Entry, width: int, palette: Palette, space: PictureSpace = DEFAULT_SPACE
    ) -> None:
        """
        Args:
            entry: The entry. `update` draws it as it is then.
            width: The width of a row, in cells.
            palette: The colours.
            space: How large pictures may be.
        """
        self._entry = entry
        self._space = space
        self._width = width
        self._palette = palette
        self._version = -1
        """The version of the entry that is drawn."""
        self._rows: Rows = []
        """The rows of the whole entry, without the gap."""

    def update(self) -> None:
        """Draw the entry again if it has changed."""
        if self._version == self._entry.version:
            return
        self._version = self._entry.version
        if isinstance(self._entry, Cell) and not isinstance(self._rows, CellRows):
            self._rows = CellRows(self._entry, self._width, self._palette, self._space)
        elif not isinstance(self._rows, CellRows | WordsRows):
            self._rows = _DRAWERS[type(self._entry)](self._entry, self._width, self._palette)
        if isinstance(self._rows, CellRows | WordsRows):
            self._rows.update()

    @property
    def is_complete(self) -> bool:
        """Whether all of it is drawn; the rest is drawn when the entry is touched."""
        return not isinstance(self._rows, CellRows) or self._rows.is_complete

    @property
    def slow_output(self) -> OutputRows | None:
        """The output with displays that are drawn on a thread, as `CellRows.slow_output` has it."""
        if not isinstance(self._rows, CellRows):
            return None
        return self._rows.slow_output

    def __len__(self) -> int:
        if self._entry.hidden:
            return 0
        count = len(self._rows)
        if self._entry.collapsed:
            count = min(COLLAPSED_ROWS, count)
        return count + self._entry.gap

    @property
    def reading_start(self) -> int | None:
        """The row with which reading should begin, if that is not the end."""
        row = getattr(self._rows, "reading_start", None)
        if row is None or self._entry.collapsed:
            return None
        start: int = row + self._entry.gap
        return start

    def __getitem__(self, index: int) -> Row:
        entry = self._entry
        row_index = index - entry.gap
        row = self._entry_row(row_index) if row_index >= 0 else self._gap_row()
        if entry.removed or (isinstance(entry, Cell) and entry.undone):
            return removed_row(row, entry, self._palette, first=row_index == 0)
        return row

    def _gap_row(self) -> Row:
        """Draw the gap above the entry."""
        return Row(bar=self._palette.model if self._entry.joined else None)

    def _entry_row(self, index: int) -> Row:
        """Return a row of the entry; the last visible one of a collapsed entry counts the others."""
        row = self._rows[index]
        collapsed_count = len(self._rows) - index
        is_last_visible = self._entry.collapsed and index == COLLAPSED_ROWS - 1
        if not is_last_visible or collapsed_count == 1:
            return row
        note = f"… {collapsed_count:,} rows collapsed"
        return Row([(note, self._palette.muted)], row.bar)


def is_text_drawn_whole(entry: Entry) -> bool:
    """Return whether nothing of an entry's own text is left out; outputs of cells do not count."""
    match entry:
        case AnswerText(source=source):
            return is_drawn_whole(source)
        case Question(text=text) | ToolUse(text=text):
            return fits_undivided(text)
    return True


def estimate_rows(entry: Entry, width: int) -> int:
    """Return about how many rows an entry has, without drawing it.

    The scroll bar depends on this until the entry is laid out.

    Args:
        entry: The entry.
        width: The width of a row, in cells.
    """
    if entry.hidden:
        return 0
    if entry.collapsed:
        return entry.gap + COLLAPSED_ROWS
    match entry:
        case Cell():
            rows = 1 + _estimate_cell(entry)
        case AnswerText():
            rows = _estimate_answer(entry, width)
        case ToolUse():
            # The call stands above its result.
            rows = 1 + _estimate_text(shorten_text(entry.text), width)
        case _:
            rows = _estimate_text(shorten_text(entry.plain_text), width)
    return entry.gap + rows


def _estimate_text(text: str, width: int) -> int:
    """Return about how many rows a text has: one for each line, and one for each full width."""
    return 1 + text.count("\n") + len(text) // width


def _estimate_answer(answer: AnswerText, width: int) -> int:
    text = answer.source[: MAX_HEAD_CHARS + MAX_TAIL_CHARS]
    max_lines = MAX_HEAD_LINES + MAX_TAIL_LINES
    line_count = min(text.count("\n"), max_lines)
    has_doubtful_figures = any(not figure.has_source for figure in answer.figures)
    note_count = has_doubtful_figures + bool(answer.doubtful_cells)
    return 1 + line_count + len(text) // width + note_count


def _estimate_cell(cell: Cell) -> int:
    """Return about how many rows a cell has below its header."""
    rows = min(MAX_CODE_LINES, cell.code.count("\n") + 1)
    rows += bool(cell.files)
    # Changes and outputs have a blank row above them; late output has a remark, too.
    if cell.changes:
        rows += 2
    if len(cell.output):
        rows += min(FOLD_ABOVE_LINES, len(cell.output)) + 1
    if cell.late_output is not None:
        rows += len(cell.late_output) + 2
    return rows
