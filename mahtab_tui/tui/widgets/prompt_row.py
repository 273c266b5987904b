"""Base class of rows that ask the user something, and borrow the focus while they do not type."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.errors import NoWidget
from textual.events import Click, Event, Key, Paste
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static, TextArea

from mahtab_tui.bus.records import Approval, Record, Review, SearchFanOut


class FocusLoan:
    """Which widget had the focus before a row took it."""

    def __init__(self, row: Widget) -> None:
        self._row = row
        self._saved_focus: Widget | None = None

    @property
    def is_available(self) -> bool:
        """Whether the user is not typing, and no dialog covers the row."""
        screen = self._row.screen
        focused = screen.focused
        return screen.is_active and (
            focused is None or (isinstance(focused, TextArea) and not focused.text)
        )

    @property
    def has_focus(self) -> bool:
        return self._contains(self._row.screen.focused)

    @property
    def previous_focus(self) -> Widget | None:
        """The widget that had the focus; if none had, the text on the screen."""
        if self._saved_focus is not None:
            return self._saved_focus
        texts = (each for each in self._row.screen.focus_chain if isinstance(each, TextArea))
        return next((each for each in texts if not self._contains(each)), None)

    def borrow(self, target: Widget) -> None:
        if not self.has_focus:
            self._saved_focus = self._row.screen.focused
        self._row.screen.set_focus(target)

    def give_back(self) -> None:
        if self.has_focus:
            self._row.screen.set_focus(self.previous_focus)

    def _contains(self, widget: Widget | None) -> bool:
        return widget is not None and self._row in widget.ancestors_with_self


IGNORE_KEYS_S = 0.3
"""Seconds for which keys and clicks count for what was there before."""


class Chip(NamedTuple):
    answer: str
    key: str
    style: str
    text: str
    short: str = ""
    """Shown if there is little room."""


_GAP = 2


class Chips(Widget, can_focus=True):
    def __init__(self, row: PromptRow[Any], clock: Callable[[], float]) -> None:
        super().__init__()
        self._row = row
        self._chips = row.answer_chips
        self._clock = clock
        self._clicks_from = 0.0
        self._keys_from = 0.0
        self._since = 0.0

    def offer(self, chips: Sequence[Chip]) -> None:
        self._chips = chips
        self.refresh()

    def appear(self) -> None:
        """Ignore keys and clicks for a moment."""
        self._since = time.monotonic()
        self._clicks_from = self._keys_from = self._clock() + IGNORE_KEYS_S

    def _is_early(self, event: Event, since: float) -> bool:
        """On a busy machine, an event may arrive long after its key was pressed."""
        return event.time < self._since or self._clock() < since

    def on_focus(self) -> None:
        self._keys_from = self._clock() + IGNORE_KEYS_S
        self._row.focus_moved()

    def on_blur(self) -> None:
        self._row.focus_moved()

    def render(self) -> Content:
        texts, gap = self._texts()
        return Content(" " * gap).join(Content.styled(text, chip.style) for chip, text in texts)

    def on_key(self, event: Key) -> None:
        early = self._is_early(event, self._keys_from)
        if early:  # a key that is held down is ignored until it is released
            self._keys_from = self._clock() + IGNORE_KEYS_S
        answer = next((chip.answer for chip in self._chips if chip.key == event.key), None)
        if answer is None and not event.is_printable and not early:
            return
        event.stop()
        event.prevent_default()
        key = Key(event.key, event.character)
        if answer is None or early or not self._row_is_visible():
            self._row.pass_on_input(key, early=early)
        else:
            self._choose(answer, key if event.is_printable else None)

    def _row_is_visible(self) -> bool:
        try:
            return self.screen.get_widget_at(*self.region.offset)[0] is self
        except NoWidget:
            return False

    def on_paste(self, event: Paste) -> None:
        event.stop()
        early = self._is_early(event, self._keys_from)
        self._row.pass_on_input(Paste(event.text), early=early)

    def on_click(self, event: Click) -> None:
        column = event.x
        texts, gap = self._texts()
        for chip, text in texts:
            if 0 <= column < len(text) and not self._is_early(event, self._clicks_from):
                self._choose(chip.answer)
            column -= len(text) + gap

    def _choose(self, answer: str, letter: Key | None = None) -> None:
        """Ignore further keys until the next question: none may answer it unseen."""
        self.appear()
        self._row.choose(answer, letter)

    def _texts(self) -> tuple[list[tuple[Chip, str]], int]:
        shorts = [chip.short or chip.text for chip in self._chips]
        for texts, gap in (
            ([chip.text for chip in self._chips], _GAP),
            (shorts, _GAP),
            ([short.strip() for short in shorts], 1),
        ):
            if sum(map(len, texts)) + gap * (len(texts) - 1) <= self.size.width:
                break
        return list(zip(self._chips, texts, strict=True)), gap


PART = "prompt-part"
TYPING_GAP_S = 0.25
"""Seconds without another key after which a letter answers, if the row took the focus itself."""

R = TypeVar("R", Approval, Review, SearchFanOut)


class PromptRow(Widget, Generic[R]):
    """Asks one question at a time. It takes the focus only if the editor is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(how.replace("_", ""), f"scroll_content('{how}')", show=False)
        for how in ("up", "down", "page_up", "page_down", "home", "end")
    ]

    record_type: type[R]
    answer_chips: Sequence[Chip]

    def __init__(
        self, editor_is_empty: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._chips = Chips(self, clock)
        self._editor_is_empty = editor_is_empty
        self._loan = FocusLoan(self)
        self._part = "chips"
        """The chips, or the id of a widget for details."""
        self._focused_by_user = False
        self._pending: tuple[str, Key] | None = None
        """An answer and its letter, which counts unless a key follows at once."""
        self._pending_timer: Timer | None = None
        self._requests: dict[str, R] = {}

    def on_mount(self) -> None:
        self.display = False

    def show(self, record: R) -> None:
        """Prepare the row for a question."""

    def refresh_question(self) -> None:
        raise NotImplementedError

    def handle_answer(self, request: str, answer: str) -> None:
        raise NotImplementedError

    @property
    def target(self) -> Widget:
        return self._chips if self._part == "chips" else self.query_one(f"#{self._part}")

    @property
    def scrolled(self) -> Widget | None:
        """The widget that the arrow keys scroll; if None, the transcript."""
        return None

    def show_part(self, part: str) -> None:
        self._part = part
        self._chips.display = part == "chips"
        for widget in self.query(f".{PART}"):
            widget.display = widget.id == part
        self.refresh_question()

    def go_to(self, part: str) -> None:
        self._focused_by_user = True
        self.show_part(part)
        self._loan.borrow(self.target)

    def fold(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, self.record_type):
                if record.state != "waiting":
                    self.forget(record.request)
                elif record.request not in self._requests:
                    self._requests[record.request] = record
                    if len(self._requests) == 1:
                        self._open(record)
                    else:
                        self.refresh_question()

    def forget(self, request: str) -> None:
        is_shown = request == self._shown
        self._requests.pop(request, None)
        if is_shown:
            self._release()
            self._loan.give_back()
            self.display = False
            if self._requests:
                self._open(self._requests[self._shown])

    def focus(self, scroll_visible: bool = True) -> PromptRow[R]:
        if self.display:
            self._focused_by_user = True
            self._loan.borrow(self.target)
        return self

    @property
    def _shown(self) -> str:
        return next(iter(self._requests), "")

    def _open(self, record: R) -> None:
        self._chips.appear()
        self.display = True
        self.show(record)
        if self._editor_is_empty() and self._loan.is_available:
            self._focused_by_user = False
            self._loan.borrow(self.target)
        self.refresh_question()

    def _show(self, *parts: tuple[str, str]) -> None:
        """Show the parts that have text. parts: text and style."""
        shown = [part for part in (*parts, (self._focus_hint(), "$moon")) if part[0]]
        self.query(Static).first().update(
            Content.styled(" · ", "$muted").join(Content.styled(*part) for part in shown)
        )

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

    def action_scroll_content(self, how: str) -> None:
        if (scrolled := self.scrolled) is not None:
            getattr(scrolled, f"scroll_{how}")(animate=False)

    def choose(self, answer: str, letter: Key | None) -> None:
        """letter: None for a click or another key."""
        if letter and not self._focused_by_user and self._loan.previous_focus is not None:
            self._pending = answer, letter
            self._pending_timer = self.set_timer(TYPING_GAP_S, self._answer_pending)
        else:
            self._answer(answer)

    def pass_on_input(self, event: Key | Paste, *, early: bool) -> None:
        """Send typed text to the editor, with the focus; early keys only if the row took it
        itself."""
        previous_focus = self._loan.previous_focus
        if previous_focus is None or (early and self._focused_by_user):
            return
        pending, key = self._release(), event.key if isinstance(event, Key) else ""
        if pending is not None and key == "enter":
            self._answer(pending[0])
        elif pending is None or key != "escape":  # Escape cancels the answer
            self._loan.give_back()
            if pending is not None:
                previous_focus.post_message(pending[1])
            previous_focus.post_message(event)

    def focus_moved(self) -> None:
        if self._requests:
            self.refresh_question()

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and self._part != "chips":
            event.stop()
            event.prevent_default()
            self.go_to("chips")

    def _answer_pending(self) -> None:
        if self._pending is not None:  # a timer that has just been stopped may still arrive
            self._answer(self._pending[0])

    def _answer(self, answer: str) -> None:
        self._release()
        if request := self._shown:  # otherwise the first of two fast keys has already answered
            self.handle_answer(request, answer)

    def _release(self) -> tuple[str, Key] | None:
        if self._pending_timer is not None:
            self._pending_timer.stop()
        pending, self._pending, self._pending_timer = self._pending, None, None
        return pending
