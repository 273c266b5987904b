"""Draws entries as rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.style import Style

from mahtab_tui.bus.conversation import Cell, Entry, Note, Question, ToolUse, Words
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import CHANGE_SIGNS
from mahtab_tui.tui.editor.pasting import is_prose
from mahtab_tui.tui.rows.code import CodeRows, describe_change
from mahtab_tui.tui.rows.markdown import Block, FigureMarks, Markdown, first_line, parse
from mahtab_tui.tui.rows.row import (
    FRAME_RATE,
    FRAMES,
    MAX_CODE_LINES,
    Row,
    Rows,
    Span,
    fit_text,
    fits_undivided,
    hard_cuts,
    omission_note,
    paragraph,
    shorten_text,
)
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.transcript.fold import Activity, NotebookWords
from mahtab_tui.tui.transcript.output import (
    DEFAULT_SPACE,
    FOLD_ABOVE_LINES,
    FOLDED_HEAD_LINES,
    OutputRows,
    PictureSpace,
    remark,
)

if TYPE_CHECKING:
    from mahtab_tui.search.tree import SearchProgress

MAX_ARGUMENTS_CHARS = 2_000
"""Characters of a tool's arguments that are drawn."""
MAX_HEAD_CHARS = 20_000
"""Characters drawn at the beginning of a model's text that is too long to be drawn whole."""
MIN_TAIL_CHARS = 4_000
MAX_TAIL_CHARS = 6_000
"""Characters drawn at its end, which fill a large screen. While the text is streamed, the end grows
from the smaller number to the larger one, and is then cut again."""
MAX_WORD_SEARCH_CHARS = 2_000
"""Characters in which the next line or word is searched."""


def question_rows(question: Question, width: int, palette: Palette) -> list[Row]:
    rows: list[Row] = []
    lead = [("You", palette.person + BOLD), ("  ", palette.text)]
    for line in shorten_text(plain(question.text)).expandtabs(4).split("\n"):
        rows += paragraph([*lead, (line, palette.text)], width, palette.person)
        lead = []
    chips: list[Span] = []
    for chip in question.attached:  # with its size, or the reason why it is missing
        texts = (chip.label, chip.problem or chip.size)
        label, words = (" ".join(plain(text).split()) for text in texts)
        style = palette.bad if chip.problem else palette.muted
        chips += [(label, palette.moon), (f" {words}   " if words else "   ", style)]
    return [*rows, *(paragraph(chips, width, palette.person) if chips else ())]


def tool_rows(use: ToolUse, width: int, palette: Palette) -> list[Row]:
    """Draw a call: `⚒ search_code pattern="x"`, and its result."""
    mark, style, state_words = {
        "ok": ("⚒", palette.model, ""),
        "running": ("⚒", palette.moon, "  runs"),
        "error": ("✗", palette.bad, "  error"),
    }.get(use.state, ("■", palette.moon, f"  {use.state}"))
    arguments = _arguments(use.arguments)
    if len(arguments) > MAX_ARGUMENTS_CHARS:
        arguments = f"{arguments[:MAX_ARGUMENTS_CHARS]}… ({len(arguments):,} characters)"
    head = [
        (f"{mark} ", style),
        (plain(use.name), palette.text),
        (f"  {arguments}", palette.muted),
        (state_words, style),
    ]
    rows = [*paragraph(head, width, palette.model, indent="  ")]
    if not use.text:
        return rows

    result_style = palette.bad if use.state == "error" else palette.muted
    result = shorten_text(plain(use.text)).expandtabs(4).rstrip("\n")
    for line in result.split("\n"):
        rows += paragraph([(f"  {line}", result_style)], width, palette.model, cut=hard_cuts)
    return rows


def _arguments(source: str) -> str:
    """Return arguments as `name=value`; as they are if they are not a JSON object."""
    try:
        arguments = dict(json.loads(source)).items()
        parts = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments]
        source = "  ".join(parts)
    except (ValueError, TypeError, RecursionError):  # a record from another program
        pass
    return plain(source).replace("\n", " ")


def note_rows(note: Note, width: int, palette: Palette) -> list[Row]:
    mark, style = {"warning": ("!", palette.moon), "error": ("✗", palette.bad)}.get(
        note.level, ("·", palette.muted)
    )
    text_style = palette.muted if note.level in ("info", "quiet") else palette.text
    text = shorten_text(plain(note.text), hint="")  # Enter does not open notes
    rows: list[Row] = []
    for number, line in enumerate(text.expandtabs(4).split("\n")):
        spans = [(f"{mark} " if number == 0 else "  ", style), (line, text_style)]
        rows += paragraph(spans, width, None, indent="  ")
    return rows


