"""The line under the input: what its keys do, or what would go with the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.session.inbox import Mode
from mahtab_tui.session.mentions import Chip
from mahtab_tui.tui.rows.newest import NewestOnly

_KEYS: dict[Mode, str] = {
    "python": "Python · Enter runs · Ctrl+J new line · ` asks the model",
    "ask": "Ask · Enter sends · Ctrl+J new line · /help · ` back to Python",
}
_REPLACING = "Enter replaces what you entered before · Escape gives it up · what came after leaves the conversation"

PAUSE = 0.15
"""Seconds without a key after which it is looked up what a question points at."""


class Hint(Static):
    """Knows the question as it stands; what it points at is found on a thread, since it may be long and the kernel busy."""

    class Looked(Message):
        """What a question points at was found."""

        def __init__(self, question: str, chips: Sequence[Chip]) -> None:
            super().__init__()
            self.question = question
            self.chips = chips

    def __init__(self, find: Callable[[str], Sequence[Chip]] | None, *, id: str | None = None) -> None:
        """find: what would go with a question; called on a thread. None: nothing ever does."""
        super().__init__(id=id, markup=False)
        self._mode: Mode = "python"
        self._replacing = False
        self._offer = ""
        self._question = ""
        self._chips: Sequence[Chip] = ()
        """What would go with the question."""
        self._looking: NewestOnly[str] | None = None
        if find is not None:
            self._looking = NewestOnly(lambda question: self.post_message(self.Looked(question, find(question))), "attachments", PAUSE)

    def on_unmount(self) -> None:
        if self._looking is not None:
            self._looking.close()

    def show(self, mode: Mode, *, replacing: bool) -> None:
        """replacing: what is entered takes the place of something."""
        self._mode, self._replacing = mode, replacing
        self._draw()

    def look_at(self, question: str) -> None:
        """The question that is being written; empty where there is none."""
        self._question = question
        if question and self._looking is not None:
            self._looking.ask(question)
        elif self._chips:
            self._chips = ()
            self._draw()

    def offer(self, offer: str) -> None:
        """A sentence with a key in the place of the keys; empty: none any more."""
        if offer != self._offer:
            self._offer = offer
            self._draw()

    @on(Looked)
    def _looked(self, message: Looked) -> None:
        message.stop()
        if message.question == self._question and message.chips != self._chips:
            self._chips = message.chips
            self._draw()

    def _draw(self) -> None:
        if self._offer:
            self.update(Content.styled(self._offer, "$moon"))
            return
        if self._replacing or not self._chips:
            self.update(Content(_REPLACING if self._replacing else _KEYS[self._mode]))
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
    """A text from outside, fit for one line."""
    return " ".join(plain(text).split())
