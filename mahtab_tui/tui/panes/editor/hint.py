"""The line below the input: its keys, or the attachments of the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.session.inbox import Mode
from mahtab_tui.session.mentions import MentionChip
from mahtab_tui.tui.rows.newest import NewestOnly

_KEYS: dict[Mode, str] = {
    "python": "Python · Enter runs · Ctrl+J new line · ` asks the model",
    "ask": "Ask · Enter sends · Ctrl+J new line · /help · ` back to Python",
}
_CHANGING = "Enter runs it as this cell of the notebook · Escape cancels"
_REPLACING = "Enter replaces your earlier input · Escape cancels · later entries leave the conversation"

PAUSE = 0.15
"""Seconds without a key before the mentions in a question are looked up."""


class Hint(Static):
    """Shows the keys of the mode, an offer, or the mentions of a question, which are looked up on a thread."""

    class ChipsFound(Message):
        """Posted when the mentions of a question were looked up."""

        def __init__(self, question: str, chips: Sequence[MentionChip]) -> None:
            super().__init__()
            self.question = question
            self.chips = chips

    def __init__(self, find: Callable[[str], Sequence[MentionChip]] | None, *, id: str | None = None) -> None:
        """find: previews the attachments of a question; called on a thread."""
        super().__init__(id=id, markup=False)
        self._mode: Mode = "python"
        self._replaces = ""
        self._offer = ""
        self._question = ""
        self._chips: Sequence[MentionChip] = ()
        """The attachments of the question."""
        self._looking: NewestOnly[str] | None = None
        if find is not None:
            self._looking = NewestOnly(lambda question: self.post_message(self.ChipsFound(question, find(question))), "attachments", PAUSE)

    def on_unmount(self) -> None:
        if self._looking is not None:
            self._looking.close()

    def show(self, mode: Mode, *, replaces: str) -> None:
        """Show the keys of a mode. replaces: the name of the entry that the input replaces; empty for none."""
        self._mode, self._replaces = mode, replaces
        self._draw()

    def look_at(self, question: str) -> None:
        """Look up the mentions of the question that is being written; empty for none."""
        self._question = question
        if question and self._looking is not None:
            self._looking.ask(question)
        elif self._chips:
            self._chips = ()
            self._draw()

    def offer(self, offer: str) -> None:
        """Show a sentence instead of the keys; empty to remove it."""
        if offer != self._offer:
            self._offer = offer
            self._draw()

    @on(ChipsFound)
    def _chips_found(self, message: ChipsFound) -> None:
        message.stop()
        if message.question == self._question and message.chips != self._chips:
            self._chips = message.chips
            self._draw()

    def _draw(self) -> None:
        if self._offer:
            self.update(Content.styled(self._offer, "$moon"))
            return
        if self._replaces or not self._chips:
            replacing = _CHANGING if self._replaces.startswith("place ") else _REPLACING
            self.update(Content(replacing if self._replaces else _KEYS[self._mode]))
            return
        chips = (
            Content.assemble(
                (f" {_line(chip.label)} ", "$moon on $panel"),
                (f"{_line(chip.size)} ", "$bad on $panel" if chip.missing else "$muted on $panel"),
            )
            for chip in self._chips
        )
        self.update(Content("  ").join(chips))


def _line(text: str) -> str:
    """Return text from outside in one line, safe to draw."""
    return " ".join(plain(text).split())
