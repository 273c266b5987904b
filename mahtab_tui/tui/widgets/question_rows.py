"""Prompt rows for input lines, searches, changes and quitting; and the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Click, Paste
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus import records
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.records import Queue, QueueItem, Record, Review, SearchFanOut, SearchFinal
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.widgets.approval_row import RESERVED_LINES
from mahtab_tui.tui.widgets.prompt_row import PART_CLASS, Chip, FocusLoan, PromptRow

CLOSE_DELAY_S = 0.25
"""How long the row stays, so that code that asks again gets what was typed meanwhile."""
MAX_PROMPT_CHARS = 60
_UNFOCUSED_HINT = "empty the editor, or click here, to answer"
VISIBLE_ITEMS = 4
"""Rows of the queue."""
_CROSS = " ✕ "
_ACTION_KEY = "queue-action"
"""In the style of a part of an input's line: the action of a click on it."""
_REASON_HINT = "say why, or nothing · Enter undoes · Esc back"


def estimate(request: SearchFanOut) -> str:
    """``340 calls at once, about 1.2 M tokens, about $1.10``, or ``40 calls more after 50``."""
    if request.calls is None:
        calls = "many calls"
    else:
        calls = f"{request.calls:,} call{'' if request.calls == 1 else 's'}"
    if request.made:
        calls += f" more after {request.made:,}"
    else:
        calls += " at once"

    parts = [calls]
    tokens = request.tokens
    if tokens is not None:
        count = f"{tokens / 1e6:.1f} M" if tokens >= 100_000 else f"{tokens:,}"
        parts.append(f"about {count} tokens")
    if request.usd is None:
        parts.append("at an unknown price")
    else:
        parts.append(f"about ${request.usd:,.2f}")
    return ", ".join(parts)


class FanOutRow(PromptRow[SearchFanOut]):
    """Asks whether a search may make many calls."""

    @dataclass
    class Answered(Message):
        request: str
        run: bool

    record_type = SearchFanOut
    answer_chips = (
        Chip("run", "y", "bold $background on $good", " y run them ", " y run "),
        Chip("refuse", "n", "$background on $highlight", " n don't "),
    )

    def compose(self) -> ComposeResult:
        yield Static(id="fan-out-about", markup=False)
        yield self._chips

    def fold(self, records: Sequence[Record]) -> None:
        for record in records:
            super().fold([record])
            if isinstance(record, SearchFinal):
                # Drop the prompts of a call that has ended.
                for request_id, request in list(self._requests.items()):
                    if (request.tree, request.node) == (record.tree, record.node):
                        self.forget(request_id)

    def refresh_question(self) -> None:
        calls = estimate(self._requests[self._current])
        parts = [("A search wants to make ", "$foreground"), (calls, "bold $highlight")]
        hint = self._focus_hint()
        if hint:
            parts.append((f" · {hint}", "$muted"))
        self.query_one("#fan-out-about", Static).update(Content.assemble(*parts))

    def handle_answer(self, request: str, answer: str) -> None:
        self.post_message(self.Answered(request, answer == "run"))
        self.forget(request)


class _AnswerLine(LineInput):
    """The line in which an answer is typed."""

    BINDINGS = [Binding("ctrl+d", "end_of_input", "End of input", show=False)]  # noqa: RUF012

    class EndOfInput(Message):
        """The user pressed Ctrl+D on an empty line."""

    async def action_submit(self) -> None:
        """Empty the line, because what is typed next answers the next request."""
        self.post_message(Input.Submitted(self, self.value))
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
        request: str
        text: str | None

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[str, records.Input] = {}
        self._typed_ahead: list[str] = []
        self._answers: list[str] = []
        """Earlier answers, which Up recalls. Passwords are not among them."""
        self._steps_back = 0
        """Which answer the line shows, counted from the newest, which is 1; 0 for none."""
        self._loan = FocusLoan(self)
        self._close_timer: Timer | None = None

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
        self._watch = self.set_interval(0.1, self._take_focus_if_free, pause=True)

    def fold(self, new_records: Sequence[Record]) -> None:
        for record in new_records:
            if isinstance(record, records.KernelRecord):
                if record.state == "idle" and not self._requests and self.display:
                    # No running code could ask again.
                    self._close()
            elif isinstance(record, records.Input):
                old_request = self._current
                if record.state == "waiting":
                    self._requests[record.request] = record
                else:
                    self._requests.pop(record.request, None)
                if self._current is not old_request:
                    self._open_or_close()

    def focus(self, scroll_visible: bool = True) -> InputRow:
        if self.display:
            self._loan.borrow(self._line)
        return self

    @property
    def _current(self) -> records.Input | None:
        return next(iter(self._requests.values()), None)

    def _open_or_close(self) -> None:
        if self._current is None:
            self._close()
        else:
            self._open(self._current)

    @property
    def _line(self) -> _AnswerLine:
        return self.query_one(_AnswerLine)

    def _open(self, record: records.Input) -> None:
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
            self._answer(self._typed_ahead.pop(0))

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
        typed = "\n".join([*self._typed_ahead, line.value])
        if typed and not line.password and self._loan.previous_focus is not None:
            self._loan.previous_focus.post_message(Paste(typed))
        line.value = ""
        self._typed_ahead.clear()
        self._loan.give_back()
        self.display = False

    def _answer(self, text: str | None) -> None:
        request = self._current
        if request is None:
            if text is not None:
                self._typed_ahead.append(text)
            return
        del self._requests[request.request]
        self.post_message(self.Answered(request.request, text))
        if self._current is not None:
            self._open(self._current)
        else:
            self._close_timer = self.set_timer(CLOSE_DELAY_S, self._close)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value and not self._line.password:
            self._answers.append(event.value)
        self._steps_back = 0
        self._answer(event.value)

    @on(_AnswerLine.EndOfInput)
    def _ended(self, message: _AnswerLine.EndOfInput) -> None:
        message.stop()
        self._answer(None)


