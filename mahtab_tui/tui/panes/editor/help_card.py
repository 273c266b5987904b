"""A card over the panes with signature and docstring of the name at the cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import Offset
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.rows.fetcher import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.kernel.code_help import Explanation

Explain = Callable[[str, int], "Explanation | None"]
"""Explains the name at a cursor in code; raises `KernelError`."""

_WIDEST_CARD, _HIGHEST = 90, 16
"""Maximum columns and lines, including the border."""


class HelpCard(Static):
    """Shows an explanation. It never has the focus; typing or moving the cursor closes it."""

    can_focus = False

    def __init__(self, explain: Explain | None) -> None:
        super().__init__(markup=False)
        self.display = False
        self._explain = explain
        self._fetcher = Fetcher(self)

    def ask(self, code: str, cursor: int, at: Offset) -> None:
        """Explain the name at a cursor, in characters; asks the kernel on a thread. at: the
        cursor's cell of the screen."""
        if (explain := self._explain) is None:
            return
        self._fetcher.ask(
            "help",
            lambda: explain(code, cursor),
            lambda about: self._show(_content(about), at),
            lambda error: self._show(Content(error), at),
        )

    def close(self) -> None:
        """Close the card, and drop a pending answer."""
        self._fetcher.forget("help")
        self.display = False

    def _show(self, content: Content, at: Offset) -> None:
        screen = self.screen.size
        width = min(screen.width, _WIDEST_CARD)
        lines = content.wrap(width - 4)
        height = min(len(lines) + 2, _HIGHEST, max(3, at.y))
        if len(lines) > height - 2:
            lines = [
                *lines[: height - 3],
                Content.styled("… name? in a cell shows all of it", "$muted"),
            ]
        self.update(Content("\n").join(lines))
        self.styles.width, self.styles.height = width, height
        self.absolute_offset = Offset(
            max(0, min(at.x - 2, screen.width - width)), max(0, at.y - height)
        )
        self.display = True


def _content(about: Explanation | None) -> Content:
    from textual.highlight import highlight  # loaded late, for a fast start

    if about is None:
        return Content("No help for the code at the cursor.")
    parts = [highlight(plain(about.signature), language="python")]
    if about.doc:
        parts.append(Content(plain(about.doc)))
    if about.where:
        parts.append(Content.styled(plain(about.where), "$muted"))
    return Content("\n\n").join(parts)
