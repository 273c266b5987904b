"""An application that shows a saved session come up again. It runs nothing: no cell and no model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import AssistantChat, AssistantChatStream, Kernel, Namespace, Record, UserReplOut
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.splitter import AnswerSplitter
from mahtab_tui.tui.commands.on_screens import SESSION_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.panes.namespace import NamespacePane
from mahtab_tui.tui.panes.transcript.view import TranscriptView
from mahtab_tui.tui.player import PACES, Player
from mahtab_tui.tui.player_app import PlayerApp
from mahtab_tui.tui.widgets.find_row import FindRow
from mahtab_tui.tui.widgets.key_line import KeyLine

LONGEST_WAIT = 2.0
"""Seconds; longer waits of the session are shortened to them."""
_AT_ONCE = 500
"""Records that are folded at a time; keys come between."""
_PIECES = 40
"""Pieces in which an answer comes."""


def events(records: Sequence[Record]) -> Iterator[tuple[float, Record]]:
    """Yield records with the seconds to wait before each. An answer comes in pieces before its record, as it did."""
    before = records[0].time if records else 0.0
    for record in records:
        wait = min(max(0.0, record.time - before), LONGEST_WAIT)
        before = max(before, record.time)
        pieces = list(_pieces(record)) if isinstance(record, AssistantChat) and wait else []
        for piece in pieces:
            yield wait / len(pieces), piece
        yield 0.0 if pieces else wait, record


def _pieces(answer: AssistantChat) -> Iterator[Record]:
    splitter = AnswerSplitter()
    stream = AssistantChatStream(turn=answer.turn, step=answer.step, party=answer.party, time=answer.time)
    step = max(1, math.ceil(len(answer.text) / _PIECES))
    parts = (splitter.feed(answer.text[start : start + step]) for start in range(0, len(answer.text), step))
    for pieces in (*parts, splitter.end()):
        for kind, block, text in pieces:
            yield stream.changed(text=text, kind="code" if kind == "code" else "chat", block=block)


def emptied_at_the_end(records: Sequence[Record]) -> Record | None:
    """Return the record that takes the variables away because the program ended; its user did not see that."""
    match records[-2:]:
        case [Kernel(state="dead"), Namespace(fresh=True, changes=()) as last]:
            return last
    return None


class SessionReplayApp(PlayerApp):
    """Shows transcript, namespace and searches of a session, at a pace that the user changes."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS = bindings(SESSION_COMMANDS)

    def __init__(self, title: str, records: Sequence[Record], *, speed: float = 1.0, theme: str = "", keymap: dict[str, str] | None = None) -> None:
        """speed: how many times faster than the session was; the nearest of `PACES` is used."""
        super().__init__(Player(events(records)), ("replay.tcss", "transcript.tcss"), theme=theme, keymap=keymap)
        self.player.pace = min(PACES, key=lambda pace: abs(math.log(pace / speed)))
        self.shown = 0
        """How many records of the session are shown."""
        self.takes_over = False
        """Whether the user goes on from what is shown."""
        self._emptied = emptied_at_the_end(records)
        self._title = plain(one_line(title))
        self._count = len(records)
        self._line = ""
        self._transcript = TranscriptView(id="transcript", watched=True)
        self._namespace = NamespacePane(id="namespace")

    def compose(self) -> ComposeResult:
        yield self.head
        with Container(id="replay-body"):
            yield self._transcript
            with Vertical(id="replay-side"):
                yield self._namespace
                yield self.searches
                yield FindRow(self.searches, id="recursion-find")
        yield KeyLine()

    def on_mount(self) -> None:
        self.searches.display = False
        self._transcript.focus()

    def look(self) -> None:
        self._show(self.player.take(_AT_ONCE))
        line = f"{self.state} · {self.shown:,} of {self._count:,} records"
        if line != self._line:
            self._line = line
            self.show_head((f"  {line}  ", "$model"), (self._title, "$muted"))

    def _show(self, records: Sequence[Record]) -> None:
        if not records:
            return
        now = time.time()  # what runs has run since it came up, however long ago that was
        self.shown += sum(record.tag not in tags.STREAMS for record in records)
        self._transcript.fold([record.changed(time=now) for record in records])
        self._namespace.fold([record for record in records if record is not self._emptied])
        self.searches.fold(records)
        if self.searches.searched and not self.searches.display:
            self.searches.display = True
        if self.player.ended:
            running = list(self._transcript.viewport.transcript.running)
            self._transcript.fold([UserReplOut(cell=cell, cut=True, time=now) for cell in running])
            self.searches.end()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The search tree has its own arrows."""
        if action == "step" and (self.focused is self.searches or len(self.screen_stack) > 1):
            return False
        return super().check_action(action, parameters)

    def action_step(self) -> None:
        """Show the next record of the session, and pause."""
        shown = self.shown
        while self.shown == shown and not self.player.ended:
            self.player.step()
            self._show(self.player.take(1))
        self.look()

    def action_take_over(self) -> None:
        from mahtab_tui.tui.screens.confirm import confirm

        self.player.paused = True

        def take() -> None:
            self.takes_over = True
            self.exit(0)

        question = f"Begin a new session with the {self.shown:,} records that are shown, and go on with it?"
        confirm(self, question, take, yes="Take over", no="Go on watching")
