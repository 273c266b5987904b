"""The question under code that waits: run, edit, skip, run all, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.pasting import clean
from mahtab_tui.tui.theme import GUESTS
from mahtab_tui.tui.widgets.approval_chips import ApprovalChips
from mahtab_tui.tui.widgets.focus_loan import FocusLoan
from mahtab_tui.tui.widgets.line import Line

Action = Literal["run", "skip", "all", "stop"]
Part = Literal["chips", "reason", "edited"]

_HINTS: dict[Part, str] = {
    "chips": "",
    "reason": "say why, or nothing · Enter skips it · Esc back",
    "edited": "Enter runs what you wrote · Ctrl+J new line · Esc back",
}


class ApprovalRow(Widget):
    """Shown while code waits. It takes the focus only where the editor is empty."""

    class Decided(Message):
        """The person's answer."""

        def __init__(self, request: str, action: Action, code: str | None = None, reason: str = "") -> None:
            super().__init__()
            self.request = request
            self.action: Action = action
            self.code = code
            """What to run instead, where it was edited."""
            self.reason = reason

    def __init__(self, editor_is_empty: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._chips = ApprovalChips(clock)
        self._editor_is_empty = editor_is_empty
        self._loan = FocusLoan(self)
        self._given = False
        """Whether the person gave the row the focus."""
        self._requests: dict[str, Record] = {}
        """What waits by its request, the one that is shown first."""
        self._part: Part = "chips"

    def compose(self) -> ComposeResult:
        yield Static(id="about", markup=False)
        yield self._chips
        yield Line(id="reason", compact=True, placeholder="why not?")
        yield CodeArea(id="edited")

    def on_mount(self) -> None:
        self.display = False

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        for record in records:
            if record.tag == tags.APPROVAL:
                request = str(record.attrs["request"])
                if record.attrs["state"] != "waiting":
                    self._forget(request)
                elif request not in self._requests:
                    self._requests[request] = record
                    if len(self._requests) == 1:
                        self._open(record)

    def focus(self, scroll_visible: bool = True) -> ApprovalRow:
        """Give the focus to what is shown of the row, if it is shown."""
        if self.display:
            self._given = True
            self._loan.take(self._widget)
        return self

    @property
    def _shown(self) -> Record:
        return next(iter(self._requests.values()))

    @property
    def _widget(self) -> Widget:
        return self._chips if self._part == "chips" else self.query_one(f"#{self._part}")

    def _open(self, record: Record) -> None:
        self.query_one("#reason", Line).value = ""
        edited = self.query_one("#edited", CodeArea)
        edited.load_text(clean(record.text))
        edited.move_cursor(edited.document.end)
        self._chips.appear()
        self.display = True
        self._show("chips")
        if self._editor_is_empty() and self._loan.free:
            self._given = False
            self._loan.take(self._widget)

    def _forget(self, request: str) -> None:
        """Close what is decided; show what waits behind it."""
        shown = bool(self._requests) and request == self._shown.attrs["request"]
        self._requests.pop(request, None)
        if not shown:
            return
        self._loan.give_back()
        self.display = False
        if self._requests:
            self._open(self._shown)

    def _show(self, part: Part) -> None:
        self._part = part
        self._chips.display = part == "chips"
        self.query_one("#reason").display = part == "reason"
        self.query_one("#edited").display = part == "edited"
        self._tell()

    def _tell(self) -> None:
        """Which block it is, which keys there are, and how to reach the row."""
        record = self._shown
        parts: list[tuple[str, str]] = []
        if (guest := record.attrs.get("guest")) is not None:
            parts.append((clean(str(record.attrs["party"])), f"${GUESTS[int(guest) % len(GUESTS)]}"))
        if int(record.attrs["blocks"]) > 1:
            parts.append((f"block {int(record.attrs['block']) + 1} of {record.attrs['blocks']}", "$muted"))
        if _HINTS[self._part]:
            parts.append((_HINTS[self._part], "$muted"))
        if clean(record.text) != record.text.replace("\r\n", "\n"):
            parts.append(("holds control characters, which are not shown", "$bad"))
        if not self._loan.taken:
            parts.append((f"{self._key()}a click answers", "$moon"))
        self.query_one("#about", Static).update(Content.styled(" · ", "$muted").join(Content.styled(*part) for part in parts))

    def _key(self) -> str:
        for active in self.screen.active_bindings.values():
            if active.binding.id == "focus-approval":
                return f"{self.app.get_key_display(active.binding)} or "
        return ""

    def _decide(self, action: Action, code: str | None = None, reason: str = "") -> None:
        request = str(self._shown.attrs["request"])
        self.post_message(self.Decided(request, action, code, reason))
        self._forget(request)

    @on(ApprovalChips.Chosen)
    def _chosen(self, message: ApprovalChips.Chosen) -> None:
        message.stop()
        match message.answer:
            case "skip":
                self._go_to("reason")
            case "edit":
                self._go_to("edited")
            case "run" | "all" | "stop" as action:
                self._decide(action)

    def _go_to(self, part: Part) -> None:
        self._given = True
        self._show(part)
        self._loan.take(self._widget)

    @on(ApprovalChips.Elsewhere)
    def _elsewhere(self, message: ApprovalChips.Elsewhere) -> None:
        """What was typed for the editor goes there, and the focus with it; keys too early after the person came here are ignored."""
        message.stop()
        if (message.early and self._given) or (lender := self._loan.lender) is None:
            return
        self._loan.give_back()
        lender.post_message(message.event)

    @on(ApprovalChips.FocusMoved)
    def _focus_moved(self, message: ApprovalChips.FocusMoved) -> None:
        message.stop()
        if self._requests:
            self._tell()

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and self._part != "chips":
            event.stop()
            event.prevent_default()
            self._go_to("chips")

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        self._decide("skip", reason=event.value.strip())

    @on(CodeArea.Submitted)
    def _edited(self, event: CodeArea.Submitted) -> None:
        event.stop()
        if code := event.text.rstrip():
            self._decide("run", code=code)