class LeaveRow(Static):
    """Shows what quitting would lose; never focused, so that keys go where they went before."""

    def __init__(self, lost: Sequence[str], can_continue: bool, key: str) -> None:
        """can_continue: a running cell can go on. key: the key that quits."""
        loss = f"You would lose {', '.join(lost)}"
        keys = f" · {key} again leaves · Esc stays"
        if can_continue:
            keys = f" · {key} again leaves it running · ^s stops it and leaves · Esc stays"
            sentences = ["A cell is running."]
            if lost:
                sentences.append(f"{loss}.")
            loss = " ".join(sentences)
        super().__init__(Content.assemble(("Leave? ", "bold $highlight"), loss, (keys, "$muted")))


class QueueRow(Widget, can_focus=True):
    """Lists the inputs that wait for the running one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move(-1)", "Up"),
        ("down", "move(1)", "Down"),
        ("delete,backspace", "cancel", "Take back"),
        ("enter", "choose_when", "Now or after"),
    ]

    items: reactive[Sequence[QueueItem]] = reactive((), layout=True)
    chosen: reactive[int] = reactive(0)

    @dataclass
    class Cancelled(Message):
        item_id: int

    @dataclass
    class WhenChosen(Message):
        """The user has chosen when a queued question is asked."""

        item_id: int
        joins: bool
        """Whether it joins the running question at the next step, rather than wait for its end."""

    def fold(self, records: Sequence[Record]) -> None:
        if queues := [record for record in records if isinstance(record, Queue)]:
            self.items = queues[-1].items

    def watch_items(self, items: Sequence[QueueItem]) -> None:
        if not items and self.display and self.is_attached:
            FocusLoan(self).give_back()
        self.display = bool(items)
        self.chosen = min(self.chosen, max(0, len(items) - 1))

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.items), VISIBLE_ITEMS) + len(self._note())

    def render(self) -> Content:
        lines = self._note()
        first = self._first_visible()
        for index in range(first, min(first + VISIBLE_ITEMS, len(self.items))):
            lines.append(self._line(index, is_first=index == first))
        return Content("\n").join(lines)

    def _line(self, index: int, *, is_first: bool) -> Content:
        """Draw an input; a click on one of its two ends acts on it."""
        label = self._label()
        is_question = self.items[index].mode == "ask"
        is_chosen = self.has_focus and index == self.chosen
        when = Content.styled(self._when(index), "$muted")
        cross = Content.styled(_CROSS, "$bad" if is_chosen else "$muted")
        return Content.assemble(
            (label if is_first else " " * len(label), "$muted"),
            ("◈ ", "$model") if is_question else ("❯ ", "$person"),
            (self._text(index), "reverse" if is_chosen else "$foreground"),
            when.stylize(Style.from_meta({_ACTION_KEY: "choose_when"})),
            cross.stylize(Style.from_meta({_ACTION_KEY: "cancel"})),
        )

    async def on_click(self, event: Click) -> None:
        position = event.get_content_offset(self)
        if position is None:
            return
        line = position.y - len(self._note())
        index = self._first_visible() + line
        if line < 0 or index >= len(self.items):
            return

        self.chosen = index
        action = event.style.meta.get(_ACTION_KEY)
        if action is not None:
            await self.run_action(action)

    def action_move(self, step: int) -> None:
        self.chosen = max(0, min(len(self.items) - 1, self.chosen + step))

    def action_cancel(self) -> None:
        if self.items:
            self.post_message(self.Cancelled(self.items[self.chosen].id))

    def action_choose_when(self) -> None:
        if self.items and self.items[self.chosen].mode == "ask":
            item = self.items[self.chosen]
            self.post_message(self.WhenChosen(item.id, joins=not item.joins))

    def _note(self) -> list[Content]:
        """Return the line above the inputs that says how many wait for the user; no line if none do."""
        held_count = sum(item.held for item in self.items)
        if not held_count:
            return []
        subject = f"{held_count:,} queued cells were"
        pronoun = "them"
        if held_count == 1:
            subject = "1 queued cell was"
            pronoun = "it"
        hint = f" · Enter in the empty editor runs {pronoun}"
        return [Content.assemble((f"{subject} not run", "$highlight"), (hint, "$muted"))]

    def _label(self) -> str:
        return f"queued {len(self.items):,}  "

    def _when(self, index: int) -> str:
        """Return when a question will be asked; empty for code."""
        if self.items[index].mode != "ask":
            return ""
        if self.items[index].joins:
            return " · at the next step"
        return " · after this answer"

    def _first_visible(self) -> int:
        return max(0, min(self.chosen - VISIBLE_ITEMS + 1, len(self.items) - VISIBLE_ITEMS))

    def _text(self, index: int) -> str:
        """Return an input's first line, shortened to the width of the row."""
        author = plain(self.items[index].party)
        code = visible(self.items[index].code).expandtabs(4).strip("\n")
        first_line, _, other_lines = code.partition("\n")
        text = f"{author}: {first_line}" if author else first_line
        around_width = len(self._label()) + 2 + len(self._when(index)) + len(_CROSS) + len(" …")
        available_width = max(10, self.size.width - around_width)
        shortened = Content(text).truncate(available_width, ellipsis=True).plain
        return f"{shortened} …" if other_lines else shortened


