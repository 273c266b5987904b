"""A card over the panes with signature and docstring of the name at the cursor."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.code_help import Explanation

Explain = Callable[[str, int], Explanation | None]
"""Explains the name at a cursor in code; raises `KernelError`."""

_WIDEST, _HIGHEST = 90, 16
"""Maximum columns and lines, including the border."""


class HelpCard(Static):
    """Shows an explanation. It never has the focus; typing or moving the cursor closes it."""

    can_focus = False

    class Explained(Message):
        """Posted when the kernel has answered. explanation: None if there is none. error: why the kernel failed."""

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
        """Explain the name at a cursor, in characters; asks the kernel on a thread. at: the cursor's cell of the screen."""
        if self._explain is None:
            return
        self._at, self._asked = at, self._asked + 1
        threading.Thread(target=self._fetch, args=(self._explain, self._asked, code, cursor), name="explain", daemon=True).start()

    def close(self) -> None:
        """Close the card, and drop a pending answer."""
        self._asked += 1
        self.display = False

    def _fetch(self, explain: Explain, number: int, code: str, cursor: int) -> None:
        try:
            self.post_message(self.Explained(number, explain(code, cursor), ""))
        except KernelError as error:
            self.post_message(self.Explained(number, None, str(error)))

    def on_help_card_explained(self, message: Explained) -> None:
        """Show the answer if it is still wanted."""
        message.stop()
        if message.number != self._asked:
            return
        about = message.explanation
        self._show(Content(message.error or "No help for what is at the cursor.") if about is None else _content(about))

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
    from textual.highlight import highlight  # loaded late, for a fast start

    parts = [highlight(plain(about.signature), language="python")]
    if about.doc:
        parts.append(Content(plain(about.doc)))
    if about.where:
        parts.append(Content.styled(plain(about.where), "$muted"))
    return Content("\n\n").join(parts)
