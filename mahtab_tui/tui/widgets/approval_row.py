"""The question under code that waits: run, edit, skip, run all, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click, Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.editor.code_area import CodeArea

Action = Literal["run", "skip", "all", "stop"]

DEAF = 0.3
"""Seconds for which the row ignores keys after it has got the focus, so that what was meant for the editor approves nothing."""

_CHIPS: tuple[tuple[str, str, str, str], ...] = (
    ("y", " y run ", "bold $background on $good", "decide('run')"),
    ("e", " e edit ", "$background on $person", "edit"),
    ("n", " n skip, say why ", "$background on $moon", "skip"),
    ("a", " a run all from now on ", "$foreground on $panel", "decide('all')"),
    ("escape", " esc stop ", "$foreground on $panel", "decide('stop')"),
)


class Chips(Widget, can_focus=True):
    """The answers, by key or click. Keys act only while the focus is here."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding(key, f"answer({action!r})", show=False) for key, _, _, action in _CHIPS]

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.about = ""
        self._clock = clock
        self._deaf_until = 0.0

    def on_focus(self) -> None:
        self._deaf_until = self._clock() + DEAF
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render(self) -> Content:
        parts: list[Content | tuple[str, str] | str] = []
        for _, text, style, _ in _CHIPS:
            parts += [Content.styled(text, style), " "]
        parts.append((self.about, "$muted"))
        if not self.has_focus:
            parts.append(("  f7 answers", "$moon"))
        return Content.assemble(*parts)

    def on_click(self, event: Click) -> None:
        """Which chip is under the mouse."""
        place = event.x
        for _, text, _, action in _CHIPS:
            if place < len(text):
                self.call_later(self.parent.run_action, action)  # type: ignore[union-attr]
                return
            place -= len(text) + 1

    async def action_answer(self, action: str) -> None:
        if self._clock() >= self._deaf_until and isinstance(self.parent, ApprovalRow):
            await self.parent.run_action(action)


class ApprovalRow(Widget):
    """Shown while code waits. It takes the focus only where the editor is empty."""

    class Decided(Message):
        """The person's answer."""

        def __init__(self, request: str, action: Action, code: str | None = None, reason: str = "") -> None:
            super().__init__()
            self.request = request
            self.action: Action = action
            self.code = code
            self.reason = reason

    def __init__(self, editor_is_empty: Callable[[], bool]) -> None:
        super().__init__()
        self._editor_is_empty = editor_is_empty
        self._request = ""
        self._code = ""

    def compose(self) -> ComposeResult:
        yield Chips()
        yield Input(placeholder="why not? Enter skips it, Esc goes back", id="reason", compact=True)
        yield CodeArea(id="edited")
        yield Static("Enter runs what you wrote · Ctrl+J new line · Esc goes back", id="edit-hint", markup=False)

    def on_mount(self) -> None:
        self.display = False
        self._show("chips")

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        for record in records:
            if record.tag == tags.APPROVAL:
                if record.attrs["state"] == "waiting":
                    self._open(record)
                elif record.attrs["request"] == self._request:
                    self._close()

    def focus(self, scroll_visible: bool = True) -> ApprovalRow:
        if self.display:
            self.query_one(Chips).focus(scroll_visible)
        return self

    def _open(self, record: Record) -> None:
        self._request, self._code = str(record.attrs["request"]), record.text
        blocks = int(record.attrs.get("blocks", 1))
        chips = self.query_one(Chips)
        chips.about = f"block {int(record.attrs['block']) + 1} of {blocks}" if blocks > 1 else ""
        self._show("chips")
        self.display = True
        if self._editor_is_empty():
            chips.focus()
        chips.refresh()

    def _close(self) -> None:
        self._request = ""
        self.display = False

    def _show(self, what: Literal["chips", "reason", "edit"]) -> None:
        self.query_one(Chips).display = what == "chips"
        self.query_one("#reason").display = what == "reason"
        self.query_one("#edited").display = what == "edit"
        self.query_one("#edit-hint").display = what == "edit"

    def _decide(self, action: Action, code: str | None = None, reason: str = "") -> None:
        if self._request:
            self.post_message(self.Decided(self._request, action, code, reason))
            self._close()

    def action_decide(self, action: Action) -> None:
        self._decide(action)

    def action_edit(self) -> None:
        area = self.query_one("#edited", CodeArea)
        area.load_text(self._code)
        self._show("edit")
        area.focus()
        area.move_cursor(area.document.end)

    def action_skip(self) -> None:
        reason = self.query_one("#reason", Input)
        reason.value = ""
        self._show("reason")
        reason.focus()

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and not self.query_one(Chips).display:
            event.stop()
            event.prevent_default()
            self._show("chips")
            self.query_one(Chips).focus()

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        self._decide("skip", reason=event.value.strip())

    @on(CodeArea.Submitted)
    def _edited(self, event: CodeArea.Submitted) -> None:
        event.stop()
        self._decide("run", code=self.query_one("#edited", CodeArea).text)
