"""A line that code asks for with `input()` or `getpass()`."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain


class _Line(Input):
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+d", "end_of_input", "End of input", show=False),
    ]

    class Ended(Message):
        """Ctrl+D on an empty line."""

    def action_end_of_input(self) -> None:
        if self.value:
            self.action_delete_right()
        else:
            self.post_message(self.Ended())


class InputRow(Widget):
    """Shown while code waits for a line; takes the focus, and gives it back."""

    class Answered(Message):
        """The line; None is the end of input."""

        def __init__(self, request: str, text: str | None) -> None:
            super().__init__()
            self.request = request
            self.text = text

    def __init__(self) -> None:
        super().__init__()
        self._request = ""
        self._focused_before: Widget | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="input-prompt", markup=False)
        yield _Line(id="input-line", compact=True)

    def on_mount(self) -> None:
        self.display = False

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        for record in records:
            if record.tag == tags.INPUT:
                if record.attrs["state"] == "waiting":
                    self._open(record)
                elif record.attrs["request"] == self._request:
                    self._close()

    def _open(self, record: Record) -> None:
        self._request = str(record.attrs["request"])
        prompt = plain(record.text).rstrip("\n").rpartition("\n")[2].strip() or "input"
        self.query_one("#input-prompt", Static).update(Content(prompt))
        line = self.query_one(_Line)
        line.value = ""
        line.password = bool(record.attrs.get("password"))
        self.display = True
        if self.screen.focused is not line:
            self._focused_before = self.screen.focused
        line.focus()

    def _close(self) -> None:
        self._request = ""
        self.display = False
        if self._focused_before is not None:
            self._focused_before.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Answered(self._request, event.value))

    @on(_Line.Ended)
    def _ended(self) -> None:
        self.post_message(self.Answered(self._request, None))
