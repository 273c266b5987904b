"""A row of answers, given by key or click."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual.content import Content
from textual.errors import NoWidget
from textual.events import Click, Event, Key, Paste
from textual.message import Message
from textual.widget import Widget

DEAF = 0.3
"""Seconds for which keys and clicks are ignored, because they were meant for what was here
before."""


class Chip(NamedTuple):
    answer: str
    key: str
    text: str
    short: str
    """Shown if there is no room for the text."""
    style: str


_GAP = 2
"""Cells between two answers."""


class Chips(Widget, can_focus=True):
    """Shows answers. Keys act only while it has the focus."""

    @dataclass
    class Chosen(Message):
        answer: str
        letter: Key | None
        """The key, if it was a letter; None for a click or another key."""

    @dataclass
    class OtherTyped(Message):
        """The user typed something that is no answer, or that came too early."""

        event: Key | Paste
        early: bool

    class FocusMoved(Message):
        """The widget got or lost the focus."""

    def __init__(self, chips: Sequence[Chip], clock: Callable[[], float]) -> None:
        super().__init__()
        self._chips = chips
        self._clock = clock
        self._clicks_from = 0.0
        self._keys_from = 0.0
        self._since = 0.0
        """When the current question appeared, in the time of events."""

    def offer(self, chips: Sequence[Chip]) -> None:
        self._chips = chips
        self.refresh()

    def appear(self) -> None:
        """Belong to another question from now on: ignore keys and clicks for a moment."""
        self._since = time.monotonic()
        self._clicks_from = self._keys_from = self._clock() + DEAF

    def _is_early(self, event: Event, heard_from: float) -> bool:
        """Whether an event came too early for the current question. On a busy machine it may arrive
        long after it was pressed."""
        return event.time < self._since or self._clock() < heard_from

    def on_focus(self) -> None:
        self._keys_from = self._clock() + DEAF
        self.post_message(self.FocusMoved())

    def on_blur(self) -> None:
        self.post_message(self.FocusMoved())

    def render(self) -> Content:
        texts, gap = self._texts()
        return Content(" " * gap).join(Content.styled(text, chip.style) for chip, text in texts)

    def on_key(self, event: Key) -> None:
        early = self._is_early(event, self._keys_from)
        if early:  # a key that is held down is ignored until it is released
            self._keys_from = self._clock() + DEAF
        answer = next((chip.answer for chip in self._chips if chip.key == event.key), None)
        if answer is None and not event.is_printable and not early:
            return
        event.stop()
        event.prevent_default()
        if answer is None or early or not self._is_in_sight():
            self.post_message(self.OtherTyped(Key(event.key, event.character), early=early))
        else:
            self._choose(answer, Key(event.key, event.character) if event.is_printable else None)

    def _is_in_sight(self) -> bool:
        """Whether the row is visible. In a terminal of a few lines it may not be, and nobody
        answers what they cannot see."""
        try:
            return self.screen.get_widget_at(*self.region.offset)[0] is self
        except NoWidget:
            return False

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self.post_message(
            self.OtherTyped(Paste(event.text), early=self._is_early(event, self._keys_from))
        )

    def on_click(self, event: Click) -> None:
        place = event.x
        texts, gap = self._texts()
        for chip, text in texts:
            if 0 <= place < len(text) and not self._is_early(event, self._clicks_from):
                self._choose(chip.answer)
            place -= len(text) + gap

    def _choose(self, answer: str, letter: Key | None = None) -> None:
        """Give an answer, and ignore further keys until re-armed: a second fast key must not answer
        the next question unseen."""
        self.appear()
        self.post_message(self.Chosen(answer, letter))

    def _texts(self) -> tuple[list[tuple[Chip, str]], int]:
        """Return the answers with the longest texts that fit, and the cells between two of them."""
        for texts, gap in (
            ([chip.text for chip in self._chips], _GAP),
            ([chip.short for chip in self._chips], _GAP),
            ([chip.short.strip() for chip in self._chips], 1),
        ):
            if sum(map(len, texts)) + gap * (len(texts) - 1) <= self.size.width:
                break
        return list(zip(self._chips, texts, strict=True)), gap
