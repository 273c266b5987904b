"""Colours for the visible lines of a text area."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from textual.document._syntax_aware_document import SyntaxAwareDocument
from textual.widgets import TextArea

if TYPE_CHECKING:
    from tree_sitter import Language, Query

LONGEST_LINE = 5_000
"""Characters of a line from which the visible lines stay plain, because each row of a wrapped line
is coloured by all tokens of that line."""

_SIGN = re.compile(
    r"^\s*(?:[^\W\d][\w.]*\s*=\s*)?(!(?!=)|%%?[^\W\d]\w*)|^\s*(\?\??)|^\s*[^\W\d][\w.]*(?:\[[^\]]*\])*(\?\??)\s*$"
)
"""The signs of IPython's own lines: ``!command``, ``%magic``, ``object?``."""


@cache
def _query(language: Language) -> Query:
    """Compile Textual's query for Python's colours once (18 ms). `TextArea` compiles it for each
    area, text and change of language."""
    from tree_sitter import Query

    return Query(language, TextArea._get_builtin_highlight_query("python"))


class VisibleHighlights:
    """Asks tree-sitter for the visible lines when they are drawn. `TextArea` asks for all lines at
    each edit.

    At 1,000 lines an edit takes 0.6 ms this way and 20 ms otherwise (pygments: 35 ms).
    """

    def __init__(self, area: TextArea) -> None:
        self._area = area
        self._rows = range(0)
        """The lines of the document that are coloured."""

    def clear(self) -> None:
        """Drop all colours, because the text has changed."""
        self._area._line_cache.clear()
        self._area._highlights.clear()
        self._rows = range(0)

    def update(self) -> None:
        """Colour the lines that are about to be drawn."""
        area = self._area
        top = area.scroll_offset.y
        seen = area.wrapped_document._offset_to_line_info[top : top + area.size.height]
        if seen and (rows := range(seen[0][0], seen[-1][0] + 1)) != self._rows:
            self._highlight(rows)

    def _highlight(self, rows: range) -> None:
        self.clear()
        self._rows = rows
        document, highlights = self._area.document, self._area._highlights
        lengths = [len(document.get_line(row)) for row in rows]
        if (
            not isinstance(document, SyntaxAwareDocument)
            or not any(lengths)
            or max(lengths) > LONGEST_LINE
        ):
            return
        captures = document.query_syntax_tree(
            _query(document.language), (rows.start, 0), (rows.stop, 0)
        )
        for name, nodes in captures.items():
            for node in nodes:
                (first, start), (last, end) = node.start_point, node.end_point
                for row in range(max(first, rows.start), min(last + 1, rows.stop)):
                    highlights[row].append(
                        (start if row == first else 0, end if row == last else None, name)
                    )
        for row in rows:
            if sign := _SIGN.search(document.get_line(row)):
                place = next(number for number in (1, 2, 3) if sign.start(number) >= 0)
                start, end = (len(sign.string[:offset].encode()) for offset in sign.span(place))
                highlights[row].append((start, end, "keyword"))
