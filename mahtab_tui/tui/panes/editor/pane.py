"""The editor's pane: a glyph that shows the mode, the text, one line of help."""

from __future__ import annotations

import threading
from typing import Literal, Protocol

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.store.history import HistoryEntry
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.recall import Recall

Mode = Literal["python", "ask"]

_GLYPHS: dict[Mode, str] = {"python": "❯", "ask": "◈"}
_HINTS: dict[Mode, str] = {
    "python": "Python · Enter runs · Ctrl+J new line · ` asks the model",
    "ask": "Ask · Enter sends · Ctrl+J new line · /help · ` back to Python",
}


class InputHistory(Protocol):
    """What the editor needs of `store.history.History`."""

    def add(self, text: str, mode: str) -> None: ...

    def entries(self, mode: str | None = None, *, project_only: bool = False, limit: int = 2_000) -> list[HistoryEntry]: ...


class EditorPane(Widget):
    """Edits Python or a question; a backtick at the very start goes from one to the other."""

    mode: reactive[Mode] = reactive[Mode]("python", init=False)

    class Submitted(Message):
        """A complete input was entered."""

        def __init__(self, mode: Mode, text: str) -> None:
            super().__init__()
            self.mode = mode
            self.text = text

    class ModeChanged(Message):
        """Python or Ask."""

        def __init__(self, mode: Mode) -> None:
            super().__init__()
            self.mode = mode

    class LeaveRequested(Message):
        """Ctrl+D in an empty editor."""

    def __init__(self, history: InputHistory, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._history = history
        self._recall = Recall(lambda: [entry.text for entry in self._history.entries(self.mode)])
        self._recalling = False
        self._area = CodeArea(id="code")

    def compose(self) -> ComposeResult:
        with Horizontal(id="editor-line"):
            yield Static(_GLYPHS[self.mode], id="glyph", markup=False)
            yield self._area
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        self._show_mode()

    @property
    def text(self) -> str:
        """What stands in the editor; setting it can be undone."""
        return self._area.text

    @text.setter
    def text(self, text: str) -> None:
        self._area.replace(text, (0, 0), self._area.document.end)
        self._area.move_cursor(self._area.document.end)

    @property
    def is_empty(self) -> bool:
        return not self._area.text

    @property
    def selected_text(self) -> str:
        """What is selected in the editor."""
        return self._area.selected_text

    def clear(self) -> None:
        """Empty the editor; undo brings the text back."""
        self.text = ""
        self._recall.reset()

    def focus(self, scroll_visible: bool = True) -> EditorPane:
        self._area.focus(scroll_visible)
        return self

    def toggle_mode(self) -> None:
        """From Python to Ask or back; the draft stays."""
        self.mode = "ask" if self.mode == "python" else "python"

    def watch_mode(self, mode: Mode) -> None:
        self._recall.reset()
        if self.is_attached:
            self._show_mode()
            self.post_message(self.ModeChanged(mode))

    def _show_mode(self) -> None:
        self.set_class(self.mode == "ask", "-ask")
        self._area.python = self.mode == "python"
        self.query_one("#glyph", Static).update(Content(_GLYPHS[self.mode]))
        self.query_one("#hint", Static).update(Content(_HINTS[self.mode]))

    @on(CodeArea.ModeKey)
    def _mode_key(self, message: CodeArea.ModeKey) -> None:
        message.stop()
        if message.key == "`":
            self.toggle_mode()
        elif self.mode == "ask" and self.is_empty:
            self.mode = "python"

    @on(CodeArea.LeaveKey)
    def _leave_key(self, message: CodeArea.LeaveKey) -> None:
        message.stop()
        self.post_message(self.LeaveRequested())

    @on(CodeArea.Submitted)
    def _submitted(self, message: CodeArea.Submitted) -> None:
        message.stop()
        text = self._area.text.rstrip()
        if not text.strip():
            return
        mode = self.mode
        # Written off the main thread: a slow disk must not hold the keys.
        threading.Thread(target=self._history.add, args=(text, mode), name="history", daemon=True).start()
        self._area.load_text("")
        self._recall.reset()
        self.post_message(self.Submitted(mode, text))

    @on(CodeArea.EdgeReached)
    def _edge_reached(self, message: CodeArea.EdgeReached) -> None:
        message.stop()
        text = self._recall.older(self.text) if message.direction < 0 else self._recall.newer()
        if text is not None:
            self._recalling = True
            self.text = text
            if message.direction < 0:
                self._area.move_cursor((0, len(text.split("\n")[0])))

    @on(CodeArea.Changed)
    def _changed(self, message: CodeArea.Changed) -> None:
        message.stop()
        if not self._recalling:
            self._recall.reset()
        self._recalling = False
