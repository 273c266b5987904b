"""The row in which the user answers an `input()` of a cell.

Code may ask many times in a row, faster than the user types. So the row stays open for a moment after each
answer, and lines that are typed before they are asked for answer the next requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Paste
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.widgets.focus_loan import FocusLoan

CLOSE_DELAY_S = 0.25
"""How long the row stays, so that code that asks again gets what was typed meanwhile."""
MAX_PROMPT_CHARS = 60
"""Of a longer prompt, only the end is shown."""
FOCUS_CHECK_INTERVAL_S = 0.1
"""How often the row looks whether the user has stopped typing elsewhere."""
_UNFOCUSED_HINT = "empty the editor, or click here, to answer"


class _EnteredLine(NamedTuple):
    """A line that the user has typed and ended with Enter."""

    text: str
    is_password: bool
    """Whether it was typed hidden."""


class _AnswerLine(LineInput):
    """The line in which an answer is typed."""

    BINDINGS = [Binding("ctrl+d", "end_of_input", "End of input", show=False)]  # noqa: RUF012

    @dataclass
    class Entered(Message):
        """The user pressed Enter."""

        line: _EnteredLine

    class EndOfInput(Message):
        """The user pressed Ctrl+D on an empty line."""

    async def action_submit(self) -> None:
        """Empty the line, because what is typed next answers the next request."""
        self.post_message(self.Entered(_EnteredLine(self.value, self.password)))
        self.value = ""

    def action_end_of_input(self) -> None:
        if self.value:
            self.action_delete_right()
        else:
            self.post_message(self.EndOfInput())


class InputRow(Widget):
    """Shown while code waits for a line. It takes the focus once the user types nowhere else."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "recall(1)", "Earlier answer", show=False),
        Binding("down", "recall(-1)", "Later answer", show=False),
    ]

    @dataclass
    class Answered(Message):
        """The user has answered."""

        request: str
        """The id of the request."""
        text: str | None
        """The line; None for the end of the input."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[str, records.Input] = {}
        """The requests that wait, by their ids, the current one first."""
        self._typed_ahead: list[_EnteredLine] = []
        """Lines that were entered before code asked for them."""
        self._answers: list[str] = []
        """Earlier answers, which Up recalls. Passwords are not among them."""
        self._steps_back = 0
        """Which answer the line shows, counted from the newest, which is 1; 0 for none."""
        self._loan = FocusLoan(self)
        self._close_timer: Timer | None = None
        """Closes the row after the last answer; None before the first one."""

    def compose(self) -> ComposeResult:
        yield Static(id="input-prompt", markup=False)
        yield _AnswerLine(id="input-line", compact=True, placeholder=_UNFOCUSED_HINT)

    def on_descendant_focus(self) -> None:
        self._line.placeholder = "Enter answers · Ctrl+D is the end of input"

    def on_descendant_blur(self) -> None:
        self._line.placeholder = _UNFOCUSED_HINT

    def action_recall(self, step: int) -> None:
        """Put an earlier answer (1) or a later one (-1) into the line; after the last one, nothing."""
        steps_back = self._steps_back + step
        line = self._line
        if line.password or not 0 <= steps_back <= len(self._answers):
            return
        self._steps_back = steps_back
        line.value = self._answers[-steps_back] if steps_back else ""
        line.cursor_position = len(line.value)

    def on_mount(self) -> None:
        self.display = False
        self._watch = self.set_interval(
            FOCUS_CHECK_INTERVAL_S, self._take_focus_if_free, pause=True
        )

    def fold(self, new_records: Sequence[Record]) -> None:
        """Ask for the lines that new records want."""
        for record in new_records:
            match record:
                case records.KernelRecord(state="idle") if not self._requests and self.display:
                    # No running code could ask again.
                    self._close()
                case records.Input():
                    self._follow_request(record)

    def _follow_request(self, record: records.Input) -> None:
        """Take a request that waits, or that waits no longer."""
        old_request = self._current
        if record.state == "waiting":
            self._requests[record.request] = record
        else:
            self._requests.pop(record.request, None)
        if self._current is old_request:
            return
        if old_request is not None and old_request.password:
            # The next request may show what is typed.
            self._line.value = ""
        if self._current is None:
            self._close()
        else:
            self._open(self._current)

    def focus(self, scroll_visible: bool = True) -> InputRow:
        if self.display:
            self._loan.borrow(self._line)
        return self

    @property
    def _current(self) -> records.Input | None:
        """The request that the line answers; None if there is none."""
        return next(iter(self._requests.values()), None)

    @property
    def _line(self) -> _AnswerLine:
        return self.query_one(_AnswerLine)

    def _open(self, record: records.Input) -> None:
        """Ask for a line, or answer with one that was typed before it was asked for."""
        if self._close_timer is not None:
            self._close_timer.stop()
        # Only the last line is the prompt; the lines before it are in the output.
        _, _, last_line = plain(record.text).strip("\n").rpartition("\n")
        prompt = last_line.strip() or "input"
        shortened = prompt if len(prompt) <= MAX_PROMPT_CHARS else f"…{prompt[-MAX_PROMPT_CHARS:]}"
        self.query_one("#input-prompt", Static).update(Content(shortened))
        self._line.password = record.password
        self.display = True
        self._watch.resume()
        self._take_focus_if_free()
        if self._typed_ahead:
            self._answer_line(self._typed_ahead.pop(0))

    def _take_focus_if_free(self) -> None:
        """Take the focus once; then the user decides."""
        if self._loan.is_available:
            self._loan.borrow(self._line)
        if self._loan.has_focus:
            self._watch.pause()

    def _close(self) -> None:
        """Give back the focus, and typed text that no code asked for."""
        self._watch.pause()
        if self._close_timer is not None:
            self._close_timer.stop()
        line = self._line
        visible_lines = [entered.text for entered in self._typed_ahead if not entered.is_password]
        typed = "\n".join([*visible_lines, line.value])
        # Enter alone is not text.
        is_text = bool(typed.strip("\n"))
        if is_text and not line.password and self._loan.previous_focus is not None:
            self._loan.previous_focus.post_message(Paste(typed))
        line.value = ""
        self._typed_ahead.clear()
        self._loan.give_back()
        self.display = False

    def _answer_line(self, entered: _EnteredLine) -> None:
        """Answer with a line, or keep it for the next request."""
        request = self._current
        if request is None:
            self._typed_ahead.append(entered)
            return
        if entered.text and not entered.is_password and not request.password:
            self._answers.append(entered.text)
        self._answer(request, entered.text)

    def _answer(self, request: records.Input, text: str | None) -> None:
        """Answer a request, and go on with the next one; None is the end of the input."""
        del self._requests[request.request]
        self.post_message(self.Answered(request.request, text))
        if self._current is not None:
            self._open(self._current)
        else:
            self._close_timer = self.set_timer(CLOSE_DELAY_S, self._close)

    @on(_AnswerLine.Entered)
    def _entered(self, message: _AnswerLine.Entered) -> None:
        message.stop()
        self._steps_back = 0
        self._answer_line(message.line)

    @on(_AnswerLine.EndOfInput)
    def _ended(self, message: _AnswerLine.EndOfInput) -> None:
        message.stop()
        if self._current is not None:
            self._answer(self._current, None)