def activity_rows(activity: Activity, palette: Palette) -> list[Row]:
    elapsed = max(0.0, time.time() - activity.since)
    frame = "◈" if activity.waits_for_person else _spinner(elapsed)
    spans = [
        (f"{frame} ", palette.model),
        (f"{plain(activity.author).capitalize()} ", palette.model + BOLD),
        (f"{activity.doing} · {int(elapsed)} s", palette.muted),
    ]
    return [Row(), Row(spans, palette.model)]


def search_rows(search: SearchProgress, width: int, palette: Palette) -> list[Row]:
    """Draw `⠹ 13 calls · 9 s · 12 of 12 parts · F3 shows them`."""
    elapsed = max(0.0, time.time() - search.begun)
    words = [f"{search.calls:,} call{'s' * (search.calls != 1)}", f"{int(elapsed)} s"]
    if search.parts:
        words.append(f"{search.finished:,} of {search.parts:,} parts")
    text = " · ".join([*words, "F3 shows them"])
    spans = [(f"{_spinner(elapsed)} ", palette.moon), (text, palette.muted)]
    return [Row(), *paragraph(spans, width, palette.hairline, indent="  ")]


def _spinner(elapsed: float) -> str:
    return FRAMES[int(elapsed * FRAME_RATE) % len(FRAMES)]


class WordsRows(list[Row]):
    """The rows of a model's text, which may be streamed: `update` draws what is new."""

    def __init__(self, words: Words, width: int, palette: Palette) -> None:
        super().__init__()
        self._words = words
        self._width = width
        self._palette = replace(palette, text=palette.muted) if words.thought else palette
        self._markdown = Markdown(self._palette)
        self._bar = palette.hairline if isinstance(words, NotebookWords) else palette.model
        self._revision = -1
        self._settled_chars = 0
        self._settled_rows: list[Row] = []
        """The blocks that more text cannot change, and their number of characters."""
        self._head_rows: list[Row] = []
        """The beginning of a long text, which stays."""
        self._tail_start = 0
        """Where the drawn end of a long text begins in its source."""

    def update(self) -> None:
        if self._revision != self._words.revision:
            self._revision = self._words.revision
            self._settled_chars = 0
            self._settled_rows = []
            self._head_rows = []
            if self._words.figures:
                marks = FigureMarks(self._words.figures, self._palette)
                self._markdown = Markdown(self._palette, marks)

        source = self._words.source
        if len(source) <= MAX_HEAD_CHARS + MAX_TAIL_CHARS:
            self._draw_blocks(plain(source))
        else:
            self._draw_two_ends(source)

        doubts = [one_line(figure.doubt) for figure in self._words.own_figures if not figure.found]
        if doubts:
            line = fit_text(f"not computed: {', '.join(doubts)}", self._width).rstrip()
            self.append(Row([(line, self._palette.muted)], self._bar))
        if mark := self._words.mark:
            self.append(Row([(f"■ {mark}", self._palette.muted)], self._palette.model))

    def _draw_two_ends(self, source: str) -> None:
        """Draw the beginning once, and the end every time, so that the work does not grow with the
        text."""
        if not self._head_rows:
            self._draw_blocks(plain(source[:MAX_HEAD_CHARS]))
            self._head_rows = list(self)
            self._tail_start = MAX_HEAD_CHARS
        if len(source) - self._tail_start > MAX_TAIL_CHARS:
            self._tail_start = _line_or_word_start(source, len(source) - MIN_TAIL_CHARS)
        omitted_chars = self._tail_start - MAX_HEAD_CHARS
        note = omission_note(omitted_chars)
        self[:] = [
            *self._head_rows,
            Row(bar=self._bar),
            Row([(note, self._palette.muted)], self._bar),
        ]
        for block in parse(plain(source[self._tail_start :])):
            self += self._block(block, first=False)

    def _draw_blocks(self, source: str) -> None:
        """Draw a text, of which the settled blocks have been drawn."""
        open_source = source[self._settled_chars :]
        blocks = parse(open_source)
        for block in blocks[:-1]:
            self._settled_rows += self._block(block, first=not self._settled_rows)
        if len(blocks) > 1:
            lines = open_source.split("\n", first_line(blocks[-1]))
            self._settled_chars += len(open_source) - len(lines[-1])
        self[:] = self._settled_rows
        if blocks:
            self += self._block(blocks[-1], first=not self._settled_rows)

    def _block(self, block: Block, *, first: bool) -> list[Row]:
        rows = self._markdown.rows(block, self._width, self._name() if first else ())
        rows = [row._replace(bar=self._bar) for row in rows]
        return rows if first else [Row(bar=self._bar), *rows]

    def _name(self) -> list[Span]:
        if not self._words.named:
            return []
        name = (plain(self._words.author).capitalize(), self._palette.model + BOLD)
        thinks = [(" thinks", self._palette.muted)] if self._words.thought else []
        return [name, *thinks, ("  ", self._palette.text)]


