"""One line of text that a person enters, free of control characters."""

from __future__ import annotations

from textual.events import Paste
from textual.widgets import Input

from mahtab_tui.bus.sanitize import plain


class Line(Input):
    """An `Input` that takes a pasted text whole, its line breaks as blanks."""

    def on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        start, end = sorted(self.selection)
        self.replace(" ".join(plain(event.text.strip("\r\n")).splitlines()), start, end)
