"""Base class of rows that ask the user something, and borrow the focus while they do not type."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.errors import NoWidget
from textual.events import Click, DescendantBlur, DescendantFocus, Event, Key, Paste
from textual.message import Message
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static, TextArea

from mahtab_tui.bus.records import Approval, Record, Review, SearchFanOut
from mahtab_tui.tui.editor.prompt_area import PromptArea

IGNORE_KEYS_S = 0.3
"""For this time after a row appears, keys and clicks count for what was there before."""
CHIP_GAP = 2
"""Cells between two chips."""
PART_CLASS = "prompt-part"
ANSWER_KEY = "answer"
"""The key, in the style of a chip, of the answer that a click on it gives."""
TYPING_GAP_S = 0.25
"""A letter answers after this time without another key, if the row took the focus itself."""
Request = TypeVar("Request", Approval, Review, SearchFanOut)


class FocusLoan:
    """Which widget had the focus before a row took it."""

    def __init__(self, row: Widget) -> None:
        self._row = row
        self._saved_focus: Widget | None = None

    @property
    def is_available(self) -> bool:
        """Whether the user is not typing, and no dialog covers the row."""
        screen = self._row.screen
        if not screen.is_active:
            return False
        focused = screen.focused
        return focused is None or (isinstance(focused, TextArea) and not focused.text)

    @property
    def has_focus(self) -> bool:
        return self._contains(self._row.screen.focused)

    @property
    def previous_focus(self) -> Widget | None:
        """The widget that had the focus; if none had, the first text field outside the row."""
        if self._saved_focus is not None:
            return self._saved_focus
        for widget in self._row.screen.focus_chain:
            if isinstance(widget, TextArea) and not self._contains(widget):
                return widget
        return None

    def borrow(self, target: Widget) -> None:
        """Focus a widget of the row, and note which one had the focus."""
        if not self.has_focus:
            self._saved_focus = self._row.screen.focused
        self._row.screen.set_focus(target)

    def give_back(self) -> None:
        """Focus the widget that had the focus, unless the user has moved on."""
        if self.has_focus:
            self._row.screen.set_focus(self.previous_focus)

    def _contains(self, widget: Widget | None) -> bool:
        return widget is not None and self._row in widget.ancestors_with_self


class Chip(NamedTuple):
    """An answer that can be clicked, or given by its key."""

    answer: str
    key: str
    style: str
    text: str
    short: str = ""
    """Shown in a narrow row."""


class ChipTexts(NamedTuple):
    """How all chips of a row are written."""

    texts: Sequence[str]
    gap: int
    """Cells between two chips."""

    @property
    def width(self) -> int:
        """In cells."""
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
            clock: In seconds.
        """
        super().__init__()
        self._chips = chips
        self._clock = clock
        self._question = ""
        # Times on the clock.
        self._accept_clicks_from = 0.0
        self._accept_keys_from = 0.0
        self._appeared = 0.0
        """When the question appeared, on the clock of events."""

    def offer(self, chips: Sequence[Chip]) -> None:
        """Show other answers from now on."""
        self._chips = chips
        self.refresh()

    def appear(self, question: str) -> None:
        """Offer the answers to a question, and ignore keys and clicks for a moment."""
        self._question = question
        self._ignore_input()

    def _ignore_input(self) -> None:
        self._appeared = time.monotonic()
        accept_from = self._clock() + IGNORE_KEYS_S
        self._accept_clicks_from = accept_from
        self._accept_keys_from = accept_from

    def _is_early(self, event: Event, accept_from: float) -> bool:
        """On a busy machine, an event may arrive long after its key was pressed."""
        return event.time < self._appeared or self._clock() < accept_from

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
        answer = next((chip.answer for chip in self._chips if chip.key == event.key), None)
        if answer is None and not event.is_printable and not is_early:
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
        """Ignore further keys until the next question: none may answer it unseen."""
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


