"""A read-only application that follows a log file, or another program's session."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import RichLog, Static

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.bus.sanitize import styled
from mahtab_tui.session.sharing import RunningSession, follow_session
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.namespace import NamespacePane
from mahtab_tui.tui.terminal_app import RATE, TerminalApp
from mahtab_tui.tui.transcript.view import TranscriptView
from mahtab_tui.tui.widgets.bars import KeyLine

TAIL = 1_000_000

LINES = 20_000

MAX_LINE = 10_000

AT_ONCE = 100


class WatchApp(TerminalApp[int]):
    TITLE = "mahtab"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f10", "dark_light", "Dark / light", priority=True),
        # Without priority, so that a filter gets the letter.
        Binding("q", "quit", "Leave", show=False),
        Binding("ctrl+q", "quit", "Leave", priority=True),
    ]

    def __init__(self, name: str, *widgets: Widget) -> None:
        styles = resource_folder("styles")
        super().__init__(
            css_path=[styles / name for name in ("app.tcss", "panes.tcss", "transcript.tcss")]
        )
        self._source = name
        self._widgets = widgets
        self._head = Static(id="watch-head", markup=False)
        self._state = ""

    def compose(self) -> ComposeResult:
        yield self._head
        yield from self._widgets
        yield KeyLine()

    def on_mount(self) -> None:
        self._show_state("watches")
        self.set_interval(RATE, self.refresh_view)

    def refresh_view(self) -> None:
        self._show_state(self.poll())

    def poll(self) -> str:
        """Show what is new, and return the state."""
        raise NotImplementedError

    def _show_state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            moon, title = ("◐ ", "$moon"), ("mahtab", "bold $moon")
            self._head.update(
                Content.assemble(moon, title, (f"  {state} ", "$muted"), (self._source, "$model"))
            )


class FileApp(WatchApp):
    def __init__(self, path: Path) -> None:
        self._rich_log = RichLog(max_lines=LINES, wrap=True, markup=False, highlight=False)
        super().__init__(str(path), self._rich_log)
        self._path = path
        self._read = max(0, path.stat().st_size - TAIL)
        self._partial_line = b""
        self._lines: deque[str] = deque(maxlen=LINES)

    def poll(self) -> str:
        state = "watches"
        try:
            size = self._path.stat().st_size
            if size < self._read:  # the log was rotated
                self._read, self._partial_line = 0, b""
            if size > self._read + TAIL:
                self._lines.append(f"… {size - TAIL - self._read:,} bytes skipped …")
                self._read, self._partial_line = size - TAIL, b""
            if size > self._read:
                self._read_more()
        except OSError:
            state = "the file is gone:"
        for _ in range(min(AT_ONCE, len(self._lines))):
            self._rich_log.write(styled(self._lines.popleft()))
        return state

    def _read_more(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read(TAIL)
        self._read += len(data)
        *lines, rest = (self._partial_line + data).split(b"\n")
        self._partial_line = rest[:TAIL]
        for text in lines:
            line = text.decode("utf-8", "replace")
            if (more := len(line) - MAX_LINE) > 0:
                line = f"{line[:MAX_LINE]}\x1b[0m … {more:,} characters more"
            self._lines.append(line)


class SessionApp(WatchApp):
    def __init__(self, running: RunningSession) -> None:
        self._transcript = TranscriptView(id="transcript", watched=True)
        self._namespace = NamespacePane(id="watched-namespace")
        name = f"{running.name} ({running.pid}) in {running.project}"
        super().__init__(name, self._transcript, self._namespace)
        self._followed = running
        self._records: deque[Record] = deque()
        self._ended = threading.Event()

    def on_mount(self) -> None:
        self._transcript.focus()
        threading.Thread(target=self._follow, name="watch", daemon=True).start()

    def poll(self) -> str:
        if records := [self._records.popleft() for _ in range(len(self._records))]:
            self._transcript.fold(records)
            self._namespace.fold(records)
        return "it has ended:" if self._ended.is_set() and not self._records else "watches"

    def _follow(self) -> None:
        try:
            for record in follow_session(self._followed):
                self._records.append(record)
        except OSError as error:
            text = f"The session cannot be reached: {error.strerror}."
            self._records.append(Notice(text, level="error", time=time.time()))
        finally:
            self._ended.set()
