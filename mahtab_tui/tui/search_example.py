"""What stands in the place of the searches before the first one."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import var
from textual.widgets import Static

_CALL = Content.assemble(
    ("rlm(", "$foreground"),
    ('"question"', "$good"),
    (", text)", "$foreground"),
    (" searches a long text", "$muted"),
)
EXAMPLE = Content.assemble(("RECURSION\n\n", "$muted"), _CALL, ("; each call shows here", "$muted"))
EXAMPLE_LINES = 5
SHORT_EXAMPLE = Content.assemble(("RECURSION\n", "$muted"), _CALL)
SHORT_EXAMPLE_LINES = 2


class SearchExample(Static):
    """Shows how a search is called."""

    short = var(False, init=False)
    """Whether to leave lines for the preview of a variable above it."""

    def __init__(self, *, id: str) -> None:
        super().__init__(EXAMPLE, id=id)

    @property
    def line_count(self) -> int:
        """The lines that the example needs."""
        return SHORT_EXAMPLE_LINES if self.short else EXAMPLE_LINES

    def watch_short(self) -> None:
        self.update(SHORT_EXAMPLE if self.short else EXAMPLE)
