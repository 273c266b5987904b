"""Marks the figures of an answer in its drawn words: figures that nobody computed, and links to
cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.style import Style

from mahtab_tui.bus.figures import figure_spans
from mahtab_tui.bus.records import AnswerFigure
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.rows.palette import UNDERLINE, Palette
from mahtab_tui.tui.rows.row import Row, Span

FIGURE = "figure"
"""In the metadata of a style: the number of the cell that a figure comes from."""


class FigureMarks:
    """Adds styles to the figures in a line of spans. A figure is known by its text, because
    positions in Markdown change when it is drawn."""

    def __init__(self, figures: Sequence[AnswerFigure], palette: Palette) -> None:
        self._styles: dict[str, Style] = {}
        self._code = palette.panel.bgcolor
        for text, found, cell in figures:
            if not found:
                self._styles[plain(text)] = palette.muted + UNDERLINE
            elif cell is not None:
                self._styles[plain(text)] = Style(meta={FIGURE: cell})

    def __call__(self, spans: list[Span]) -> list[Span]:
        """Return the spans with the figures' styles. Code among words gets back its backticks while
        figures are looked for."""
        ticks = ["`" if style.bgcolor == self._code else "" for _, style in spans]
        text = "".join(f"{tick}{part}{tick}" for tick, (part, _) in zip(ticks, spans, strict=True))
        marks = [
            (start, end, style)
            for start, end in figure_spans(text)
            if (style := self._styles.get(text[start:end]))
        ]
        return list(_marked(spans, ticks, marks)) if marks else spans


def _marked(
    spans: Sequence[Span], ticks: Sequence[str], marks: Sequence[tuple[int, int, Style]]
) -> Iterator[Span]:
    """Yield the spans, cut where a mark starts or ends. Positions of marks count the backticks."""
    number, position = 0, 0
    for (text, style), tick in zip(spans, ticks, strict=True):
        position += len(tick)
        done, end_of_text = 0, position + len(text)
        while number < len(marks) and marks[number][0] < end_of_text:
            start, end, mark = marks[number]
            first, last = max(start - position, done), min(end - position, len(text))
            yield text[done:first], style
            yield text[first:last], style + mark
            done = last
            if end > end_of_text:
                break
            number += 1
        yield text[done:], style
        position = end_of_text + len(tick)


def with_links(row: Row, hovered: int | None = None) -> Row:
    """Underline the figures of a row that lead to a cell. hovered: only the one that starts at this
    character."""
    spans: list[Span] = []
    position = 0
    for text, style in row.spans:
        is_link = FIGURE in style.meta and hovered in (None, position)
        spans.append((text, style + UNDERLINE if is_link else style))
        position += len(text)
    return row._replace(spans=spans)
