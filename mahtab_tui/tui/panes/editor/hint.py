"""The line below the input: its keys, or the attachments of the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.system.imports import IMPORTS

if TYPE_CHECKING:
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.session.mentions import MentionChip
    from mahtab_tui.tui.rows.latest_worker import LatestWorker

_KEYS: dict[Mode, str] = {
    "python": "Python · Enter runs · ` asks the model · Ctrl+J new line",
    "ask": "Ask · Enter sends · ` back to Python · Ctrl+J new line · /help",
}
_CHANGING = "Enter runs it as this cell of the notebook · Escape cancels"
_REPLACING = (
    "Enter replaces your earlier input · Escape cancels · later entries leave the conversation"
)

FindChips = Callable[[str], "Sequence[MentionChip]"]
"""Previews the attachments of a question; called on a thread."""

PAUSE = 0.15
"""Seconds without a key before the mentions in a question are looked up."""


class Hint(Static):
    """Shows the keys of the mode, an offer, or the mentions of a question, which are looked up on a
    thread."""

    def __init__(self, find: FindChips | None, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._mode: Mode = "python"
        self._replaces = ""
        self._offer = ""
        self._question = ""
        self._chips: Sequence[MentionChip] = ()
        self._find = find
        self._looking: LatestWorker[str] | None = None
        """Made with the first question."""

    def on_unmount(self) -> None:
        if self._looking is not None:
            self._looking.close()

    def show(self, mode: Mode, *, replaces: str) -> None:
        """Show the keys of a mode. replaces: the name of the entry that the input replaces; empty
        for none."""
        self._mode, self._replaces = mode, replaces
        self._draw()

    def look_at(self, question: str) -> None:
        """Look up the mentions of the question that is being written; empty for none."""
        self._question = question
        if question and self._find is not None:
            if self._looking is None:
                from mahtab_tui.tui.rows.latest_worker import LatestWorker

                self._looking = LatestWorker(partial(self._look, self._find), "attachments", PAUSE)
            self._looking.ask(question)
        elif self._chips:
            self._show_chips(question, ())

    def _look(self, find: FindChips, question: str) -> None:
        """Look up the mentions, on the thread, by what is loaded after the first picture."""
        IMPORTS.wait_for_screen()
        self.call_later(self._show_chips, question, find(question))

    def offer(self, offer: str) -> None:
        """Show a sentence instead of the keys; empty to remove it."""
        if offer != self._offer:
            self._offer = offer
            self._draw()

    def _show_chips(self, question: str, chips: Sequence[MentionChip]) -> None:
        """Show the attachments of a question, if it is still the one that is being written."""
        if question == self._question and chips != self._chips:
            self._chips = chips
            self._draw()

    def _draw(self) -> None:
        if self._offer and not self._chips:  # words with attachments are a question
            self.update(Content.styled(self._offer, "$moon"))
        elif self._replaces:
            self.update(Content(_CHANGING if self._replaces.startswith("place ") else _REPLACING))
        else:
            self.update(
                Content("  ").join(map(_drawn, self._chips))
                if self._chips
                else Content(_KEYS[self._mode])
            )


def _drawn(chip: MentionChip) -> Content:
    label, size = (" ".join(plain(text).split()) for text in (chip.label, chip.size))
    return Content.assemble(
        (f" {label} ", "$moon on $panel"),
        (f"{size} ", "$bad on $panel" if chip.missing else "$muted on $panel"),
    )
