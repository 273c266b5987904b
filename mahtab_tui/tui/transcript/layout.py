"""Draws entries as rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.style import Style

from mahtab_tui.bus.conversation import AttachmentChip, Cell, Entry, Note, Question, ToolUse, Words
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.values import CHANGE_SIGNS
from mahtab_tui.tui.editor.pane import is_prose
from mahtab_tui.tui.rows.code import CodeRows, describe_change
from mahtab_tui.tui.rows.markdown import Block, FigureMarks, Markdown, first_line, parse
from mahtab_tui.tui.rows.row import (
    FRAME_RATE,
    FRAMES,
    LIMIT,
    GrowingRows,
    Row,
    Rows,
    Span,
    fit_text,
    hard_rows,
    paragraph,
)
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.transcript.fold import Activity, NotebookWords
from mahtab_tui.tui.transcript.output import OutputRows

if TYPE_CHECKING:
    from mahtab_tui.search.tree import SearchProgress

WAITING_GLYPH = "◈"
LONGEST = 2_000


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
    try:
        given = dict(json.loads(written))
    except (ValueError, TypeError, RecursionError):  # a record from another program
        return plain(written).replace("\n", " ")
    return plain(
        "  ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items()
        )
    ).replace("\n", " ")


def note_rows(note: Note, width: int, palette: Palette) -> list[Row]:
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
    """Draw the last line. The spinner turns unless the program waits for the user."""
    elapsed = max(0.0, time.time() - activity.since)
    frame = (
        WAITING_GLYPH
        if activity.waits_for_person
        else FRAMES[int(elapsed * FRAME_RATE) % len(FRAMES)]
    )
    spans = [
        (f"{frame} ", palette.model),
        (f"{plain(activity.author).capitalize()} ", palette.model + BOLD),
        (f"{activity.doing} · {int(elapsed)} s", palette.muted),
    ]
    return [Row(), Row(spans, palette.model)]


def search_rows(search: SearchProgress, width: int, palette: Palette) -> list[Row]:
    """Draw a line such as `⠹ 13 calls · 9 s · 12 of 12 parts · F3 shows them`."""
    elapsed = max(0.0, time.time() - search.begun)
    words = [f"{search.calls:,} call{'s' * (search.calls != 1)}", f"{int(elapsed)} s"]
    if search.parts:
        words.append(f"{search.finished:,} of {search.parts:,} parts")
    frame = FRAMES[int(elapsed * FRAME_RATE) % len(FRAMES)]
    spans = [(f"{frame} ", palette.moon), (" · ".join([*words, "F3 shows them"]), palette.muted)]
    return [Row(), *paragraph(spans, width, palette.hairline, indent="  ")]


class WordsRows(list[Row]):
    def __init__(self, words: Words, width: int, palette: Palette) -> None:
        super().__init__()
        self._words = words
        self._width = width
        self._palette = replace(palette, text=palette.muted) if words.thought else palette
        self._markdown = Markdown(self._palette)
        self._bar = palette.hairline if isinstance(words, NotebookWords) else palette.model
        self._revision = -1
        self._settled = 0
        self._settled_rows: list[Row] = []

    def update(self) -> None:
        if self._revision != self._words.revision:
            self._revision = self._words.revision
            self._settled, self._settled_rows = 0, []
            if self._words.figures:
                self._markdown = Markdown(
                    self._palette, FigureMarks(self._words.figures, self._palette)
                )
        open_source = plain(self._words.source)[self._settled :]
        blocks = parse(open_source)
        for block in blocks[:-1]:
            self._settled_rows += self._block(block, first=not self._settled_rows)
        if len(blocks) > 1:
            lines = open_source.split("\n", first_line(blocks[-1]))
            self._settled += len(open_source) - len(lines[-1])
        last = self._block(blocks[-1], first=not self._settled_rows) if blocks else []
        mark = (
            [Row([(f"■ {self._words.mark}", self._palette.muted)], self._palette.model)]
            if self._words.mark
            else []
        )
        self[:] = [*self._settled_rows, *last, *self._uncomputed(), *mark]

    def _uncomputed(self) -> list[Row]:
        texts = [one_line(figure.text) for figure in self._words.own_figures if not figure.found]
        line = fit_text(f"not computed: {', '.join(texts)}", self._width).rstrip()
        return [Row([(line, self._palette.muted)], self._bar)] if texts else []

    def _block(self, block: Block, *, first: bool) -> list[Row]:
        rows = self._markdown.rows(block, self._width, self._name() if first else ())
        rows = [row._replace(bar=self._bar) for row in rows]
        return rows if first else [Row(bar=self._bar), *rows]

    def _name(self) -> list[Span]:
        if not self._words.named:
            return []
        name = [(plain(self._words.author).capitalize(), self._palette.model + BOLD)]
        return (
            [*name, (" thinks", self._palette.muted), ("  ", self._palette.text)]
            if self._words.thought
            else [*name, ("  ", self._palette.text)]
        )


CHANGES = 12
"""Maximum number of variables in the line of changes; the rest is only counted."""

EXPLAIN_HINT = "Alt+X asks the model about this error"
ASK_HINT = "F2 asks the model"

PATIENCE = 0.3
"""Seconds before a running cell shows its time."""


class CellRows:
    def __init__(self, cell: Cell, width: int, palette: Palette) -> None:
        self._cell = cell
        self._width = width
        self._palette = palette
        self._bar = palette.author_style(cell.person, cell.agent_index)
        self._code = CodeRows(width, palette, self._bar)
        self._output = OutputRows(cell.output, width, palette)
        self._late_output: OutputRows | None = None
        self._parts: list[Rows] = []
        self._height = 0

    def update(self) -> None:
        cell = self._cell
        self._code.update(cell.code.strip("\n"))
        self._parts = [self._code]
        blank = [Row()]
        if len(cell.output):
            self._output.update()
            self._parts += [blank, self._output]
        if cell.offers_explanation:
            offer = ASK_HINT if is_prose(cell.code.strip()) else EXPLAIN_HINT
            self._parts += [[Row([(offer, self._palette.muted)], self._palette.hairline)]]
        if cell.changes:
            self._parts += [blank, list(self._changes())]
        if cell.late_output is not None:
            self._late_output = self._late_output or OutputRows(
                cell.late_output, self._width, self._palette
            )
            self._late_output.update()
            self._parts += [
                blank,
                [Row([("later", self._palette.muted)], self._palette.hairline)],
                self._late_output,
            ]
        self._height = 1 + sum(len(part) for part in self._parts)

    def __len__(self) -> int:
        return self._height

    @property
    def reading_start(self) -> int | None:
        if self._cell.late_output is not None or (row := self._output.reading_start) is None:
            return None
        return 1 + len(self._code) + 1 + row  # below the header, the code and a blank row

    def __getitem__(self, index: int) -> Row:
        if index == 0:  # created when drawn, because a running cell's time changes
            return self._header()
        index -= 1
        for part in self._parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)

    def _changes(self) -> Iterator[Row]:
        """Draw the changes to variables on one line, wrapped between names."""
        palette = self._palette
        styles = {"+": palette.good, "~": palette.moon, "?": palette.muted, "−": palette.bad}
        line: list[Span] = [("  ", palette.text)]

        def add(*item: Span) -> None:
            # Non-breaking spaces keep names and their descriptions together.
            line.extend((text.replace(" ", "\xa0"), style) for text, style in item)
            line.append(("   ", palette.text))

        certain_first = sorted(self._cell.changes, key=lambda change: change.change == "perhaps")
        for change in certain_first[:CHANGES]:
            sign = CHANGE_SIGNS.get(change.change, "~")
            description = "" if sign == "−" else describe_change(change).replace("\n", " ")
            name = " ".join(plain(change.name).split())
            add(
                (f"{sign} ", styles[sign]),
                (name, styles[sign]),
                (f" {description}" if description else "", palette.muted),
            )
        if (more := len(self._cell.changes) - CHANGES) > 0:
            add((f"and {more} more", palette.muted))
        for row in paragraph(line, self._width, palette.hairline, indent="  "):
            yield row._replace(
                spans=[(text.replace("\xa0", " "), style) for text, style in row.spans]
            )

    def _header(self) -> Row:
        cell, palette = self._cell, self._palette
        name = (
            f"In {cell.number}"
            if cell.number is not None
            else "code"
            if cell.cell_number is None
            else f"Cell {cell.cell_number}"
        )
        spans: list[Span] = [
            (name, self._bar),
            (" · ", palette.muted),
            (plain(cell.author), palette.muted),
        ]
        if cell.cell_number is not None and cell.number is not None:
            spans += [
                (" · ", palette.muted),
                (f"cell {cell.cell_number} of the notebook", palette.muted),
            ]
        if cell.edited:
            spans += [(" · ", palette.muted), ("edited by you", palette.person)]
        if cell.part and cell.number is None:
            spans += [
                (" · ", palette.muted),
                (cell.part, palette.moon if cell.approval == "waiting" else palette.muted),
            ]
        if cell.approval == "waiting":
            spans += [("   ", palette.muted), ("waits for you", palette.moon)]
        elif cell.approval:
            reason = f": {plain(cell.reason)}" if cell.reason else ""
            spans += [
                ("   ", palette.muted),
                (cell.approval + reason.replace("\n", " "), palette.muted),
            ]
        return Row(spans, self._bar, right=self._right())

    def _right(self) -> list[Span]:
        cell, palette = self._cell, self._palette
        if cell.started is not None:
            elapsed = time.time() - cell.started
            return (
                [("● ", palette.moon), (duration(elapsed), palette.muted)]
                if elapsed >= PATIENCE
                else []
            )
        if cell.cell_number is not None and cell.number is None:
            return [
                ("not run" if cell.ran_as is None else f"ran as In {cell.ran_as}", palette.muted)
            ]
        spans: list[Span] = []
        if cell.status == "interrupted":
            spans.append(("■ interrupted", palette.moon))
        elif cell.status not in ("", "ok"):
            spans.append((f"✗ {plain(cell.status)}", palette.bad))
        if cell.duration is not None:
            spans += [
                *([("  ", palette.muted)] if spans else []),
                (duration(cell.duration), palette.muted),
            ]
        return spans


def duration(seconds: float) -> str:
    """Format seconds: `0.08 s`, `4.2 s`, `3 min 05 s`."""
    if seconds < 0.005:
        return "<0.01 s"
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s"


_DIM = Style(dim=True)
_DRAWERS: Mapping[type[Entry], Callable[[Any, int, Palette], Rows]] = {
    Question: question_rows,
    ToolUse: tool_rows,
    Note: note_rows,
}
_LABELS = {"hidden": "hidden from the model", "replaced": "replaced", "undone": "undone"}


def removed_row(row: Row, entry: Entry, palette: Palette, *, first: bool) -> Row:
    """Dim a row; the first one also shows the reason."""
    spans = [(text, style + _DIM) for text, style in row.spans]
    right = [(text, style + _DIM) for text, style in row.right]
    if first and not isinstance(entry, Note):
        right = [
            (_LABELS[entry.removed or "undone"], palette.muted),
            *([("  ", palette.muted)] if right else []),
            *right,
        ]
    picture, ground = row.picture, palette.surface.bgcolor
    if picture is not None:
        behind = ground.get_truecolor(foreground=False) if ground else (0, 0, 0)
        picture = replace(picture[0], faded=behind), picture[1]
    return row._replace(
        spans=spans, bar=row.bar + _DIM if row.bar else None, right=right, picture=picture
    )


COLLAPSED = 3
"""Rows of a collapsed entry; the last one says how many more there are."""


class EntryRows:
    """Rows of an entry for one width, including the gap above it."""

    def __init__(self, entry: Entry, width: int, palette: Palette) -> None:
        self._entry = entry
        self._width = width
        self._palette = palette
        self._version = -1
        self._growing = _growing_rows(entry, width, palette)
        self._rows: Rows = [] if self._growing is None else self._growing

    def update(self) -> None:
        if self._version == self._entry.version:
            return
        self._version = self._entry.version
        if self._growing is not None:
            self._growing.update()
        else:
            self._rows = _DRAWERS[type(self._entry)](self._entry, self._width, self._palette)

    def __len__(self) -> int:
        if self._entry.hidden:
            return 0
        return (
            min(COLLAPSED, len(self._rows)) if self._entry.collapsed else len(self._rows)
        ) + self._entry.gap

    @property
    def reading_start(self) -> int | None:
        """The first row of a text to read at the end, such as help."""
        row = getattr(self._growing, "reading_start", None)
        return None if row is None or self._entry.collapsed else row + self._entry.gap

    def __getitem__(self, index: int) -> Row:
        row = index - self._entry.gap
        drawn = (
            self._own_row(row)
            if row >= 0
            else Row(bar=self._palette.model if self._entry.joined else None)
        )
        greyed = self._entry.removed or (isinstance(self._entry, Cell) and self._entry.undone)
        return removed_row(drawn, self._entry, self._palette, first=row == 0) if greyed else drawn

    def _own_row(self, row: int) -> Row:
        if self._entry.collapsed and row == COLLAPSED - 1 and (more := len(self._rows) - row) > 1:
            return Row([(f"… {more:,} rows collapsed", self._palette.muted)], self._rows[row].bar)
        return self._rows[row]


def _growing_rows(entry: Entry, width: int, palette: Palette) -> GrowingRows | None:
    """Return the rows of cells and words."""
    match entry:
        case Cell():
            return CellRows(entry, width, palette)
        case Words():
            return WordsRows(entry, width, palette)
    return None


def estimate_rows(entry: Entry, width: int) -> int:
    """Estimate the number of rows of an entry; exact if nothing wraps."""
    if entry.hidden:
        return 0
    if entry.collapsed:
        return entry.gap + COLLAPSED
    match entry:
        case Cell():
            code = min(LIMIT, entry.code.count("\n") + 1)
            output = len(entry.output) + bool(len(entry.output))
            later = 0 if entry.late_output is None else len(entry.late_output) + 2
            return entry.gap + 1 + code + output + 2 * bool(entry.changes) + later
        case Words(source=text, figures=figures):
            return (
                entry.gap
                + text.count("\n")
                + len(text) // width
                + 1
                + any(not figure.found for figure in figures)
            )
        case ToolUse(text=text) | Question(text=text) | Note(text=text):
            return (
                entry.gap + isinstance(entry, ToolUse) + text.count("\n") + len(text) // width + 1
            )
    raise AssertionError(entry)