Action = Literal["keep", "undo", "all", "stop"]


class _Changes(VerticalScroll, can_focus=False):
    """Scrolls if the changes would hide the answers."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        max_height = max(1, min(viewport.height // 3, viewport.height - RESERVED_LINES))
        return min(super().get_content_height(container, viewport, width), max_height)


class ReviewRow(PromptRow[Review]):
    """Asks whether to keep what cells of a model changed."""

    @dataclass
    class Decided(Message):
        request: str
        action: Action
        reason: str = ""

    record_type = Review
    answer_chips = (
        Chip("keep", "y", "bold $background on $good", " y keep "),
        Chip("undo", "n", "$background on $highlight", " n undo, say why ", " n undo "),
        Chip("all", "a", "$foreground on $panel", " a keep all from now on ", " a all "),
        Chip("stop", "escape", "$foreground on $panel", " esc stop, keep ", " esc stop "),
    )

    def compose(self) -> ComposeResult:
        yield Static(id="review-about", markup=False)
        with _Changes(id="review-scroll"):
            yield Static(id="review-changes", markup=False)
        yield self._chips
        yield LineInput(
            id="review-reason", classes=PART_CLASS, compact=True, placeholder="why undo it?"
        )

    @property
    def scrolled(self) -> Widget | None:
        scroll = self.query_one("#review-scroll")
        if self._part == "chips" and scroll.max_scroll_y > 0:
            return scroll
        return None

    def show(self, record: Review) -> None:
        self.query_one("#review-reason", LineInput).value = ""
        self.query_one("#review-changes", Static).update(
            Content("\n").join(change_lines(record.changes, record.not_restored))
        )
        self.query_one("#review-scroll").scroll_home(animate=False)
        self.show_part("chips")

    def refresh_question(self) -> None:
        question = _question(self._requests[self._current])
        hint = "" if self._part == "chips" else _REASON_HINT
        self._show((question, "$foreground"), (hint, "$muted"))

    def handle_answer(self, request: str, answer: str) -> None:
        match answer:
            case "undo":
                self.go_to("review-reason")
            case "keep" | "all" | "stop" as action:
                self._decide(action)

    def _decide(self, action: Action, reason: str = "") -> None:
        if request := self._current:
            self.post_message(self.Decided(request, action, reason))
            self.forget(request)

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        if self._part != "chips":
            self._decide("undo", reason=event.value.strip())


def _question(record: Review) -> str:
    cell = f"cell {record.cells[0]} of {one_line(record.party or 'the model')}"
    later_count = len(record.cells) - 1
    if later_count == 1:
        cell += " and the cell after it"
    elif later_count > 1:
        cell += f" and {later_count:,} cells after it"
    return f"Keep or undo what {cell} changed?"
