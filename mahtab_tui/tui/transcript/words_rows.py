"""Draws a model's text, which may be streamed."""

from __future__ import annotations

from dataclasses import replace

from mahtab_tui.bus.entries import AnswerText, describe_doubt
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.long_texts import omission_note
from mahtab_tui.tui.rows.markdown import Block, FigureMarks, MarkdownRenderer, first_line, parse
from mahtab_tui.tui.rows.row import Row, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.transcript.fold import NotebookText

MAX_HEAD_CHARS = 20_000
"""Drawn of the beginning of a model's text that is too long to be drawn whole."""
MIN_TAIL_CHARS = 4_000
MAX_TAIL_CHARS = 6_000
"""Drawn of its end; they fill a large screen. While the text is streamed, the end grows from the
smaller number to the larger one, and is then cut again."""
MAX_WORD_SEARCH_CHARS = 2_000
"""Characters in which the next line or word is searched."""


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
        if len(source) <= MAX_HEAD_CHARS + MAX_TAIL_CHARS:
            self._draw_blocks(plain(source))
        else:
            self._draw_two_ends(source)

        doubts = []
        for figure in self._words.own_figures:
            if not figure.found:
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
        self[:] = self._settled_rows
        if blocks:
            self.extend(self._block(blocks[-1], first=not self._settled_rows))

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


def _line_or_word_start(text: str, start: int) -> int:
    """Return where the next line begins, or else the next word; `start` if neither is near."""
    for separator in "\n ":
        position = text.find(separator, start, start + MAX_WORD_SEARCH_CHARS)
        if position >= 0:
            return position + 1
    return start
