"""Answers in a row, by key or click."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.content import Content
from textual.errors import NoWidget
from textual.events import Click, Event, Key, Paste
from textual.message import Message
from textual.widget import Widget

DEAF = 0.3
"""Seconds for which keys and clicks answer nothing: they were meant for what stood here before."""


class Chip(NamedTuple):
    """One answer."""

    answer: str
    key: str
    text: str
    short: str
    """Where the long text has no room."""
    style: str


_GAP = 2


class Chips(Widget, can_focus=True):
    """A row of answers. Keys act only while the focus is here."""

    class Chosen(Message):
        """An answer was given."""

        def __init__(self, answer: str, letter: Key | None) -> None:
            super().__init__()
            self.answer = answer
            self.letter = letter
            """The letter that gave it; None for a click or another key."""

    class Elsewhere(Message):
        """Something was typed that is no answer, or came too early to be one."""

        def __init__(self, event: Key | Paste, *, early: bool) -> None:
            super().__init__()
            self.event = event
            self.early = early

    class FocusMoved(Message):
        """The focus came, or went."""

    def __init__(self, chips: Sequence[Chip], clock: Callable[[], float]) -> None:
        super().__init__()
        self._chips = chips
        self._clock = clock
        self._clicks_from = 0.0
        self._keys_from = 0.0
        self._since = 0.0
        """When what they answer came to stand here, as events tell their time."""

    def appear(self) -> None:
        """What they answer is another thing now: they are deaf for a moment."""
        self._since = time.monotonic()
        self._clicks_from = self._keys_from = self._clock() + DEAF

    def _is_early(self, event: Event, heard_from: float) -> bool:
        """Whether something cannot have been meant for what stands here now; on a busy machine it may come long after it was pressed."""
        return event.time < self._since or self._clock() < heard_from

    def on_focus(self) -> None:
        self._keys_from = self._clock() + DEAF
        self.post_message(self.FocusMoved())

    def on_blur(self) -> None:
        self.post_message(self.FocusMoved())

    def render(self) -> Content:
        gap = " " * _GAP
        return Content(gap).join(Content.styled(text, chip.style) for chip, text in self._texts())

    def on_key(self, event: Key) -> None:
        early = self._is_early(event, self._keys_from)
        if early:  # a key that is held down answers nothing until it is let go
            self._keys_from = self._clock() + DEAF
        answer = next((chip.answer for chip in self._chips if chip.key == event.key), None)
        if answer is None and not event.is_printable and not early:
            return
        event.stop()
        event.prevent_default()
        if answer is None or early or not self._is_in_sight():
            self.post_message(self.Elsewhere(Key(event.key, event.character), early=early))
        else:
            self._choose(answer, Key(event.key, event.character) if event.is_printable else None)

    def _is_in_sight(self) -> bool:
        """A terminal of a few lines has no room for the row: nobody answers what they cannot see."""
        try:
            return self.screen.get_widget_at(*self.region.offset)[0] is self
        except NoWidget:
            return False

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self.post_message(self.Elsewhere(Paste(event.text), early=self._is_early(event, self._keys_from)))

    def on_click(self, event: Click) -> None:
        place = event.x
        for chip, text in self._texts():
            if 0 <= place < len(text) and not self._is_early(event, self._clicks_from):
                self._choose(chip.answer)
            place -= len(text) + _GAP

    def _choose(self, answer: str, letter: Key | None = None) -> None:
        """Deaf from now on: a second key of the same bunch must not answer what comes to stand here next, unseen."""
        self.appear()
        self.post_message(self.Chosen(answer, letter))

    def _texts(self) -> list[tuple[Chip, str]]:
        long = [(chip, chip.text) for chip in self._chips]
        if sum(len(text) + _GAP for _, text in long) - _GAP <= self.size.width:
            return long
        return [(chip, chip.short) for chip in self._chips]
