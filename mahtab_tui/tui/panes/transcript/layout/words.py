"""Rows of the model's words in Markdown, drawn while they stream. Only the last block is drawn
again."""

from __future__ import annotations

from dataclasses import replace

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.panes.transcript.entries import NotebookWords, Words
from mahtab_tui.tui.rows.figures import FigureMarks
from mahtab_tui.tui.rows.markdown import Block, Markdown, first_line, parse
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span, fitted


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
        """Characters of the (plain) source whose blocks cannot change any more."""
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
        """Name the figures that were computed nowhere, in one line."""
        texts = [one_line(figure.text) for figure in self._words.own_figures if not figure.found]
        line = fitted(f"not computed: {', '.join(texts)}", self._width).rstrip()
        return [Row([(line, self._palette.muted)], self._bar)] if texts else []

    def _block(self, block: Block, *, first: bool) -> list[Row]:
        rows = self._markdown.rows(block, self._width, self._name() if first else ())
        rows = [row._replace(bar=self._bar) for row in rows]
        return rows if first else [Row(bar=self._bar), *rows]

    def _name(self) -> list[Span]:
        if not self._words.named:
            return []
        name = [(plain(self._words.party).capitalize(), self._palette.model + BOLD)]
        return (
            [*name, (" thinks", self._palette.muted), ("  ", self._palette.text)]
            if self._words.thought
            else [*name, ("  ", self._palette.text)]
        )
