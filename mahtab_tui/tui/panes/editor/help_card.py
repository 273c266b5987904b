"""Signature and docstring of what the cursor stands in, on a card over the panes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import Explanation, KernelError

Explain = Callable[[str, int], Explanation | None]
"""What a thing is that stands at a cursor of a code; raises `KernelError`."""

_WIDEST, _HIGHEST = 90, 16
"""Columns and lines, the frame included."""


class HelpCard(Static):
    """Never has the focus; whoever types or moves the cursor closes it."""

    can_focus = False

    class Explained(Message):
        """The kernel has answered; None: it does not know, `error`: or cannot say."""

        def __init__(self, number: int, explanation: Explanation | None, error: str) -> None:
            super().__init__()
            self.number = number
            self.explanation = explanation
            self.error = error

    def __init__(self, explain: Explain | None) -> None:
        super().__init__(markup=False)
        self.display = False
        self._explain = explain
        self._asked = 0
        self._at = Offset(0, 0)

    def ask(self, code: str, cursor: int, at: Offset) -> None:
        """Explain what stands at a cursor (in characters), whose cell of the screen is `at`; the kernel is asked on a thread."""
        if self._explain is None:
            return
        self._at, self._asked = at, self._asked + 1
        threading.Thread(target=self._fetch, args=(self._explain, self._asked, code, cursor), name="explain", daemon=True).start()

    def close(self) -> None:
        """Close it, and drop the answer that is still to come."""
        self._asked += 1
        self.display = False

    def _fetch(self, explain: Explain, number: int, code: str, cursor: int) -> None:
        try:
            self.post_message(self.Explained(number, explain(code, cursor), ""))
        except KernelError as error:
            self.post_message(self.Explained(number, None, str(error)))

    def on_help_card_explained(self, message: Explained) -> None:
        """Show what came, if it is still asked for."""
        message.stop()
        if message.number != self._asked:
            return
        about = message.explanation
        self._show(Content(message.error or "What stands here is not known.") if about is None else _content(about))

    def _show(self, content: Content) -> None:
        screen = self.screen.size
        width = min(screen.width, _WIDEST)
        lines = content.wrap(width - 4)
        above = max(3, self._at.y)
        height = min(len(lines) + 2, _HIGHEST, above)
        if len(lines) > height - 2:
            lines = [*lines[: height - 3], Content.styled("… name? in a cell shows all of it", "$muted")]
        self.update(Content("\n").join(lines))
        self.styles.width, self.styles.height = width, height
        self.absolute_offset = Offset(max(0, min(self._at.x - 2, screen.width - width)), max(0, self._at.y - height))
        self.display = True


def _content(about: Explanation) -> Content:
    from textual.highlight import highlight  # for which the first picture does not wait

    parts = [highlight(plain(about.signature), language="python")]
    if about.doc:
        parts.append(Content(plain(about.doc)))
    if about.where:
        parts.append(Content.styled(plain(about.where), "$muted"))
    return Content("\n\n").join(parts)
