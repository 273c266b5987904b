"""Textual's text area, fast in long texts and right about its size and cursor."""

from __future__ import annotations

from typing import Any

from textual.document._syntax_aware_document import SyntaxAwareDocument
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widgets import TextArea

from mahtab_tui.tui.textual_fixes.seen_highlights import SeenHighlights


class MendedTextArea(TextArea):
    """Colours only the lines that are seen; see there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._seen_highlights = SeenHighlights(self)
        super().__init__(*args, **kwargs)

    @staticmethod
    def _get_builtin_highlight_query(language_name: str) -> str:
        """Nothing: `SeenHighlights` has its own, once there is something to colour."""
        return ""

    def _set_document(self, text: str, language: str | None) -> None:
        before = getattr(self, "document", None)
        super()._set_document(text, language)
        if isinstance(before, SyntaxAwareDocument):
            # A document and its tree hold each other, the tree in C, where no collector sees it: neither would ever be freed.
            del before._syntax_tree

    def _build_highlight_map(self) -> None:
        self._seen_highlights.forget()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._seen_highlights.look()
        return super().render_lines(crop)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """No more than the style allows. Textual leaves out a maximum in vh where what holds this has no height itself yet."""
        height, most = super().get_content_height(container, viewport, width), self.styles.max_height
        return height if most is None else min(height, int(most.resolve(viewport, viewport)))

    def _refresh_size(self) -> None:
        """Textual scrolls to the cursor before it knows how high the new text is."""
        super()._refresh_size()
        self.scroll_cursor_visible()

    def _recompute_cursor_offset(self) -> None:
        # Undo may take the scrollbar away while the cursor still stands in a line that is gone; it is put right a moment later.
        row, column = self.cursor_location
        if row < self.document.line_count and column <= len(self.document.get_line(row)):
            super()._recompute_cursor_offset()  # type: ignore[no-untyped-call]
