"""A read-only application that follows another program's session."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.session.running_sessions import RunningSession, follow_session
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.namespace.pane import NamespacePane
from mahtab_tui.tui.terminal_app import FRAME_S, TerminalApp
from mahtab_tui.tui.transcript.view import TranscriptView
from mahtab_tui.tui.widgets.bars import KeyLine


class WatchApp(TerminalApp[int]):
    """Shows the transcript and the variables of a session that another program runs."""

    TITLE = "mahtab"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f10", "dark_light", "Dark / light", priority=True),
        # Without priority, so that a filter gets the letter.
        ("q", "quit"),
        Binding("ctrl+q", "quit", "Leave", priority=True),
    ]

    def __init__(self, running: RunningSession) -> None:
        styles = resource_folder("styles")
        names = ("app", "panes", "transcript")
        super().__init__(css_path=[styles / f"{name}.tcss" for name in names])
        self._heading = Static(id="watch-head", markup=False)
        self._state = ""
        self._transcript = TranscriptView(id="transcript", watched=True)
        self._namespace = NamespacePane(id="watched-namespace")
        self._followed = running
        # Filled by a thread, emptied at the frame rate.
        self._records: deque[Record] = deque()
        self._ended = threading.Event()

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self._transcript
        yield self._namespace
        yield KeyLine()

    def on_mount(self) -> None:
        self._show_state("watches")
        self.set_interval(FRAME_S, self._poll)
        self._transcript.focus()
        threading.Thread(target=self._follow, name="watch", daemon=True).start()

    def _poll(self) -> None:
        """Show the records that have come since the last frame."""
        records = [self._records.popleft() for _ in range(len(self._records))]
        if records:
            self._transcript.fold(records)
            self._namespace.fold(records)
        has_ended = self._ended.is_set() and not self._records
        self._show_state("it has ended:" if has_ended else "watches")

    def _show_state(self, state: str) -> None:
        """Say what this screen does, and whose session it shows."""
        if state == self._state:
            return
        self._state = state
        session = self._followed
        heading = Content.assemble(
            ("◐ ", "$highlight"),
            ("mahtab", "bold $highlight"),
            (f"  {state} ", "$muted"),
            (f"{session.name} ({session.pid}) in {session.project}", "$model"),
        )
        self._heading.update(heading)

    def _follow(self) -> None:
        """Read records until the session ends. Runs on a thread."""
        try:
            for record in follow_session(self._followed):
                self._records.append(record)
        except OSError as error:
            text = f"The session cannot be reached: {error.strerror or error}."
            self._records.append(Notice(text, level="error", time=time.time()))
        finally:
            self._ended.set()
