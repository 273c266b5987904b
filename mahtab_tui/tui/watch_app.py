"""What others run, on a screen of its own, read-only: a log file, or a session of another program."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import RichLog, Static

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.bus.sanitize import styled
from mahtab_tui.session.shared_sessions import Running
from mahtab_tui.session.watching import follow
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.drain import RATE
from mahtab_tui.tui.panes.namespace import NamespacePane
from mahtab_tui.tui.panes.transcript.view import TranscriptView
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.textual_fixes.key_line import KeyLine
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY, role_variables

TAIL = 1_000_000
"""Bytes of a log's end that are shown at first."""

LINES = 20_000
"""Lines of a log that are kept."""

LONGEST = 10_000
"""Characters of a line that are shown."""

AT_ONCE = 100
"""Lines that are drawn at a time: the keys wait for no more."""


class WatchApp(TerminalApp[int]):
    """A head line that says what is watched, and below it what happens."""

    TITLE = "mahtab"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f10", "dark_light", "Dark / light", priority=True),
        Binding("q", "quit", "Leave", show=False),  # not where it is typed into a filter
        Binding("ctrl+q", "quit", "Leave", priority=True),
    ]

    def __init__(self, what: str, *, theme: str = "") -> None:
        styles = resource_folder("styles")
        super().__init__(css_path=[styles / name for name in ("app.tcss", "panes.tcss", "transcript.tcss")])
        for each in (MAHTAB, MAHTAB_DAY):
            self.register_theme(each)
        self.theme = theme if theme in self.available_themes else MAHTAB.name
        self._what = what
        self._told = ""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)

    def on_mount(self) -> None:
        self._head = self.query_one("#replay-head", Static)
        self.show_state("watches")
        self.set_interval(RATE, self.look)

    def head(self) -> Static:
        return Static(id="replay-head", markup=False)

    def show_state(self, state: str) -> None:
        """Say in the head line how what is watched stands: before its name, which may be longer than the line."""
        if state == self._told:
            return
        self._told = state
        self._head.update(Content.assemble(("◐ ", "$moon"), ("mahtab", "bold $moon"), (f"  {state} ", "$muted"), (self._what, "$model")))

    def look(self) -> None:
        """Show what has come."""
        raise NotImplementedError

    def action_dark_light(self) -> None:
        self.theme = MAHTAB_DAY.name if self.current_theme.dark else MAHTAB.name


class WatchFile(WatchApp):
    """The end of a log, and what is added to it."""

    def __init__(self, path: Path, *, theme: str = "") -> None:
        super().__init__(str(path), theme=theme)
        self._path = path
        self._read = max(0, path.stat().st_size - TAIL)
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=LINES)
        """What was read and is not yet drawn."""

    def compose(self) -> ComposeResult:
        yield self.head()
        yield RichLog(max_lines=LINES, wrap=True, markup=False, highlight=False)
        yield KeyLine()

    def on_mount(self) -> None:
        super().on_mount()
        self._text = self.query_one(RichLog)

    def look(self) -> None:
        try:
            size = self._path.stat().st_size
            if size < self._read:  # it was put aside, and begun anew
                self._read, self._rest = 0, b""
            if size > self._read + TAIL:
                self._lines.append(f"… {size - TAIL - self._read:,} bytes passed over …")
                self._read, self._rest = size - TAIL, b""
            self.show_state("watches")
            if size > self._read:
                self._take()
        except OSError:
            self.show_state("the file is gone:")
        for _ in range(min(AT_ONCE, len(self._lines))):
            self._text.write(styled(self._lines.popleft()))

    def _take(self) -> None:
        """Read what was added. Raises `OSError`."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read(TAIL)
        self._read += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:TAIL]
        self._lines.extend(_shown(line.decode("utf-8", "replace")) for line in lines)


def _shown(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}\x1b[0m … {len(line) - LONGEST:,} characters more"


class WatchSession(WatchApp):
    """The transcript and the namespace of a session."""

    def __init__(self, running: Running, *, theme: str = "") -> None:
        super().__init__(f"{running.name} ({running.pid}) in {running.project}", theme=theme)
        self._watched = running
        self._records: deque[Record] = deque()
        self._over = threading.Event()

    def compose(self) -> ComposeResult:
        yield self.head()
        yield TranscriptView(id="transcript", watched=True)
        yield NamespacePane(id="watched-namespace")
        yield KeyLine()

    def on_mount(self) -> None:
        super().on_mount()
        self._transcript, self._namespace = self.query_one(TranscriptView), self.query_one(NamespacePane)
        self._transcript.focus()
        threading.Thread(target=self._follow, name="watch", daemon=True).start()

    def look(self) -> None:
        records = [self._records.popleft() for _ in range(len(self._records))]
        if records:
            self._transcript.fold(records)
            self._namespace.fold(records)
        if self._over.is_set() and not self._records:
            self.show_state("it has ended:")

    def _follow(self) -> None:
        try:
            for record in follow(self._watched):
                self._records.append(record)
        except OSError as error:
            self._records.append(Notice(f"The session cannot be reached: {error.strerror}.", level="error", time=time.time()))
        finally:
            self._over.set()
