"""Draws a model's text, which may be streamed.

A frame must not take longer the more text there is. So blocks that more text cannot change are drawn once
(`_GrowingBlocks`), and of a very long text only the beginning and the end are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

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


class _BlockEnd(NamedTuple):
    """Where a block ends that is drawn for good."""

    chars: int
    """The offset of its end in the text, in characters."""
    rows: int
    """The number of rows up to its end."""


class _GrowingBlocks:
    """Draws the blocks of a text that may grow. Only the last ones are drawn again."""

    def __init__(self, draw_block: Callable[[Block, bool], list[Row]]) -> None:
        """
        Args:
            draw_block: Draws a block; gets whether it is the first one.
        """
        self._draw_block = draw_block
        self._settled_rows: list[Row] = []
        """The rows of the blocks that more text cannot change."""
        self._settled_ends: list[_BlockEnd] = []
        """The ends of these blocks, or of several that were settled at once."""

    def rows(self, source: str) -> list[Row]:
        """Draw a text that begins like the one before."""
        open_source = source[self._settled_chars :]
        blocks = parse(open_source)
        if not blocks:
            return list(self._settled_rows)
        # More text can change only the last block.
        *complete_blocks, last_block = blocks
        if complete_blocks:
            last_source = open_source.split("\n", first_line(last_block))[-1]
            self._settle(complete_blocks, len(open_source) - len(last_source))
            open_source = last_source
        open_blocks = [last_block]
        if last_block.type not in _UNCUT_BLOCKS and _count_marks(open_source) > MAX_OPEN_MARKS:
            cut = _line_or_word_start(open_source, len(open_source) - MIN_OPEN_CHARS)
            self._settle(parse(open_source[:cut]), cut)
            open_blocks = parse(open_source[cut:])

        rows = list(self._settled_rows)
        for block in open_blocks:
            rows += self._draw_block(block, not self._settled_rows)
        return rows

    def forget_after(self, end: int) -> None:
        """Let blocks that end after an offset in the drawn text be drawn again."""
        while self._settled_chars > end:
            self._settled_ends.pop()
        row_count = self._settled_ends[-1].rows if self._settled_ends else 0
        del self._settled_rows[row_count:]

    @property
    def _settled_chars(self) -> int:
        """The offset up to which the text is drawn for good."""
        return self._settled_ends[-1].chars if self._settled_ends else 0

    def _settle(self, blocks: list[Block], chars: int) -> None:
        """Draw blocks for good, which take the next characters of the text."""
        for block in blocks:
            self._settled_rows += self._draw_block(block, not self._settled_rows)
        end = _BlockEnd(self._settled_chars + chars, len(self._settled_rows))
        self._settled_ends.append(end)


class WordsRows(list[Row]):
    """The rows of a model's text, which may be streamed: `update` draws what is new."""

    def __init__(self, words: AnswerText, width: int, palette: Palette) -> None:
        super().__init__()
        self._words = words
        self._width = width
        self._palette = palette
        if words.is_thought:
            self._palette = replace(palette, text=palette.muted)
        self._markdown = MarkdownRenderer(self._palette)
        self._bar = palette.hairline if isinstance(words, NotebookText) else palette.model
        self._revision = -1
        """The revision of the text that was drawn."""
        self._blocks = _GrowingBlocks(self._block_rows)
        self._head_rows: list[Row] = []
        """The beginning of a long text, which stays; empty if the text is drawn whole."""
        self._head_chars = 0
        """The characters of this beginning."""
        self._tail_start = 0
        """The offset at which the drawn end of a long text begins."""

    def update(self) -> None:
        """Draw what is new of the text, and the notes below it."""
        if self._revision != self._words.revision:
            self._revision = self._words.revision
            self._begin_again()
        source = self._words.source
        if is_drawn_whole(source):
            self[:] = self._blocks.rows(plain(source))
        else:
            self[:] = self._two_ends(source)
        self.extend(self._notes())

    def _begin_again(self) -> None:
        """Forget what was drawn of another text, or of one whose figures were not known."""
        self._blocks = _GrowingBlocks(self._block_rows)
        self._head_rows = []
        if self._words.figures:
            marks = FigureMarks(self._words.figures, self._palette)
            self._markdown = MarkdownRenderer(self._palette, marks)

    def _two_ends(self, source: str) -> list[Row]:
        """Draw the beginning of a long text once, and the end every time."""
        if not self._head_rows:
            self._head_chars = _head_end(source)
            head = plain(source[: self._head_chars])
            self._blocks.forget_after(len(head))
            self._head_rows = self._blocks.rows(head)
            self._tail_start = self._head_chars
        tail_chars = len(source) - self._tail_start
        tail_lines = source.count("\n", self._tail_start)
        if tail_chars > MAX_TAIL_CHARS or tail_lines > MAX_TAIL_LINES:
            self._tail_start = _tail_start(source)

        note = omission_note(self._tail_start - self._head_chars)
        rows = [*self._head_rows, Row(bar=self._bar), self._note(note)]
        for block in parse(plain(source[self._tail_start :])):
            rows += self._block_rows(block, is_first=False)
        return rows

    def _block_rows(self, block: Block, is_first: bool) -> list[Row]:
        """Draw a block, with the author's name before the first one."""
        lead = self._author_spans() if is_first else ()
        rows = self._markdown.rows(block, self._width, lead)
        rows = [row._replace(bar=self._bar) for row in rows]
        return rows if is_first else [Row(bar=self._bar), *rows]

    def _author_spans(self) -> list[Span]:
        if not self._words.shows_author:
            return []
        spans = [(plain(self._words.author).capitalize(), self._palette.model + BOLD)]
        if self._words.is_thought:
            spans.append((" thinks", self._palette.muted))
        spans.append(("  ", self._palette.text))
        return spans

    def _notes(self) -> list[Row]:
        """Say below the text what is doubtful about it, and whether it was stopped."""
        notes: list[Row] = []
        doubts = [
            one_line(figure.doubt) for figure in self._words.own_figures if not figure.has_source
        ]
        if doubts:
            notes.append(self._fitted_note(f"not computed: {', '.join(doubts)}"))
        if self._words.doubtful_cells:
            notes.append(self._fitted_note(describe_doubt(self._words.doubtful_cells)))
        if self._words.mark:
            mark = (f"■ {self._words.mark}", self._palette.muted)
            notes.append(Row([mark], self._palette.model))
        return notes

    def _fitted_note(self, text: str) -> Row:
        """Draw a note that is cut to the width of a row."""
        return self._note(fit_text(text, self._width).rstrip())

    def _note(self, text: str) -> Row:
        return Row([(text, self._palette.muted)], self._bar)


def is_drawn_whole(source: str) -> bool:
    """Return whether nothing of a model's text is left out."""
    if len(source) > MAX_HEAD_CHARS + MAX_TAIL_CHARS:
        return False
    return source.count("\n") <= MAX_HEAD_LINES + MAX_TAIL_LINES


def _count_marks(source: str) -> int:
    """Return how many characters there are that may begin or end a link or emphasis."""
    return sum(map(source.count, _MARKS))


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
