"""Draws a model's text, which may be streamed."""

from __future__ import annotations

from dataclasses import replace

from mahtab_tui.bus.entries import AnswerText, describe_doubt
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.long_texts import omission_note
from mahtab_tui.tui.rows.markdown import FigureMarks, MarkdownRenderer
from mahtab_tui.tui.rows.markdown_parser import Block, first_line, parse
from mahtab_tui.tui.rows.row import Row, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.transcript.notebook_text import NotebookText

MAX_HEAD_CHARS = 20_000
"""Drawn of the beginning of a model's text that is too long to be drawn whole."""
MIN_TAIL_CHARS = 4_000
MAX_TAIL_CHARS = 6_000
"""Drawn of its end; they fill a large screen. While the text is streamed, the end grows from the
smaller number to the larger one, and is then cut again."""
MAX_HEAD_LINES = 1_000
MIN_TAIL_LINES = 100
MAX_TAIL_LINES = 150
"""Lines of the drawn beginning and of the drawn end, if they are short: each may be a heading or an
item, which takes longer than many characters."""
MAX_OPEN_MARKS = 4_000
"""If the last block of a text has more, its beginning is drawn once, as if it was a block by itself:
searching them for links and emphasis would take too long for each frame."""
MIN_OPEN_CHARS = 500
"""Characters at the end of such a block that stay open."""
MAX_WORD_SEARCH_CHARS = 2_000
"""Characters in which the next line or word is searched."""
_MARKS = "[]*_!&<"
_UNCUT_BLOCKS = ("fence", "table")
"""Blocks in which marks cost little, and whose parts would be other blocks."""


