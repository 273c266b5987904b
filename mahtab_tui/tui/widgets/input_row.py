"""The row for a line that code reads with `input()` or `getpass()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.events import Paste
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.widgets.focus_loan import FocusLoan
from mahtab_tui.tui.widgets.line_input import LineInput

LINGER = 0.25
"""Seconds for which the row stays after an answer, so that code which asks again at once, such as a
debugger, gets what was typed meanwhile."""

PROMPT = 60
"""Characters of a prompt that are shown, from its end."""

_AWAY = "empty the editor, or click here, to answer"


class _AnswerLine(LineInput):
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+d", "end_of_input", "End of input", show=False),
    ]

    class EndOfInput(Message):
        """The user pressed Ctrl+D on an empty line."""

    async def action_submit(self) -> None:
        """Submit the line; what is typed next answers the next question."""
        self.post_message(Input.Submitted(self, self.value))
        self.value = ""

    def action_end_of_input(self) -> None:
        if self.value:
            self.action_delete_right()
        else:
            self.post_message(self.EndOfInput())


class InputRow(Widget):
    """Shown while code waits for a line. Takes the focus as soon as the user types nowhere else,
    and gives it back."""

    @dataclass
    class Answered(Message):
        """The user has entered a line; None for the end of input."""

        request: str
        text: str | None

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[str, records.Input] = {}
        """Waiting requests by id; the first one is shown."""
        self._ahead: list[str] = []
        """Lines that were entered before code asked for them."""
        self._loan = FocusLoan(self)
        self._lingering: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="input-prompt", markup=False)
        yield _AnswerLine(id="input-line", compact=True, placeholder=_AWAY)

    def on_descendant_focus(self) -> None:
        self._line.placeholder = "Enter answers · Ctrl+D is the end of input"

    def on_descendant_blur(self) -> None:
        self._line.placeholder = _AWAY

    def on_mount(self) -> None:
        self.display = False
        self._watch = self.set_interval(0.1, self._take_focus_if_free, pause=True)

    def fold(self, arrived: Sequence[Record]) -> None:
        for record in arrived:
            if isinstance(record, records.Input):
                request = record.request
                if record.state == "waiting":
                    self._requests[request] = record
                    if len(self._requests) == 1:
                        self._open(record)
                elif request in self._requests:
                    shown = request == next(iter(self._requests))
                    del self._requests[request]
                    if shown:
                        self._next()
            elif (
                isinstance(record, records.Kernel)
                and record.state == "idle"
                and not self._requests
                and self.display
            ):
                # No code runs that could ask again.
                self._close()

    def focus(self, scroll_visible: bool = True) -> InputRow:
        """Focus the line, if code asks for one."""
        if self.display:
            self._loan.take(self._line)
        return self

    @property
    def _line(self) -> _AnswerLine:
        return self.query_one(_AnswerLine)

    def _open(self, record: records.Input) -> None:
        if self._lingering is not None:
            self._lingering.stop()
        prompt = plain(record.text).strip("\n").rpartition("\n")[2].strip() or "input"
        shortened = prompt if len(prompt) <= PROMPT else f"…{prompt[-PROMPT:]}"
        self.query_one("#input-prompt", Static).update(Content(shortened))
        self._line.password = record.password
        self.display = True
        self._watch.resume()
        self._take_focus_if_free()
        if self._ahead:
            self._answer(self._ahead.pop(0))

    def _take_focus_if_free(self) -> None:
        """Take the focus once; afterwards the user decides where it goes."""
        if self._loan.free:
            self._loan.take(self._line)
        if self._loan.taken:
            self._watch.pause()

    def _next(self) -> None:
        if self._requests:
            self._open(next(iter(self._requests.values())))
        else:
            self._close()

    def _close(self) -> None:
        """Give the focus back, together with text that no code asked for."""
        self._watch.pause()
        if self._lingering is not None:
            self._lingering.stop()
        line = self._line
        typed = "\n".join([*self._ahead, line.value])
        if typed and not line.password and self._loan.lender is not None:
            self._loan.lender.post_message(Paste(typed))
        line.value = ""
        self._ahead.clear()
        self._loan.give_back()
        self.display = False

    def _answer(self, text: str | None) -> None:
        if not self._requests:
            if text is not None:
                self._ahead.append(text)
            return
        request = next(iter(self._requests))
        del self._requests[request]
        self.post_message(self.Answered(request, text))
        if self._requests:
            self._next()
        else:
            self._lingering = self.set_timer(LINGER, self._close)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer(event.value)

    @on(_AnswerLine.EndOfInput)
    def _ended(self, message: _AnswerLine.EndOfInput) -> None:
        message.stop()
        self._answer(None)
