"""Screens with a report that is made on a thread: usage, and what fills the model's window.

A report is drawn once, as wide as the screen is then.
"""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.screens.dialog import TextDialog
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.session.context_use import ContextUse

MIN_BAR_WIDTH = 20
"""Cells that the bar has at least, even if the screen is narrower."""
_PART_COLOURS = ("$model", "$highlight", "$person", "$good", "$bad", "$foreground")
"""The colours of the parts of a prompt, in turn."""
_FREE_GLYPH = "░"


class ReportScreen(TextDialog):
    """Shows a report, which a subclass makes on a thread, because it may have to wait."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "leave", "Close")]

    def report(self, width: int) -> str | Content:
        """Return the report; called on a thread.

        Args:
            width: The width of a line, in cells.
        """
        raise NotImplementedError

    def on_mount(self) -> None:
        self.call_after_refresh(self._ask)

    def _ask(self) -> None:
        def fail(sentence: str) -> None:
            self.text.update(Content.styled(one_line(sentence), "$bad"))

        report = partial(self.report, self.text.size.width)
        Fetcher(self).run("report", report, self.text.update, fail)


class UsageScreen(ReportScreen):
    """What the session, its questions and its searches have used and cost."""

    def __init__(self, session: Session) -> None:
        super().__init__("Usage", "", id="usage-rows")
        self._session = session

    def report(self, width: int) -> str:
        return self._session.spending.table(width)


class ContextScreen(ReportScreen):
    """What fills the model's window."""

    def __init__(self, session: Session) -> None:
        super().__init__("Context", "counting …", id="context-rows")
        self._session = session

    def report(self, width: int) -> Content:
        return context_lines(self._session.context_use(), width)


def context_lines(use: ContextUse, width: int) -> Content:
    """Draw how the parts of a prompt fill the model's window.

    Args:
        use: The parts, and the size of the window.
        width: The width of a line, in cells.
    """
    width = max(MIN_BAR_WIDTH, width)
    # Each part has at least one cell, so that together they may be too wide.
    capacity = max(use.max_tokens, use.tokens)
    part_cells = [max(1, part.tokens * width // capacity) for part in use.parts]
    excess_cells = sum(part_cells) - width
    if excess_cells > 0:
        widest = part_cells.index(max(part_cells))
        part_cells[widest] -= excess_cells

    colours = list(islice(cycle(_PART_COLOURS), len(part_cells)))
    bar = [("█" * cells, colour) for cells, colour in zip(part_cells, colours, strict=True)]
    free_cells = max(0, width - sum(part_cells))
    bar.append((_FREE_GLYPH * free_cells, "$muted"))

    total = f"About {use.tokens:,} of {use.max_tokens:,} tokens ({use.tokens / use.max_tokens:.0%})"
    lines = [
        Content(f"{total} go with the next question."),
        Content.assemble(*bar),
        Content(""),
    ]
    for part, colour in zip(use.parts, colours, strict=True):
        text = f"{part.name:<26}{part.tokens:>9,}{part.tokens / use.max_tokens:>6.0%}  "
        lines.append(Content.assemble(("█ ", colour), text, (part.advice, "$muted")))
    return Content("\n").join(lines)
