"""Rows of the model's words."""

from __future__ import annotations

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.panes.transcript.entries import Words
from mahtab_tui.tui.panes.transcript.layout.prose import paragraph
from mahtab_tui.tui.panes.transcript.layout.row import Row, Span
from mahtab_tui.tui.panes.transcript.palette import BOLD, Palette


class WordsRows:
    """A piece of the model's words at one width."""

    def __init__(self, words: Words, width: int, palette: Palette) -> None:
        self._words = words
        self._width = width
        self._palette = palette
        self._rows: list[Row] = []

    def update(self) -> None:
        """Take in what has come since."""
        self._rows = []
        palette = self._palette
        for number, line in enumerate(plain(self._words.source).strip().split("\n")):
            spans: list[Span] = [(line, palette.text)]
            if number == 0 and self._words.named:
                spans = [(self._words.party.capitalize(), palette.model + BOLD), ("  ", palette.text), *spans]
            self._rows += paragraph(spans, self._width, palette.model)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return self._rows[index]