class PromptRow(Widget, Generic[Request]):
    """Asks one question at a time. It takes the focus only if the editor is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(direction.replace("_", ""), f"scroll_content('{direction}')", show=False)
        for direction in ("up", "down", "page_up", "page_down", "home", "end")
    ]

    record_type: type[Request]
    answer_chips: Sequence[Chip]

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            clock: In seconds.
        """
        super().__init__()
        self._chips = Chips(self.answer_chips, clock)
        self._loan = FocusLoan(self)
        self._part = "chips"
        """The chips, or the id of a widget for details."""
        self._focused_by_user = False
        self._pending: tuple[str, Key] | None = None
        """An answer and its letter; it counts unless a key follows at once."""
        self._pending_timer: Timer | None = None
        self._requests: dict[str, Request] = {}
        """The open questions by their id, the current one first."""

    def on_mount(self) -> None:
        self.display = False

    def show(self, record: Request) -> None:
        """Prepare the row for a question."""

    def refresh_question(self) -> None:
        raise NotImplementedError

    def handle_answer(self, request: str, answer: str) -> None:
        raise NotImplementedError

    @property
    def target(self) -> Widget:
        """The widget that gets the focus."""
        if self._part == "chips":
            return self._chips
        return self.query_one(f"#{self._part}")

    @property
    def scrolled(self) -> Widget | None:
        """The widget that the arrow keys scroll; if None, the transcript."""
        return None

    def show_part(self, part: str) -> None:
        self._part = part
        self._chips.display = part == "chips"
        for widget in self.query(f".{PART_CLASS}"):
            widget.display = widget.id == part
        self.refresh_question()

    def go_to(self, part: str) -> None:
        self._focused_by_user = True
        self.show_part(part)
        self._loan.borrow(self.target)

    def fold(self, records: Sequence[Record]) -> None:
        for record in records:
            if not isinstance(record, self.record_type):
                continue
            if record.state != "waiting":
                self.forget(record.request)
            elif record.request not in self._requests:
                self._requests[record.request] = record
                if len(self._requests) == 1:
                    self._open(record)
                else:
                    self.refresh_question()

    def forget(self, request: str) -> None:
        """Close a question that is answered or no longer open."""
        is_current = request == self._current
        self._requests.pop(request, None)
        if is_current:
            self._pop_pending()
            self._loan.give_back()
            self.display = False
            if self._requests:
                self._open(self._requests[self._current])

    def focus(self, scroll_visible: bool = True) -> PromptRow[Request]:
        if self.display:
            self._focused_by_user = True
            self._loan.borrow(self.target)
        return self

    @property
    def _current(self) -> str:
        return next(iter(self._requests), "")

    @property
    def _editor_has_text(self) -> bool:
        return any(area.text for area in self.screen.query(PromptArea))

    def _open(self, record: Request) -> None:
        self._chips.appear(record.request)
        self.display = True
        self.show(record)
        if self._loan.is_available and not self._editor_has_text:
            self._focused_by_user = False
            self._loan.borrow(self.target)
        self.refresh_question()

    def _show(self, *parts: tuple[str, str]) -> None:
        """Show the parts that have text.

        Args:
            parts: Text and style.
        """
        visible_parts = []
        for text, style in (*parts, (self._focus_hint(), "$highlight")):
            if text:
                visible_parts.append(Content.styled(text, style))
        separator = Content.styled(" · ", "$muted")
        self.query(Static).first().update(separator.join(visible_parts))

    def _focus_hint(self) -> str:
        if self._loan.has_focus:
            return ""
        for active in self.screen.active_bindings.values():
            if active.binding.id == "focus-approval":
                return f"{self.app.get_key_display(active.binding)} or a click answers"
        return "a click answers"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "scroll_content":
            return self.scrolled is not None
        return super().check_action(action, parameters)

    def action_scroll_content(self, direction: str) -> None:
        scrolled = self.scrolled
        if scrolled is not None:
            scroll = getattr(scrolled, f"scroll_{direction}")
            scroll(animate=False)

    @on(Chips.Chosen)
    def _take_answer(self, message: Chips.Chosen) -> None:
        """Answer, or wait for a moment whether a text follows the letter."""
        message.stop()
        # No question is answered unseen.
        if message.question != self._current:
            return
        answer = message.answer
        letter = message.letter
        # If the row took the focus itself, the letter may be the first one of a text.
        if letter and not self._focused_by_user and self._loan.previous_focus is not None:
            self._pending = (answer, letter)
            self._pending_timer = self.set_timer(TYPING_GAP_S, self._answer_pending)
        else:
            self._answer(answer)

    @on(Chips.Typed)
    def _pass_on(self, message: Chips.Typed) -> None:
        """Send typed text to the editor, with the focus.

        Early keys go there only if the row took the focus itself.
        """
        message.stop()
        previous_focus = self._loan.previous_focus
        if previous_focus is None or (message.is_early and self._focused_by_user):
            return
        pending = self._pop_pending()
        key = message.input.key if isinstance(message.input, Key) else ""
        if pending is not None:
            answer, letter = pending
            if key == "enter":
                self._answer(answer)
                return
            if key == "escape":
                # Escape cancels the answer.
                return
            # The letter was the first one of a text.
            self._loan.give_back()
            previous_focus.post_message(letter)
        else:
            self._loan.give_back()
        previous_focus.post_message(message.input)

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _focus_moved(self) -> None:
        """Show anew which keys answer."""
        if self._requests:
            self.refresh_question()

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and self._part != "chips":
            event.stop()
            event.prevent_default()
            self.go_to("chips")

    def _answer_pending(self) -> None:
        # A timer that has just been stopped may still arrive.
        if self._pending is not None:
            answer, _ = self._pending
            self._answer(answer)

    def _answer(self, answer: str) -> None:
        self._pop_pending()
        # Of two fast keys, the first has already answered.
        if self._current:
            self.handle_answer(self._current, answer)

    def _pop_pending(self) -> tuple[str, Key] | None:
        if self._pending_timer is not None:
            self._pending_timer.stop()
        pending = self._pending
        self._pending = None
        self._pending_timer = None
        return pending
