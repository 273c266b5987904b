"""The prompt row for waiting code: run, edit, skip, run all, stop."""

from __future__ import annotations

import ast
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

from mahtab_tui.bus.conversation import parse_plain_python
from mahtab_tui.bus.records import Approval
from mahtab_tui.bus.sanitize import one_line, symbols
from mahtab_tui.settings.approval_rules import READ_ONLY
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.pasting import clean, is_complete
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.row import Row, RowsView
from mahtab_tui.tui.theme import GUESTS, Palette
from mahtab_tui.tui.widgets.prompt_row import IGNORE_KEYS_S, PART, Chip, PromptRow

RESERVED_LINES = 9
"""Rows besides the code: header, question, answers, input and keys."""
LONGEST, MOST_LINES = 100_000, 2_000
"""Characters of code to show, parse or edit, and lines to edit."""


class WaitingCodeRows(list[Row]):
    code = ""
    lines: Sequence[int] = ()

    def lay_out(self, width: int, palette: Palette) -> None:
        from mahtab_tui.tui.rows.code import PYTHON, code_rows

        self[:] = code_rows(PYTHON, self.code, max(1, width), palette, palette.model)
        self.lines = list(accumulate(int(not row.soft) for row in self))


class WaitingCode(RowsView):
    """Shows the code, and notes whether its end was visible."""

    margin = 0

    class Scrolled(Message):
        """The user scrolled to other lines."""

    def __init__(self) -> None:
        self._code = WaitingCodeRows()
        super().__init__(self._code, id="waiting")
        self.end_seen = False
        self._count = 0
        self._is_cut = False

    def show(self, code: str) -> None:
        self._count = code.count("\n") + 1
        self._code.code = code[:LONGEST]
        self._is_cut, self.end_seen = len(code) > LONGEST, False
        self.scroll_to(y=0, animate=False, immediate=True)
        self.reload()
        self.refresh(layout=True)

    def refresh_view(self) -> None:
        super().refresh_view()
        self._update_end_seen()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """At most half of the screen, so that the answers stay visible."""
        most = max(1, min(viewport.height // 2, viewport.height - RESERVED_LINES))
        beginning = self._code.code[: most * max(1, width)].split("\n", most)
        return max(1, min(sum(1 + len(line) // max(1, width) for line in beginning), most))

    @property
    def visible_lines(self) -> str:
        """Such as ``lines 1–14 of 60``."""
        lines, first = self._code.lines, self.scroll_offset.y
        last = min(first + self.size.height, len(lines))
        if first >= last:
            return ""
        visible = f"lines {lines[first]:,}–{lines[last - 1]:,} of {self._count:,}"
        if self._is_cut:
            visible += f", too long: only the first {LONGEST:,} characters are shown"
        return visible

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._update_end_seen()

    def _update_end_seen(self) -> None:
        if self.display and self._code.lines and self.size:
            at_end = self.scroll_offset.y + self.size.height >= len(self._code)
            self.end_seen = self.end_seen or (at_end and not self._is_cut)
            self.post_message(self.Scrolled())


_SEARCHES = frozenset(("rlm", "arlm", "Searcher"))
_MAX_SHOWN = 80


def find_search_tools(code: str) -> str:
    if "tools" not in code:  # avoids loading the parser
        return ""
    if len(code) > LONGEST:
        return "all of its tools="
    tree, found = parse_plain_python(code), list[str]()
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=given) if (
                name in _SEARCHES
            ):
                found += [ast.unparse(each.value) for each in given if each.arg in ("tools", None)]
    names = ", ".join(dict.fromkeys(found))
    return names if len(names) <= _MAX_SHOWN else names[:_MAX_SHOWN] + "…"


Action = Literal["run", "skip", "all", "stop"]

_BEGINNING = 40
_CHIPS = (
    Chip("run", "y", "bold $background on $good", " y run "),
    Chip("edit", "e", "$background on $person", " e edit "),
    Chip("skip", "n", "$background on $moon", " n skip "),
    Chip("all", "a", "$foreground on $panel", " a run all from now on ", " a all "),
    Chip("rules", "r", "$foreground on $panel", " r rule "),
    Chip("stop", "escape", "$foreground on $panel", " esc stop ", " esc "),
)
_CODE_ONLY = ("edit", "all", "rules")

_RULE_HINTS = {
    True: "runs code in a locked copy of the kernel that can read but not change anything; code that needs more asks",
    False: "runs exactly this call with these arguments without asking, whatever it does",
}
"""By whether the rule allows read-only code."""
_HINTS = {
    "reason": "say why, or nothing · Enter skips · Esc back",
    "rules": "Enter writes to ~/.mahtab/config.toml, and runs the code · Esc back",
    "edited": "Enter at the end runs what you wrote, F5 from anywhere · Ctrl+J new line · Esc back",
}


class EditedCode(CodeArea):
    def may_run(self) -> bool:
        """Let Enter at the end run a block, which was complete before."""
        return super().may_run() or (
            self.cursor_location == self.document.end and is_complete(self.text + "\n")
        )


class RulesToWrite(Static, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "write", show=False)]

    rules: tuple[str, ...] = ()

    @dataclass
    class Confirmed(Message):
        rules: tuple[str, ...]

    def action_write(self) -> None:
        if self.rules:
            self.post_message(self.Confirmed(self.rules))


class ApprovalRow(PromptRow[Approval]):
    record_type = Approval
    answer_chips = _CHIPS

    @dataclass
    class Decided(Message):
        request: str
        action: Action
        code: str | None = None
        reason: str = ""
        rules: tuple[str, ...] = ()

    def __init__(
        self,
        editor_is_empty: Callable[[], bool],
        is_code_visible: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
        rules_for: Callable[[str], tuple[str, ...]] = lambda code: (),
    ) -> None:
        """is_code_visible: whether the transcript shows all of the code; else the row does.
        rules_for: rules that would let code like this run."""
        super().__init__(editor_is_empty, clock)
        self._clock = clock
        self._keys_from = 0.0
        """When Enter counts in the part that was opened."""
        self._is_code_visible = is_code_visible
        self._rules_for = rules_for
        self._refused = ""
        self._loaded = False
        self._hidden: list[str] = []
        self._code = WaitingCode()
        self._has_code = False
        self._tools = ""
        self._unread: Action | None = None
        """An answer given before the end was visible; it counts when repeated."""

    def compose(self) -> ComposeResult:
        yield Static(id="about", markup=False)
        yield self._code
        yield self._chips
        yield LineInput(id="reason", classes=PART, compact=True, placeholder="why not?")
        yield EditedCode(id="edited").add_class(PART)

    def on_mount(self) -> None:
        super().on_mount()
        # The transcript gets its size only after the layout.
        self.screen.screen_layout_refresh_signal.subscribe(
            self, lambda _: self.call_after_refresh(self._update_code_display)
        )

    def show(self, record: Approval) -> None:
        self.query_one("#reason", LineInput).value = ""
        for role in GUESTS:
            self.set_class(role == _role(record), role)
        is_code = record.is_code is not False
        self._chips.offer([chip for chip in _CHIPS if is_code or chip.answer not in _CODE_ONLY])
        self._has_code, self._unread, self._loaded, self._refused = False, None, False, ""
        self._hidden = sorted(symbols(record.text))[:3]
        self._tools = find_search_tools(record.text)
        self._code.show(record.text.strip("\n"))
        self.show_part("chips")

    def _update_code_display(self) -> None:
        """Show the code once it is not visible above, then until it is answered: nothing jumps."""
        if self.display and self._shown and self._part == "chips" and not self._has_code:
            self._has_code = self._code.display = not self._is_code_visible(
                self._requests[self._shown].text
            )

    @on(WaitingCode.Scrolled)
    def _scrolled(self) -> None:
        self.focus_moved()

    @property
    def scrolled(self) -> Widget | None:
        return self._code if self._code.display and self._part == "chips" else None

    def action_scroll_content(self, how: str) -> None:
        self._unread = None
        super().action_scroll_content(how)

    def show_part(self, part: str) -> None:
        self._code.display = self._has_code and part != "edited"
        super().show_part(part)

    def refresh_question(self) -> None:
        record, count = self._requests[self._shown], len(self._requests)
        role, end_seen = _role(record), self._code.end_seen
        part = f"1/{count}" if count > 1 else ""
        if record.block is not None and (record.blocks or 0) > 1:
            part = f"{record.block + 1}/{record.blocks}"
        seen = self._code.visible_lines if self._code.display else ""
        more, style = "" if end_seen else "PgDn shows more", "$muted"
        if self._unread is not None:
            more, style = "press it again to answer without reading the rest", "$bad"
        why = clean(record.why or "") if self._part == "chips" else ""
        tools, hidden = clean(self._tools), " ".join(self._hidden)
        self._show(
            (clean(record.party or "") if role else "", f"${role}"),
            (part and f"{part}  {one_line(record.text.strip())[:_BEGINNING]}", "$moon"),
            (seen, "$muted" if end_seen else "$moon"),
            (seen and more, style),
            (_HINTS.get(self._part, ""), "$muted"),
            (self._refused, "$moon"),
            (why and f"asks before it runs: {why}", "$muted"),
            (tools and f"the search may call {tools} without asking again", "$moon"),
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
                self._show_rules(self._rules_for(code) if len(code) <= LONGEST else ())
            case "run" | "all" | "stop" as action:
                self._decide(action)

    def _edit(self, code: str) -> None:
        """Load the code once, unless that would take seconds."""
        if len(code) > LONGEST or code.count("\n") > MOST_LINES:
            self._refused = f"too long to be edited here: at most {MOST_LINES:,} lines"
            self.refresh_question()
            return
        if not self._loaded:
            self._loaded = True
            edited = self.query_one("#edited", CodeArea)
            edited.load_text(clean(code))
            edited.move_cursor(edited.document.end)
        self.go_to("edited")

    def _decide(
        self, action: Action, code: str | None = None, reason: str = "", rules: tuple[str, ...] = ()
    ) -> None:
        """Ignored if nothing waits any more."""
        shown = self._code.display and code is None and action in ("run", "all")
        if shown and not self._code.end_seen and self._unread != action:
            self._unread = action
            # Otherwise the same key, pressed again too early, would go to the editor.
            self._focused_by_user = True
            self.refresh_question()
            return
        if request := self._shown:
            self.post_message(self.Decided(request, action, code, reason, rules))
            self.forget(request)

    def go_to(self, part: str) -> None:
        self._keys_from = self._clock() + IGNORE_KEYS_S
        super().go_to(part)

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        self._decide("skip", reason=event.value.strip())

    def _show_rules(self, rules: tuple[str, ...]) -> None:
        self._refused = "" if rules else "no rule can let this code run without asking"
        if rules and not self.query("#rules"):
            self.mount(RulesToWrite(id="rules", classes=PART, markup=False))
        for shown in self.query(RulesToWrite):
            shown.rules = rules
            hints = [_RULE_HINTS[rule.endswith(READ_ONLY)] for rule in rules]
            lines = map("  {}\n  {}".format, rules, hints)
            shown.update("\n".join(lines))
        self.go_to("rules" if rules else "chips")

    @on(RulesToWrite.Confirmed)
    def _rules_confirmed(self, event: RulesToWrite.Confirmed) -> None:
        event.stop()
        if self._part == "rules" and self._clock() >= self._keys_from:
            self._decide("run", rules=event.rules)

    @on(CodeArea.Submitted)
    def _edited(self, event: CodeArea.Submitted) -> None:
        event.stop()
        if self._clock() < self._keys_from:  # the key that opened the editor was pressed twice
            return
        # If not, the key was pressed twice, and other code is waiting now.
        if self._part == "edited" and (code := event.text.rstrip()):
            self._decide("run", code=code)


def _role(record: Approval) -> str:
    return "" if record.guest is None else GUESTS[record.guest % len(GUESTS)]