def _line_or_word_start(text: str, start: int) -> int:
    """Return where the next line begins, or else the next word; `start` if neither is near."""
    for separator in "\n ":
        position = text.find(separator, start, start + MAX_WORD_SEARCH_CHARS)
        if position >= 0:
            return position + 1
    return start


CHANGES = 12

EXPLAIN_HINT = "Alt+X asks the model about this error"
ASK_HINT = "F2 asks the model"

PATIENCE = 0.3


def folded_code(code: str) -> str:
    """Return code, or its first lines if it is too long for a cell that has run."""
    lines = code.split("\n")
    if len(lines) <= FOLD_ABOVE_LINES:
        return code
    return "\n".join(lines[:FOLDED_HEAD_LINES])


class CellRows:
    def __init__(
        self, cell: Cell, width: int, palette: Palette, space: PictureSpace = DEFAULT_SPACE
    ) -> None:
        self._cell = cell
        self._space = space
        self._width = width
        self._palette = palette
        self._bar = palette.author_style(cell.person, cell.agent_index)
        self._code = CodeRows(width, palette, self._bar)
        self._output = OutputRows(cell.output, width, palette, space)
        self._late_output: OutputRows | None = None
        self._parts: list[Rows] = []
        self._height = 0

    def update(self) -> None:
        cell = self._cell
        code = cell.code.strip("\n")
        has_run = cell.number is not None and not cell.approval
        visible_code = folded_code(code) if has_run else code
        self._code.update(visible_code)
        self._parts = [self._code]
        hidden_line_count = code.count("\n", len(visible_code))
        if hidden_line_count:
            note = (f"… {hidden_line_count:,} lines", self._palette.muted)
            self._parts += [[Row([note], self._bar, fill=self._palette.surface)]]

        blank = [Row()]
        if len(cell.output):
            self._output.update()
            self._parts += [blank, self._output]
        if cell.offers_explanation:
            offer = ASK_HINT if is_prose(cell.code.strip()) else EXPLAIN_HINT
            self._parts += [[remark(offer, self._palette)]]
        if cell.changes:
            self._parts += [blank, list(self._changes())]

        if cell.late_output is not None:
            if self._late_output is None:
                self._late_output = OutputRows(
                    cell.late_output, self._width, self._palette, self._space
                )
            self._late_output.update()
            self._parts += [blank, [remark("later", self._palette)], self._late_output]
        self._height = 1 + sum(len(part) for part in self._parts)

    def __len__(self) -> int:
        return self._height

    @property
    def reading_start(self) -> int | None:
        """The row with which reading the output should begin, if that is not its end."""
        if self._cell.late_output is not None:
            return None
        output_row = self._output.reading_start
        if output_row is None:
            return None
        # Below the header, the code and a blank row.
        parts_above = self._parts[: self._parts.index(self._output)]
        return 1 + sum(len(part) for part in parts_above) + output_row

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
            after = "" if sign == "−" else f" {describe_change(change)}".replace("\n", " ")
            name = " ".join(plain(change.name).split())
            add((f"{sign} ", styles[sign]), (name, styles[sign]), (after.rstrip(), palette.muted))
        if (more := len(self._cell.changes) - CHANGES) > 0:
            add((f"and {more} more", palette.muted))
        for row in paragraph(line, self._width, palette.hairline, indent="  "):
            spans = [(text.replace("\xa0", " "), style) for text, style in row.spans]
            yield row._replace(spans=spans)

    def _header(self) -> Row:
        cell = self._cell
        palette = self._palette
        muted = palette.muted
        waits = cell.approval == "waiting"
        label = "code" if cell.cell_number is None else f"Cell {cell.cell_number}"
        name = label if cell.number is None else f"In {cell.number}"
        parts: list[Span] = [(name, self._bar), (plain(cell.author), muted)]
        if cell.cell_number is not None and cell.number is not None:
            parts.append((f"cell {cell.cell_number} of the notebook", muted))
        if cell.step:
            parts.append((f"step {cell.step + 1}", muted))
        if cell.edited:
            parts.append(("edited by you", palette.person))
        if cell.part and cell.number is None:
            parts.append((cell.part, palette.moon if waits else muted))
        spans = [span for part in parts for span in (part, (" · ", muted))][:-1]
        if waits:
            spans += [("   ", muted), ("waits for you", palette.moon)]
        elif cell.approval:
            reason = f": {plain(cell.reason)}" if cell.reason else ""
            spans += [("   ", muted), (cell.approval + reason.replace("\n", " "), muted)]
        return Row(spans, self._bar, right=self._right())

    def _right(self) -> list[Span]:
        cell = self._cell
        palette = self._palette
        if cell.started is not None:
            elapsed = time.time() - cell.started
            time_spans = [("● ", palette.moon), (duration(elapsed), palette.muted)]
            return time_spans if elapsed >= PATIENCE else []
        if cell.cell_number is not None and cell.number is None:
            text = "not run" if cell.ran_as is None else f"ran as In {cell.ran_as}"
            return [(text, palette.muted)]
        spans: list[Span] = []
        if cell.status == "interrupted":
            spans.append(("■ interrupted", palette.moon))
        elif cell.status not in ("", "ok"):
            spans.append((f"✗ {plain(cell.status)}", palette.bad))
        if cell.duration is not None:
            spans.append((f"{'  ' if spans else ''}{duration(cell.duration)}", palette.muted))
        return spans


