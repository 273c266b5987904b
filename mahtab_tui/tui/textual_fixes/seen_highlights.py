"""Colours for the lines of a text area that are seen."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from textual.document._syntax_aware_document import SyntaxAwareDocument
from textual.widgets import TextArea

if TYPE_CHECKING:
    from tree_sitter import Language, Query

LONGEST = 5_000
"""Characters of a line beyond which what is seen stays plain: each row of a wrapped line is coloured by all tokens of that line."""

_SIGN = re.compile(r"^\s*(?:[^\W\d][\w.]*\s*=\s*)?(!(?!=)|%%?[^\W\d]\w*)|^\s*(\?\??)|^\s*[^\W\d][\w.]*(?:\[[^\]]*\])*(\?\??)\s*$")
"""What makes a line one of the prompt's own: ``!command``, ``%magic``, ``object?``."""


@cache
def _query(language: Language) -> Query:
    """Textual's query for Python's colours, compiled once (18 ms); `TextArea` does it again for each area, each text and each change of language."""
    from tree_sitter import Query

    return Query(language, TextArea._get_builtin_highlight_query("python"))


class SeenHighlights:
    """Asks tree-sitter for the lines on the screen when they are drawn, where `TextArea` asks for all lines at every edit.

    At 1,000 lines an edit takes 0.6 ms this way, 20 ms otherwise (pygments: 35 ms).
    """

    def __init__(self, area: TextArea) -> None:
        self._area = area
        self._rows = range(0)
        """The lines of the document that have their colours."""

    def forget(self) -> None:
        """The text has changed."""
        self._area._line_cache.clear()
        self._area._highlights.clear()
        self._rows = range(0)

    def look(self) -> None:
        """The area is about to be drawn."""
        area = self._area
        top = area.scroll_offset.y
        seen = area.wrapped_document._offset_to_line_info[top : top + area.size.height]
        if seen and (rows := range(seen[0][0], seen[-1][0] + 1)) != self._rows:
            self._highlight(rows)

    def _highlight(self, rows: range) -> None:
        self.forget()
        self._rows = rows
        document, highlights = self._area.document, self._area._highlights
        lengths = [len(document.get_line(row)) for row in rows]
        if not isinstance(document, SyntaxAwareDocument) or not any(lengths) or max(lengths) > LONGEST:
            return
        captures = document.query_syntax_tree(_query(document.language), (rows.start, 0), (rows.stop, 0))
        for name, nodes in captures.items():
            for node in nodes:
                (first, start), (last, end) = node.start_point, node.end_point
                for row in range(max(first, rows.start), min(last + 1, rows.stop)):
                    highlights[row].append((start if row == first else 0, end if row == last else None, name))
        for row in rows:
            if sign := _SIGN.search(document.get_line(row)):
                place = next(number for number in (1, 2, 3) if sign.start(number) >= 0)
                start, end = (len(sign.string[:offset].encode()) for offset in sign.span(place))
                highlights[row].append((start, end, "keyword"))