class WordsRows(list[Row]):
    """The rows of a model's text, which may be streamed: `update` draws what is new."""

    def __init__(self, words: AnswerText, width: int, palette: Palette) -> None:
        super().__init__()
        self._words = words
        self._width = width
        if words.is_thought:
            self._palette = replace(palette, text=palette.muted)
        else:
            self._palette = palette
        self._markdown = MarkdownRenderer(self._palette)
        if isinstance(words, NotebookText):
            self._bar = palette.hairline
        else:
            self._bar = palette.model
        self._revision = -1
        # The blocks that more text cannot change: their number of characters, and their rows.
        self._settled_chars = 0
        self._settled_rows: list[Row] = []
        self._head_rows: list[Row] = []
        """The beginning of a long text, which stays."""
        self._head_chars = 0
        self._tail_start = 0
        """Where the drawn end of a long text begins in its source."""

    def update(self) -> None:
        """Draw what is new of the text, and the notes below it."""
        if self._revision != self._words.revision:
            self._revision = self._words.revision
            self._settled_chars = 0
            self._settled_rows = []
            self._head_rows = []
            if self._words.figures:
                marks = FigureMarks(self._words.figures, self._palette)
                self._markdown = MarkdownRenderer(self._palette, marks)

        source = self._words.source
        if is_drawn_whole(source):
            self._draw_blocks(plain(source))
        else:
            self._draw_two_ends(source)

        doubts = []
        for figure in self._words.own_figures:
            if not figure.has_source:
                doubts.append(one_line(figure.doubt))
        if doubts:
            line = fit_text(f"not computed: {', '.join(doubts)}", self._width).rstrip()
            self.append(Row([(line, self._palette.muted)], self._bar))
        if self._words.doubtful_cells:
            line = fit_text(describe_doubt(self._words.doubtful_cells), self._width).rstrip()
            self.append(Row([(line, self._palette.muted)], self._bar))
        if self._words.mark:
            mark = (f"■ {self._words.mark}", self._palette.muted)
            self.append(Row([mark], self._palette.model))

    def _draw_two_ends(self, source: str) -> None:
        """Draw the beginning once, and the end every time, so that the work does not grow with the
        text."""
        if not self._head_rows:
            self._head_chars = _head_end(source)
            self._draw_blocks(plain(source[: self._head_chars]))
            self._head_rows = list(self)
            self._tail_start = self._head_chars
        if (
            len(source) - self._tail_start > MAX_TAIL_CHARS
            or source.count("\n", self._tail_start) > MAX_TAIL_LINES
        ):
            self._tail_start = _tail_start(source)
        omitted_chars = self._tail_start - self._head_chars
        note = omission_note(omitted_chars)
        self[:] = [
            *self._head_rows,
            Row(bar=self._bar),
            Row([(note, self._palette.muted)], self._bar),
        ]
        for block in parse(plain(source[self._tail_start :])):
            self.extend(self._block(block, first=False))

    def _draw_blocks(self, source: str) -> None:
        """Draw a text whose settled blocks have been drawn."""
        open_source = source[self._settled_chars :]
        blocks = parse(open_source)
        for block in blocks[:-1]:
            self._settled_rows += self._block(block, first=not self._settled_rows)
        if len(blocks) > 1:
            *_, last_block_source = open_source.split("\n", first_line(blocks[-1]))
            self._settled_chars += len(open_source) - len(last_block_source)
            open_source = last_block_source
        last_blocks = blocks[-1:]
        if last_blocks and last_blocks[0].type not in _UNCUT_BLOCKS:
            last_blocks = self._settle_marks(open_source) or last_blocks
        self[:] = self._settled_rows
        for block in last_blocks:
            self.extend(self._block(block, first=not self._settled_rows))

    def _settle_marks(self, open_source: str) -> list[Block]:
        """Settle the beginning of the last block if it has too many marks.

        Return the blocks of the rest, or none if it has not.

        Args:
            open_source: The block.
        """
        if sum(map(open_source.count, _MARKS)) <= MAX_OPEN_MARKS:
            return []
        cut = _line_or_word_start(open_source, len(open_source) - MIN_OPEN_CHARS)
        for block in parse(open_source[:cut]):
            self._settled_rows += self._block(block, first=not self._settled_rows)
        self._settled_chars += cut
        return parse(open_source[cut:])

    def _block(self, block: Block, *, first: bool) -> list[Row]:
        rows = self._markdown.rows(block, self._width, self._name() if first else ())
        rows = [row._replace(bar=self._bar) for row in rows]
        return rows if first else [Row(bar=self._bar), *rows]

    def _name(self) -> list[Span]:
        if not self._words.shows_author:
            return []
        spans = [(plain(self._words.author).capitalize(), self._palette.model + BOLD)]
        if self._words.is_thought:
            spans.append((" thinks", self._palette.muted))
        spans.append(("  ", self._palette.text))
        return spans


def is_drawn_whole(source: str) -> bool:
    """Return whether nothing of a model's text is left out."""
    if len(source) > MAX_HEAD_CHARS + MAX_TAIL_CHARS:
        return False
    return source.count("\n") <= MAX_HEAD_LINES + MAX_TAIL_LINES


def _head_end(source: str) -> int:
    """Return where the drawn beginning of a long text ends."""
    end = -1
    for _ in range(MAX_HEAD_LINES):
        end = source.find("\n", end + 1, MAX_HEAD_CHARS)
        if end < 0:
            return MAX_HEAD_CHARS
    return end + 1


def _tail_start(source: str) -> int:
    """Return where the drawn end of a long text begins."""
    earliest = _line_or_word_start(source, max(0, len(source) - MIN_TAIL_CHARS))
    start = len(source)
    for _ in range(MIN_TAIL_LINES + 1):
        start = source.rfind("\n", earliest, start)
        if start < 0:
            return earliest
    return start + 1


def _line_or_word_start(text: str, start: int) -> int:
    """Return where the next line begins, or else the next word; `start` if neither is near."""
    for separator in "\n ":
        position = text.find(separator, start, start + MAX_WORD_SEARCH_CHARS)
        if position >= 0:
            return position + 1
    return start