def duration(seconds: float) -> str:
    """Format `0.08 s`, `4.2 s`, `3 min 05 s`."""
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
    Words: WordsRows,
    NotebookWords: WordsRows,
    Question: question_rows,
    ToolUse: tool_rows,
    Note: note_rows,
}
_LABELS = {"hidden": "hidden from the model", "replaced": "replaced", "undone": "undone"}


def removed_row(row: Row, entry: Entry, palette: Palette, *, first: bool) -> Row:
    """Dim a row; the first one shows the reason."""
    spans = [(text, style + _DIM) for text, style in row.spans]
    right = [(text, style + _DIM) for text, style in row.right]
    if first and not isinstance(entry, Note):
        label = _LABELS[entry.removed or "undone"]
        right = [(f"{label}  " if right else label, palette.muted), *right]
    return row._replace(spans=spans, bar=row.bar + _DIM if row.bar else None, right=right)


COLLAPSED = 3


class EntryRows:
    def __init__(
        self, entry: Entry, width: int, palette: Palette, space: PictureSpace = DEFAULT_SPACE
    ) -> None:
        self._entry = entry
        self._space = space
        self._width = width
        self._palette = palette
        self._version = -1
        self._rows: Rows = []

    def update(self) -> None:
        if self._version == self._entry.version:
            return
        self._version = self._entry.version
        if isinstance(self._entry, Cell) and not isinstance(self._rows, CellRows):
            self._rows = CellRows(self._entry, self._width, self._palette, self._space)
        elif not isinstance(self._rows, CellRows | WordsRows):
            self._rows = _DRAWERS[type(self._entry)](self._entry, self._width, self._palette)
        if isinstance(self._rows, CellRows | WordsRows):
            self._rows.update()

    def __len__(self) -> int:
        if self._entry.hidden:
            return 0
        count = len(self._rows)
        return (min(COLLAPSED, count) if self._entry.collapsed else count) + self._entry.gap

    @property
    def reading_start(self) -> int | None:
        row = getattr(self._rows, "reading_start", None)
        return None if row is None or self._entry.collapsed else row + self._entry.gap

    def __getitem__(self, index: int) -> Row:
        entry = self._entry
        palette = self._palette
        row = index - entry.gap
        if row < 0:
            drawn = Row(bar=palette.model if entry.joined else None)
        else:
            drawn = self._rows[row]
            collapsed_count = len(self._rows) - row
            if entry.collapsed and row == COLLAPSED - 1 and collapsed_count > 1:
                note = f"… {collapsed_count:,} rows collapsed"
                drawn = Row([(note, palette.muted)], drawn.bar)
        greyed = entry.removed or (isinstance(entry, Cell) and entry.undone)
        return removed_row(drawn, entry, palette, first=row == 0) if greyed else drawn


def is_text_drawn_whole(entry: Entry) -> bool:
    """Return whether nothing of an entry's own text is left out; outputs of cells do not count."""
    match entry:
        case Words(source=source):
            return len(source) <= MAX_HEAD_CHARS + MAX_TAIL_CHARS
        case Question(text=text) | ToolUse(text=text):
            return fits_undivided(text)
    return True


def estimate_rows(entry: Entry, width: int) -> int:
    """Return about how many rows an entry has, without drawing it."""
    if entry.hidden:
        return 0
    rows = entry.gap + 1
    if entry.collapsed:
        return entry.gap + COLLAPSED
    if isinstance(entry, Cell):
        rows += min(MAX_CODE_LINES, entry.code.count("\n") + 1) + 2 * bool(entry.changes)
        rows += min(FOLD_ABOVE_LINES, len(entry.output)) + bool(len(entry.output))
        return rows + (0 if entry.late_output is None else len(entry.late_output) + 2)
    if isinstance(entry, Words):
        text = entry.source[: MAX_HEAD_CHARS + MAX_TAIL_CHARS]
        rows += any(not figure.found for figure in entry.figures)
    else:
        assert isinstance(entry, ToolUse | Question | Note)
        text = shorten_text(entry.text)
        rows += isinstance(entry, ToolUse)
    return rows + text.count("\n") + len(text) // width
