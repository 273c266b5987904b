"""A line of text that the user enters."""

from __future__ import annotations

from textual.events import Key, Paste
from textual.widgets import Input

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.textual_fixes.own_bindings import run_own_binding


class LineInput(Input):
    """An `Input` that joins the lines of a pasted text, removes control characters, and runs keys
    in order."""

    async def on_key(self, event: Key) -> None:
        await run_own_binding(self, event)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        start, end = sorted(self.selection)
        self.replace(" ".join(plain(event.text.strip("\r\n")).splitlines()), start, end)
