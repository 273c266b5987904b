"""The prompt row for waiting code: run, edit, skip, run all, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus.hidden_characters import symbols
from mahtab_tui.bus.records import Approval
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.search_tools import MAX_CODE_CHARS, find_search_tools
from mahtab_tui.bus.typed_text import clean, is_complete
from mahtab_tui.settings.approval_rules import READ_ONLY
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.row import Row, RowsView
from mahtab_tui.tui.theme import AGENT_COLOURS, Palette
from mahtab_tui.tui.widgets.prompt_row import IGNORE_KEYS_S, PART_CLASS, Chip, PromptRow

RESERVED_LINES = 9
"""Rows besides the code: header, question, answers, input and keys."""
MAX_EDITED_LINES = 2_000
_TITLE_CHARS = 40
MAX_LABEL_CHARS = 30
"""Characters of an agent's own words for an answer, which stand behind ours."""
_CHIPS = (
    Chip("run", "y", "bold $background on $good", " y run "),
    Chip("edit", "e", "$background on $person", " e edit "),
    Chip("skip", "n", "$background on $highlight", " n skip "),
    Chip("all", "a", "$foreground on $panel", " a run all from now on ", " a all "),
    Chip("rules", "r", "$foreground on $panel", " r rule "),
    Chip("stop", "escape", "$foreground on $panel", " esc stop ", " esc "),
)
_CODE_ONLY = ("edit", "all", "rules")
_RULE_HINTS = {
    True: "runs code in a locked copy of the kernel that can read but not change anything; code that needs more asks",
    False: "runs exactly this call with these arguments without asking, whatever it does",
}
"""Hints by whether the rule allows read-only code."""
_HINTS = {
    "reason": "say why, or nothing · Enter skips · Esc back",
    "rules": "Enter writes to ~/.mahtab/config.toml, and runs the code · Esc back",
    "edited": "Enter at the end runs what you wrote, F5 from anywhere · Ctrl+J new line · Esc back",
}


class WaitingCodeRows(list[Row]):
    """The rows of highlighted code."""

    code = ""
    lines: Sequence[int] = ()
    """The number of each row's line, from 1; rows of a wrapped line have the same."""

    def lay_out(self, width: int, palette: Palette) -> None:
        from mahtab_tui.tui.rows.code import PYTHON, code_rows

        self[:] = code_rows(PYTHON, self.code, max(1, width), palette, palette.model)
        self.lines = list(accumulate(int(not row.soft) for row in self))


