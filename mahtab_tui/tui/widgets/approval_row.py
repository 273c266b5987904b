"""The row that asks whether code may run: run, edit, skip, run all, write a rule, stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
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
from mahtab_tui.tui.theme import AGENT_COLOURS
from mahtab_tui.tui.widgets.chips import IGNORE_KEYS_S, Chip
from mahtab_tui.tui.widgets.prompt_row import CHIPS_PART, PART_CLASS, PromptRow
from mahtab_tui.tui.widgets.waiting_code import WaitingCode

MAX_EDITED_LINES = 2_000
"""Longer code cannot be edited here, because it would take seconds to load."""
MAX_TITLE_CHARS = 40
"""Characters of the code that tell one of several blocks from the others."""
MAX_NAMED_SYMBOLS = 3
"""At most this many of the hidden characters in the code are named."""
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
"""The answers that an action of an agent, which is not code, does not have."""
_AGENT_ANSWERS = ("run", "skip")
"""The answers for which an agent may have words of its own, in the order of `Approval.answers`."""
_RULE_HINTS = {
    True: "runs code in a locked copy of the kernel that can read but not change anything; code that needs more asks",
    False: "runs exactly this call with these arguments without asking, whatever it does",
}
"""What a rule does, by whether it allows read-only code."""
_PART_HINTS = {
    "reason": "say why, or nothing · Enter skips · Esc back",
    "rules": "Enter writes to ~/.mahtab/config.toml, and runs the code · Esc back",
    "edited": "Enter at the end runs what you wrote, F5 from anywhere · Ctrl+J new line · Esc back",
}
"""What the keys do in a part of the row, by the part."""

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
        """The user has pressed Enter."""

        rules: tuple[str, ...]

    def show(self, rules: tuple[str, ...]) -> None:
        """Show rules, each with what it does."""
        self.rules = rules
        lines = []
        for rule in rules:
            hint = _RULE_HINTS[rule.endswith(READ_ONLY)]
            lines.append(f"  {rule}\n  {hint}")
        self.update("\n".join(lines))

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
        """The user has answered."""

        request: str
        """The id of the question."""
        action: Action
        code: str | None = None
        """The code to run if the user has edited it."""
        reason: str = ""
        """Why the code is skipped; empty if the user did not say."""
        rules: tuple[str, ...] = ()
        """The rules to write."""

    @dataclass
    class RulesWanted(Message):
        """The user wants rules that would let code like this run; `show_rules` shows them."""

        row: ApprovalRow
        request: str
        """The id of the question."""
        code: str

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            clock: Returns the time in seconds.
        """
        super().__init__(clock)
        self._clock = clock
        self._accept_enter_from = 0.0
        """The time, on the clock, from which Enter counts in the part that was opened."""
        self._refusal = ""
        """Why the code cannot be edited, or no rule can be written for it; empty if there is no
        reason."""
        self._is_code_loaded = False
        """Whether the editor has the code."""
        self._hidden_characters: list[str] = []
        """Symbols of some of the hidden characters in the code."""
        self._code = WaitingCode()
        self._has_code = False
        """Whether the row shows the code, because nothing above does."""
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
        self._chips.offer(_offered_chips(record))
        self._has_code = False
        self._unconfirmed = None
        self._is_code_loaded = False
        self._refusal = ""
        self._hidden_characters = sorted(symbols(record.text))[:MAX_NAMED_SYMBOLS]
        self._tools = find_search_tools(record.text)
        self._code.show(record.text.strip("\n"))
        self.show_part(CHIPS_PART)

    @property
    def code_to_show(self) -> str:
        """The code that waits, unless the row shows it already or an answer is being typed."""
        is_asking = self.display and bool(self._current) and self._part == CHIPS_PART
        if self._has_code or not is_asking:
            return ""
        return self._requests[self._current].text

    def show_code(self) -> None:
        """Show the code, because nothing above does. It stays until it is answered, so that nothing
        jumps."""
        self._has_code = True
        self._code.display = True

    @on(WaitingCode.Scrolled)
    def _scrolled(self) -> None:
        if self._requests:
            self.refresh_question()

    @property
    def scrolled(self) -> Widget | None:
        if self._code.display and self._part == CHIPS_PART:
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
        reason = clean(record.why or "") if self._part == CHIPS_PART else ""
        tools = clean(self._tools)
        hidden = " ".join(self._hidden_characters)
        self._show(
            (author, f"${role}"),
            (self._title(record), "$highlight"),
            *self._visible_part(),
            (_PART_HINTS.get(self._part, ""), "$muted"),
            (self._refusal, "$highlight"),
            (f"asks before it runs: {reason}" if reason else "", "$muted"),
            (f"the search may call {tools} without asking again" if tools else "", "$highlight"),
            (f"contains hidden characters: {hidden}" if hidden else "", "$bad"),
        )

    def _title(self, record: Approval) -> str:
        """Say which of several blocks of an answer, or else of several requests, is asked about."""
        request_count = len(self._requests)
        position = f"1/{request_count}" if request_count > 1 else ""
        if record.block is not None and (record.blocks or 0) > 1:
            position = f"{record.block + 1}/{record.blocks}"
        if not position:
            return ""
        return f"{position}  {one_line(record.text.strip())[:MAX_TITLE_CHARS]}"

    def _visible_part(self) -> list[tuple[str, str]]:
        """Say which lines of the code are visible, and how to see the rest; each text has a style."""
        visible_lines = self._code.visible_lines if self._code.display else ""
        if not visible_lines:
            return []
        end_seen = self._code.end_seen
        texts = [(visible_lines, "$muted" if end_seen else "$highlight")]
        if self._unconfirmed is not None:
            texts.append(("press it again to answer without reading the rest", "$bad"))
        elif not end_seen:
            texts.append(("PgDn shows more", "$muted"))
        return texts

    def run_edited(self) -> bool:
        """Run the code that is being edited; return False if none is."""
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
        """Open the editor with the code, or with what the user has made of it before."""
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
        """Answer the question, if it is still open. Code whose end was not visible needs the same
        answer twice.

        Args:
            action: The answer.
            code: The edited code.
            reason: Why the code is skipped.
            rules: The rules to write.
        """
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
        for part in self.query(RulesToWrite):
            part.show(rules)
        if not rules:
            self._refusal = "no rule can let this code run without asking"
            self.go_to(CHIPS_PART)
            return
        self._refusal = ""
        if not self.query(RulesToWrite):
            part = RulesToWrite(id="rules", classes=PART_CLASS, markup=False)
            self.mount(part)
            part.show(rules)
        self.go_to("rules")

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


def _offered_chips(record: Approval) -> list[Chip]:
    """Return the answers to a question, with an agent's own words for some of them."""
    is_code = record.is_code is not False
    chips = [chip for chip in _CHIPS if is_code or chip.answer not in _CODE_ONLY]
    agent_words = map(one_line, record.answers or ())
    words_by_answer = dict(zip(_AGENT_ANSWERS, agent_words, strict=False))
    return [_with_words(chip, words_by_answer.get(chip.answer, "")) for chip in chips]


def _with_words(chip: Chip, words: str) -> Chip:
    """Return a chip with further words behind its own, in a wide row; empty for none."""
    label = " ".join(words.split())[:MAX_LABEL_CHARS].rstrip()
    if not label:
        return chip
    return chip._replace(text=f"{chip.text.rstrip()}: {label} ", short=chip.text)


def _role(record: Approval) -> str:
    """Return the colour of the agent that wants to run the code; empty for the model."""
    if record.guest is None:
        return ""
    return AGENT_COLOURS[record.guest % len(AGENT_COLOURS)]
