"""The answers to a question as a row of chips, which keys and clicks choose.

A question appears while the user may be typing, so for a moment its keys mean what they meant before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.errors import NoWidget
from textual.events import Click, Event, Key, Paste
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

IGNORE_KEYS_S = 0.3
"""For this time after a row appears, keys and clicks count for what was there before."""
CHIP_GAP = 2
"""Cells between two chips."""
ANSWER_KEY = "answer"
"""The key, in the style of a chip, of the answer that a click on it gives."""


class Chip(NamedTuple):
    """An answer that can be clicked, or given by its key."""

    answer: str
    """Identifies the answer among those to the same question."""
    key: str
    """The key that gives it, by its name in Textual."""
    style: str
    text: str
    short: str = ""
    """The text in a narrow row; empty if it is the same."""


class ChipTexts(NamedTuple):
    """How all chips of a row are written."""

    texts: Sequence[str]
    """The text of each chip."""
    gap: int
    """Cells between two chips."""

    @property
    def width(self) -> int:
        """The width of all chips with their gaps, in cells."""
        return sum(map(cell_len, self.texts)) + self.gap * (len(self.texts) - 1)


class Chips(Widget, can_focus=True):
    """The answers to a question. While it has the focus, other keys go to the editor."""

    DEFAULT_CSS = "Chips { height: 1; }"

    @dataclass
    class Chosen(Message):
        """The user gave an answer."""

        question: str
        """The id of the question that was visible, because another one may follow at once."""
        answer: str
        letter: Key | None
        """None for a click, or a key that types nothing."""

    @dataclass
    class Typed(Message):
        """The user typed or pasted something that is no answer."""

        input: Key | Paste
        is_early: bool
        """Whether the question had just appeared."""

    def __init__(self, chips: Sequence[Chip], clock: Callable[[], float]) -> None:
        """
        Args:
            chips: The answers.
            clock: Returns the time in seconds.
        """
        super().__init__()
        self._chips = chips
        self._clock = clock
        self._question = ""
        """The id of the question that is visible."""
        self._accept_clicks_from = 0.0
        """The time, on `clock`, from which clicks count."""
        self._accept_keys_from = 0.0
        """The time, on `clock`, from which keys count."""
        self._appeared = 0.0
        """When the question appeared, in seconds of the monotonic clock, which events have."""

    def offer(self, chips: Sequence[Chip]) -> None:
        """Show other answers from now on."""
        self._chips = chips
        self.refresh()

    def appear(self, question: str) -> None:
        """Offer the answers to a question, and ignore keys and clicks for a moment.

        Args:
            question: The id of the question.
        """
        self._question = question
        self._ignore_input()

    def _ignore_input(self) -> None:
        self._appeared = time.monotonic()
        accept_from = self._clock() + IGNORE_KEYS_S
        self._accept_clicks_from = accept_from
        self._accept_keys_from = accept_from

    def _is_early(self, event: Event, accept_from: float) -> bool:
        """Return whether an event was meant for what was there before the question.

        Args:
            event: A key, a paste or a click.
            accept_from: The time, on the clock, from which such events count.
        """
        # On a busy machine, an event may arrive long after its key was pressed.
        was_pressed_before = event.time < self._appeared
        return was_pressed_before or self._clock() < accept_from

    def on_focus(self) -> None:
        self._accept_keys_from = self._clock() + IGNORE_KEYS_S

    def render(self) -> Content:
        texts = self._fitting_texts()
        chips = []
        for chip, text in zip(self._chips, texts.texts, strict=True):
            answer_style = Style.from_meta({ANSWER_KEY: chip.answer})
            chips.append(Content.styled(text, chip.style).stylize(answer_style))
        return Content(" " * texts.gap).join(chips)

    def on_key(self, event: Key) -> None:
        is_early = self._is_early(event, self._accept_keys_from)
        if is_early:
            # A key that is held down is ignored until it is released.
            self._accept_keys_from = self._clock() + IGNORE_KEYS_S
        answers_by_key = {chip.key: chip.answer for chip in self._chips}
        answer = answers_by_key.get(event.key)
        if answer is None and not event.is_printable and not is_early:
            # Such as an arrow key, which scrolls.
            return
        event.stop()
        event.prevent_default()
        key = Key(event.key, event.character)
        # What the user cannot see is not answered.
        if answer is None or is_early or not self._is_visible():
            self.post_message(self.Typed(key, is_early))
        else:
            self._choose(answer, key if event.is_printable else None)

    def _is_visible(self) -> bool:
        """Return whether the chips are on the screen, and nothing covers them."""
        try:
            widget, _ = self.screen.get_widget_at(*self.region.offset)
        except NoWidget:
            return False
        return widget is self

    def on_paste(self, event: Paste) -> None:
        event.stop()
        is_early = self._is_early(event, self._accept_keys_from)
        self.post_message(self.Typed(Paste(event.text), is_early))

    def on_click(self, event: Click) -> None:
        answer = event.style.meta.get(ANSWER_KEY)
        if answer is not None and not self._is_early(event, self._accept_clicks_from):
            self._choose(answer)

    def _choose(self, answer: str, letter: Key | None = None) -> None:
        """Post an answer, and ignore further keys for a moment: none may answer the next question
        unseen."""
        self._ignore_input()
        self.post_message(self.Chosen(self._question, answer, letter))

    def _fitting_texts(self) -> ChipTexts:
        """Return the longest texts that fit; the shortest if none do."""
        full_texts = [chip.text for chip in self._chips]
        short_texts = [chip.short or chip.text for chip in self._chips]
        bare_texts = [text.strip() for text in short_texts]
        candidates = (
            ChipTexts(full_texts, CHIP_GAP),
            ChipTexts(short_texts, CHIP_GAP),
            ChipTexts(bare_texts, 1),
        )
        for texts in candidates:
            if texts.width <= self.size.width:
                return texts
        return candidates[-1]