class WaitingCode(RowsView):
    """Shows the code, and notes whether its end was visible."""

    ALLOW_SELECT: ClassVar[bool] = True

    margin = 0

    class Scrolled(Message):
        """The user scrolled to other lines."""

    def __init__(self) -> None:
        self._code = WaitingCodeRows()
        super().__init__(self._code, id="waiting")
        self.end_seen = False
        self._line_count = 0
        self._is_cut = False

    def show(self, code: str) -> None:
        self._line_count = code.count("\n") + 1
        self._code.code = code[:MAX_CODE_CHARS]
        self._is_cut = len(code) > MAX_CODE_CHARS
        self.end_seen = False
        self.scroll_to(y=0, animate=False, immediate=True)
        self.reload()
        self.refresh(layout=True)

    def refresh_view(self) -> None:
        super().refresh_view()
        self._update_end_seen()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """At most half of the screen, so that the answers stay visible."""
        max_height = max(1, min(viewport.height // 2, viewport.height - RESERVED_LINES))
        # Only the beginning is counted: more cannot be visible.
        max_chars = max_height * max(1, width)
        lines = self._code.code[:max_chars].split("\n", max_height)
        height = sum(1 + len(line) // max(1, width) for line in lines)
        return max(1, min(height, max_height))

    @property
    def visible_lines(self) -> str:
        """Such as ``lines 1–14 of 60``."""
        lines = self._code.lines
        first_row = self.scroll_offset.y
        end_row = min(first_row + self.size.height, len(lines))
        if first_row >= end_row:
            return ""
        visible = f"lines {lines[first_row]:,}–{lines[end_row - 1]:,} of {self._line_count:,}"
        if self._is_cut:
            visible += f", too long: only the first {MAX_CODE_CHARS:,} characters are shown"
        return visible

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._update_end_seen()

    def _update_end_seen(self) -> None:
        if self.display and self._code.lines and self.size:
            at_end = self.scroll_offset.y + self.size.height >= len(self._code)
            self.end_seen = self.end_seen or (at_end and not self._is_cut)
            self.post_message(self.Scrolled())


Action = Literal["run", "skip", "all", "stop"]


class EditedCode(CodeArea):
    """The editor of waiting code."""

    def may_run(self) -> bool:
        """Let Enter at the end run a block, which was complete before."""
        return super().may_run() or (
            self.cursor_location == self.document.end and is_complete(self.text + "\n")
        )


class RulesToWrite(Static, can_focus=True):
    """Shows rules; Enter confirms that they are written."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "write", show=False)]

    rules: tuple[str, ...] = ()

    @dataclass
    class Confirmed(Message):
        rules: tuple[str, ...]

    def action_write(self) -> None:
        if self.rules:
            self.post_message(self.Confirmed(self.rules))


class ApprovalRow(PromptRow[Approval]):
    """Asks whether code may run.

    Its parts are the chips, a reason to skip the code, an editor, and the rules that would let it
    run.
    """

    record_type = Approval
    answer_chips = _CHIPS

    @dataclass
    class Decided(Message):
        request: str
        action: Action
        code: str | None = None
        reason: str = ""
        rules: tuple[str, ...] = ()

    @dataclass
    class RulesWanted(Message):
        """The user wants rules that would let code like this run; `show_rules` shows them."""

        row: ApprovalRow
        request: str
        code: str

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            clock: In seconds.
        """
        super().__init__(clock)
        self._clock = clock
        self._accept_enter_from = 0.0
        """The time, on the clock, from which Enter counts in the part that was opened."""
        self._refusal = ""
        """Why the code cannot be edited, or no rule can be written for it."""
        self._is_code_loaded = False
        """Whether the editor has the code."""
        self._hidden_characters: list[str] = []
        self._code = WaitingCode()
        self._has_code = False
        self._tools = ""
        """The names of functions that a search in the code may call."""
        self._unconfirmed: Action | None = None
        """An answer given before the end was visible; it counts when repeated."""

    def compose(self) -> ComposeResult:
        yield Static(id="about", markup=False)
        yield self._code
        yield self._chips
        yield LineInput(id="reason", classes=PART_CLASS, compact=True, placeholder="why not?")
        yield EditedCode(id="edited").add_class(PART_CLASS)

    def show(self, record: Approval) -> None:
        self.query_one("#reason", LineInput).value = ""
        for role in AGENT_COLOURS:
            self.set_class(role == _role(record), role)
        is_code = record.is_code is not False
        chips = [chip for chip in _CHIPS if is_code or chip.answer not in _CODE_ONLY]
        labels = dict(zip(("run", "skip"), map(one_line, record.answers or ()), strict=False))
        for index, chip in enumerate(chips):
            words = labels.get(chip.answer, "").split()
            if label := " ".join(words)[:MAX_LABEL_CHARS].rstrip():
                text = f"{chip.text.rstrip()}: {label} "
                chips[index] = chip._replace(text=text, short=chip.text)
        self._chips.offer(chips)
        self._has_code = False
        self._unconfirmed = None
        self._is_code_loaded = False
        self._refusal = ""
        self._hidden_characters = sorted(symbols(record.text))[:3]
        self._tools = find_search_tools(record.text)
        self._code.show(record.text.strip("\n"))
        self.show_part("chips")

    @property
    def code_to_show(self) -> str:
        """The code that waits, unless the row shows it already or an answer is being typed."""
        if self._has_code or not (self.display and self._current and self._part == "chips"):
            return ""
        return self._requests[self._current].text

    def show_code(self) -> None:
        """Show the code, because nothing above does, until it is answered: nothing jumps."""
        self._has_code = True
        self._code.display = True

    @on(WaitingCode.Scrolled)
    def _scrolled(self) -> None:
        if self._requests:
            self.refresh_question()

    @property
    def scrolled(self) -> Widget | None:
        if self._code.display and self._part == "chips":
            return self._code
        return None

    def action_scroll_content(self, direction: str) -> None:
        self._unconfirmed = None
        super().action_scroll_content(direction)

    def show_part(self, part: str) -> None:
        self._code.display = self._has_code and part != "edited"
        super().show_part(part)

    def refresh_question(self) -> None:
        """Say who wants to run what, how much of it is visible, and what the keys do."""
        record = self._requests[self._current]
        role = _role(record)
        author = clean(record.party or "") if role else ""

        # One of several blocks of an answer, or else of several requests.
        count = len(self._requests)
        position = f"1/{count}" if count > 1 else ""
        if record.block is not None and (record.blocks or 0) > 1:
            position = f"{record.block + 1}/{record.blocks}"
        title = ""
        if position:
            title = f"{position}  {one_line(record.text.strip())[:_TITLE_CHARS]}"

        end_seen = self._code.end_seen
        visible_lines = self._code.visible_lines if self._code.display else ""
        scroll_hint = "" if end_seen else "PgDn shows more"
        scroll_style = "$muted"
        if self._unconfirmed is not None:
            scroll_hint = "press it again to answer without reading the rest"
            scroll_style = "$bad"

        reason = clean(record.why or "") if self._part == "chips" else ""
        tools = clean(self._tools)
        hidden = " ".join(self._hidden_characters)
        self._show(
            (author, f"${role}"),
            (title, "$highlight"),
            (visible_lines, "$muted" if end_seen else "$highlight"),
            (visible_lines and scroll_hint, scroll_style),
            (_HINTS.get(self._part, ""), "$muted"),
            (self._refusal, "$highlight"),
            (reason and f"asks before it runs: {reason}", "$muted"),
            (tools and f"the search may call {tools} without asking again", "$highlight"),
            (hidden and f"contains hidden characters: {hidden}", "$bad"),
        )

    def run_edited(self) -> bool:
        """Return False if no code is being edited."""
        edited = self.query_one(EditedCode)
        if edited.has_focus:
            edited.action_submit()
        return edited.has_focus

    def handle_answer(self, request: str, answer: str) -> None:
        match answer:
            case "skip":
                self.go_to("reason")
            case "edit":
                self._edit(self._requests[request].text)
            case "rules":
                code = self._requests[request].text
                if len(code) <= MAX_CODE_CHARS:
                    self.post_message(self.RulesWanted(self, request, code))
                else:
                    self.show_rules(request, ())
            case "run" | "all" | "stop" as action:
                self._decide(action)

    def _edit(self, code: str) -> None:
        """Load the code once, unless that would take seconds."""
        if len(code) > MAX_CODE_CHARS or code.count("\n") > MAX_EDITED_LINES:
            self._refusal = f"too long to be edited here: at most {MAX_EDITED_LINES:,} lines"
            self.refresh_question()
            return
        if not self._is_code_loaded:
            self._is_code_loaded = True
            edited = self.query_one("#edited", CodeArea)
            edited.load_text(clean(code))
            edited.move_cursor(edited.document.end)
        self.go_to("edited")

    def _decide(
        self, action: Action, code: str | None = None, reason: str = "", rules: tuple[str, ...] = ()
    ) -> None:
        """Ignored if nothing waits any more."""
        runs_shown_code = self._code.display and code is None and action in ("run", "all")
        if runs_shown_code and not self._code.end_seen and self._unconfirmed != action:
            self._unconfirmed = action
            # Otherwise the same key, pressed again too early, would go to the editor.
            self._focused_by_user = True
            self.refresh_question()
            return
        if request := self._current:
            self.post_message(self.Decided(request, action, code, reason, rules))
            self.forget(request)

    def go_to(self, part: str) -> None:
        self._accept_enter_from = self._clock() + IGNORE_KEYS_S
        super().go_to(part)

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        self._decide("skip", reason=event.value.strip())

    def show_rules(self, request: str, rules: tuple[str, ...]) -> None:
        """Show rules that would let code run, for the user to confirm.

        Args:
            request: The question for which they were made; ignored if it is answered.
            rules: Empty if no rule can be made.
        """
        if request != self._current:
            return
        if rules:
            self._refusal = ""
        else:
            self._refusal = "no rule can let this code run without asking"
        if rules and not self.query("#rules"):
            self.mount(RulesToWrite(id="rules", classes=PART_CLASS, markup=False))
        for part in self.query(RulesToWrite):
            part.rules = rules
            lines = []
            for rule in rules:
                hint = _RULE_HINTS[rule.endswith(READ_ONLY)]
                lines.append(f"  {rule}\n  {hint}")
            part.update("\n".join(lines))
        self.go_to("rules" if rules else "chips")

    @on(RulesToWrite.Confirmed)
    def _rules_confirmed(self, event: RulesToWrite.Confirmed) -> None:
        event.stop()
        if self._part == "rules" and self._clock() >= self._accept_enter_from:
            self._decide("run", rules=event.rules)

    @on(CodeArea.Submitted)
    def _edited(self, event: CodeArea.Submitted) -> None:
        event.stop()
        if self._clock() < self._accept_enter_from:
            # The key that opened the editor was pressed twice.
            return
        # If another part is open, Enter was pressed twice, and other code is waiting now.
        code = event.text.rstrip()
        if self._part == "edited" and code:
            self._decide("run", code=code)


def _role(record: Approval) -> str:
    """Return the colour of the agent that wants to run the code; empty for the model."""
    if record.guest is None:
        return ""
    return AGENT_COLOURS[record.guest % len(AGENT_COLOURS)]
