"""Rows of the screen, and wrapping text to rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rich.cells import cell_len, set_cell_size, split_graphemes
from rich.style import Style

if TYPE_CHECKING:
    from mahtab_tui.tui.graphics.pictures import Picture

Span = tuple[str, Style]

LIMIT = 400
"""Maximum lines of a piece of code; of longer ones the two ends are drawn."""

WIDEST = 10_000
"""Maximum characters of a line; of longer ones the two ends are drawn."""

_SIZE = re.compile(r"(?<![\w.])\d{4,15}(?= × \d)|(?<=\d × )\d{4,15}\b")


def with_separators(summary: str) -> str:
    """Separate the thousands of a shape, as in ``10,000 × 5``."""
    return _SIZE.sub(lambda size: f"{int(size[0]):,}", summary)


def shorten_line(line: str) -> str:
    """Shorten a long line to its two ends, with the number of characters left out."""
    if len(line) <= WIDEST:
        return line
    head, tail = WIDEST * 8 // 10, WIDEST // 10
    return f"{line[:head]} … {len(line) - head - tail:,} characters of this line are not shown … {line[-tail:]}"


class Row(NamedTuple):
    """One row of the screen, from the bar on."""

    spans: Sequence[Span] = ()
    bar: Style | None = None
    """None for an empty bar."""
    soft: bool = False
    """Whether the row continues the one above: there is no line break in copied text."""
    fill: Style | None = None
    """A background up to the right edge."""
    indent: int = 0
    """Characters at the start of a soft row that are not copied."""
    right: Sequence[Span] = ()
    """Spans at the right edge, which are not copied."""
    picture: tuple[Picture, int] | None = None
    """The picture that the row shows, and the number of the picture's row."""

    @property
    def text(self) -> str:
        """The text to copy."""
        return "".join(text for text, _ in self.spans)


class Rows(Protocol):
    """A sequence of rows, made on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Row: ...


class GrowingRows(Rows, Protocol):
    """Rows of an entry that may grow."""

    def update(self) -> None:
        """Update the rows after the entry has changed."""


def fitted(text: str, width: int) -> str:
    """Pad or cut a text, with …, to a width in cells."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, width - 1).rstrip() + "…", width) if width > 0 else ""


def hard_cuts(text: str, width: int, first: int | None = None) -> list[int]:
    """Return where each row of a text starts, in characters, if rows are filled to the last cell.
    first: the width of the first row."""
    limit = width if first is None else first
    if len(text) <= limit and (text.isascii() or cell_len(text) <= limit):
        return [0]
    if text.isascii():
        return [0, *range(limit, len(text), width)]
    cuts, used = [0], 0
    for position, _, cells in split_graphemes(text)[0]:  # an emoji's selector may make it wider
        if used + cells > limit and used:
            cuts.append(position)
            used, limit = 0, width
        used += cells
    return cuts


def word_cuts(text: str, width: int, first: int | None = None) -> list[int]:
    """Return where each row starts if rows end between words. first: the width of the first row.
    Too wide words are cut."""
    cuts, used, limit = [0], 0, width if first is None else first
    start = 0
    while start < len(text):
        end = text.find(" ", start)
        end = len(text) if end < 0 else end
        word = cell_len(text[start:end])
        if used and used + word > limit:
            cuts.append(start)
            used, limit = 0, width
        if word > limit:
            inner = [start + cut for cut in hard_cuts(text[start:end], width, limit)][1:]
            cuts += inner
            word = cell_len(text[(inner or [start])[-1] : end])
            limit = width if inner else limit
        spaces = end
        while spaces < len(text) and text[spaces] == " ":
            spaces += 1
        used += word + spaces - end
        start = spaces
    return cuts


def cut_spans(spans: Iterable[Span], cuts: Sequence[int]) -> Iterator[list[Span]]:
    """Yield the spans of each row, given where rows start."""
    limits = [*cuts[1:], None]
    row: list[Span] = []
    position, line = 0, 0
    for text, style in spans:
        start, end = 0, position + len(text)
        while (limit := limits[line]) is not None and end > limit:
            if limit > position:
                row.append((text[start : start + limit - position], style))
            yield row
            start += limit - position
            row, position, line = [], limit, line + 1
        if start < len(text):
            row.append((text[start:], style))
            position = end
    for _ in range(line, len(cuts)):
        yield row
        row = []


def hard_rows(
    spans: Sequence[Span], width: int, bar: Style | None = None, fill: Style | None = None
) -> Iterator[Row]:
    """Wrap text to rows that are filled to the last cell."""
    cuts = hard_cuts("".join(text for text, _ in spans), width)
    for number, row in enumerate(cut_spans(spans, cuts)):
        yield Row(row, bar, soft=number > 0, fill=fill)


def paragraph(
    spans: Sequence[Span], width: int, bar: Style | None, indent: str = ""
) -> Iterator[Row]:
    """Wrap text between words; the rows after the first start with the indent."""
    text = "".join(part for part, _ in spans)
    cuts = word_cuts(text, max(1, width - len(indent)), first=width)
    for number, row in enumerate(cut_spans(spans, cuts)):
        if number and indent:
            row = [(indent, Style.null()), *row]
        yield Row(row, bar, soft=number > 0, indent=len(indent))
