"""A text area that highlights only the lines that are seen."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from textual.document._syntax_aware_document import SyntaxAwareDocument
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import TextArea

if TYPE_CHECKING:
    from tree_sitter import Language, Query

LONGEST = 5_000
"""Characters of a line beyond which what is seen stays plain: each row of a wrapped line is coloured by all tokens of that line."""

_SIGN = re.compile(r"^\s*(?:[^\W\d][\w.]*\s*=\s*)?(!(?!=)|%%?[^\W\d]\w*)|^\s*(\?\??)|^\s*[^\W\d][\w.]*(?:\[[^\]]*\])*(\?\??)\s*$")
"""What makes a line one of the prompt's own: ``!command``, ``%magic``, ``object?``."""


@cache
def _query(language: Language) -> Query:
    """Textual's query for Python's colours, compiled once (18 ms); `TextArea` does it anew for each area, each text and each change of language."""
    from tree_sitter import Query

    return Query(language, TextArea._get_builtin_highlight_query("python"))


class SeenHighlights(TextArea):
    """Asks tree-sitter for the lines on the screen when they are drawn, where `TextArea` asks for all lines at every edit.

    At 1,000 lines an edit takes 0.6 ms this way, 20 ms otherwise (pygments: 35 ms).
    """

    _rows_done: range = range(0)

    @staticmethod
    def _get_builtin_highlight_query(language_name: str) -> str:
        """Nothing: `_highlight` has its own, once there is something to colour."""
        return ""

    def _set_document(self, text: str, language: str | None) -> None:
        before = getattr(self, "document", None)
        super()._set_document(text, language)
        if isinstance(before, SyntaxAwareDocument):
            # A document and its tree hold each other, the tree in C, where no collector sees it: neither would ever be freed.
            del before._syntax_tree

    def _build_highlight_map(self) -> None:
        self._line_cache.clear()
        self._highlights.clear()
        self._rows_done = range(0)

    def render_lines(self, crop: Region) -> list[Strip]:
        top = self.scroll_offset.y
        seen = self.wrapped_document._offset_to_line_info[top : top + self.size.height]
        if seen:
            rows = range(seen[0][0], seen[-1][0] + 1)
            if rows != self._rows_done:
                self._highlight(rows)
        return super().render_lines(crop)

    def _highlight(self, rows: range) -> None:
        self._build_highlight_map()
        self._rows_done = rows
        lengths = [len(self.document.get_line(row)) for row in rows]
        if not isinstance(self.document, SyntaxAwareDocument) or not any(lengths) or max(lengths) > LONGEST:
            return
        captures = self.document.query_syntax_tree(_query(self.document.language), (rows.start, 0), (rows.stop, 0))
        for name, nodes in captures.items():
            for node in nodes:
                (first, start), (last, end) = node.start_point, node.end_point
                for row in range(max(first, rows.start), min(last + 1, rows.stop)):
                    self._highlights[row].append((start if row == first else 0, end if row == last else None, name))
        for row in rows:
            if sign := _SIGN.search(self.document.get_line(row)):
                place = next(number for number in (1, 2, 3) if sign.start(number) >= 0)
                start, end = (len(sign.string[:offset].encode()) for offset in sign.span(place))
                self._highlights[row].append((start, end, "keyword"))
