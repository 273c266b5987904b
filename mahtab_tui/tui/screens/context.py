"""Use of the model's window, as a bar and a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.session.context_use import ContextUse
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.dialog import TextDialog

_COLOURS = ("$model", "$moon", "$person", "$good", "$bad", "$foreground")
_ROOM = "░"


class ContextScreen(TextDialog):
    """Counts on a thread, because the model may have to be loaded."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "leave", "Close")]

    def __init__(self, count: Callable[[], ContextUse]) -> None:
        """count: counts what the next question would send; may raise an exception with a
        sentence."""
        super().__init__("Context · Esc closes", "counting …", id="context-rows")
        self._count = count
        self._fetcher = Fetcher(self)

    def on_mount(self) -> None:
        self._fetcher.ask("context", self._count, self._show, self._say)

    def _show(self, use: ContextUse) -> None:
        self.text.update(context_lines(use, max(20, self.text.size.width)))

    def _say(self, sentence: str) -> None:
        self.text.update(Content.styled(one_line(sentence), "$bad"))


def context_lines(use: ContextUse, width: int) -> Content:
    """Draw a bar of all parts, and a line for each."""
    cells = [max(1, part.tokens * width // max(use.room, use.tokens)) for part in use.parts]
    if (over := sum(cells) - width) > 0:  # small parts have a cell each
        cells[cells.index(max(cells))] -= over
    bar = [("█" * count, _COLOURS[place % len(_COLOURS)]) for place, count in enumerate(cells)]
    lines: list[Content | str] = [
        f"About {use.tokens:,} of {use.room:,} tokens ({use.tokens / use.room:.0%}) go with the next question.",
        Content.assemble(*bar, (_ROOM * max(0, width - sum(cells)), "$muted")),
        "",
    ]
    for place, part in enumerate(use.parts):
        mark = ("█ ", _COLOURS[place % len(_COLOURS)])
        lines.append(
            Content.assemble(
                mark,
                f"{part.name:<26}{part.tokens:>9,}{part.tokens / use.room:>6.0%}  ",
                (part.advice, "$muted"),
            )
        )
    return Content("\n").join(Content(line) if isinstance(line, str) else line for line in lines)
