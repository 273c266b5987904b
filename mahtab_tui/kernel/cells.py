"""The host's side of a running cell and its output."""

from __future__ import annotations

import codecs
import io
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from mahtab_tui.bus.terminal_screen import Screen, rewrites, split_unfinished
from mahtab_tui.kernel.base import (
    CellResult,
    Change,
    ChangeKind,
    Display,
    Kernel,
    Mime,
    OnDisplay,
    OnOutput,
    OutputKind,
    Restoration,
    Status,
    TracebackFrame,
)
from mahtab_tui.kernel.requests import CellEnd
from mahtab_tui.system import start_thread
from mahtab_tui.worker.capture import omission

MOST = 8


def pictures(result: CellResult) -> list[str]:
    return [display.data for display in result.displays if display.mime == "image/png"][:MOST]


def pieces(result: CellResult) -> list[tuple[OutputKind, str]]:
    output = io.StringIO(result.output, newline="")
    return [(kind, output.read(count)) for kind, count in result.kinds]


_OPPOSITES: dict[ChangeKind, ChangeKind] = {"added": "deleted", "deleted": "added"}


def inverted_changes(restoration: Restoration) -> list[Change]:
    return [
        Change(each.name, _OPPOSITES.get(each.change, each.change), each.before, each.variable)
        for each in restoration.changes
    ]


def describe_restoration(restoration: Restoration, moment: str) -> str:
    """Return a sentence about the restored state, followed by what was not restored. moment: that of
    the state, such as ``before cell 2 ran``."""
    if restoration.exact:
        return f"The namespace is as it was {moment}."
    return f"All but the following is as it was {moment}. {not_restored(restoration)}"


def not_restored(restoration: Restoration) -> str:
    """Return what an undo could not restore, with reasons; empty if it restored everything."""
    reasons = [
        f"{entry.name}: {entry.reason}".removeprefix(": ") for entry in restoration.not_restored
    ]
    return f"Not restored: {'; '.join(reasons)}" if reasons else ""


CHUNK = 8192
"""Characters after which a chunk is passed on; or after `DELAY` seconds."""
DELAY = 0.05

KEEP = 25_000_000
"""Characters to keep of the output's head, and of its tail."""

Kinds = tuple[tuple[OutputKind, int], ...]


class Chunks:
    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending: list[str] = []
        self._size = 0
        self._last = 0.0

    def feed(self, data: bytes) -> None:
        if text := self._decoder.decode(data):
            self.add(text)

    def add(self, text: str) -> None:
        self._pending.append(text)
        self._size += len(text)
        if self._size >= CHUNK or self.wait() == 0:
            self.flush()

    def wait(self) -> float | None:
        if not self._pending:
            return None
        return max(0.0, self._last + DELAY - time.monotonic())

    def flush(self) -> None:
        text = "".join(self._pending)
        self._pending.clear()
        self._size = 0
        if text:
            self._on_text(text)
            self._last = time.monotonic()

    def end(self) -> None:
        self._pending.append(self._decoder.decode(b"", final=True))
        self.flush()


_RECENT = 128_000
"""Characters at the end of plain text that the cursor may still reach."""
_BULK = 4_000


@dataclass(slots=True)
class _Piece:
    kind: OutputKind
    text: str


class TerminalOutput:
    """A cell's output as a terminal would finally show it; head and tail of very long output."""

    def __init__(self, *, rewritten: bool = False) -> None:
        self.rewritten = rewritten
        """Whether output that was passed on has been replaced since."""
        self._screen: Screen | None = None
        self._recent: list[str] = []
        self._size = 0
        self._unfinished = ""
        self._head: list[_Piece] = []
        self._tail: deque[_Piece] = deque()
        self._free_head_chars = KEEP
        self._tail_size = 0
        self._omitted = 0
        self._named_displays: dict[str, _Piece] = {}

    def add(self, kind: OutputKind, text: str, name: str = "") -> None:
        """Add a piece. name: that of a display, by which it is updated."""
        if kind == "stdout":
            self._print(text)
            return
        self._end_prints()
        piece = self._keep(kind, text)
        if name and piece is not None:
            self._named_displays[name] = piece

    def update_display(self, name: str, text: str) -> None:
        """Replace the text of a display with this name, if its whole text is in the head."""
        piece = self._named_displays.get(name)
        if piece is None:
            return
        old_size = len(piece.text)
        piece.text = text[: old_size + self._free_head_chars]
        # Space of a shorter text stays unused, because later output may already be in the tail.
        self._free_head_chars -= max(0, len(piece.text) - old_size)
        self.rewritten = True

    def _print(self, text: str) -> None:
        text, self._unfinished = split_unfinished(self._unfinished + text)
        moves = rewrites(text)
        if self._screen is not None and not moves and len(text) >= _BULK and self._screen.at_end:
            self._recent, self._size, self._screen = [self._screen.text()], 0, None
        if self._screen is None and not moves:
            self._recent.append(text)
            self._size += len(text)
            if self._size > 2 * _RECENT:
                text = "".join(self._recent)
                cut = text.find("\n", len(text) - _RECENT) + 1 or len(text) - _RECENT
                self._keep("stdout", text[:cut])
                self._recent, self._size = [text[cut:]], len(text) - cut
            return
        if self._screen is None:
            self._screen = Screen()
            self._screen.feed("".join(self._recent))
            self._recent, self._size = [], 0
            self.rewritten = True
        self._screen.feed(text)
        self._keep("stdout", self._screen.pop_above())

    def _end_prints(self) -> None:
        if self._screen is None:
            self._recent.append(self._unfinished)
        else:
            self._screen.feed(self._unfinished)
            text = self._screen.text()
            self._recent = [text if not self._screen.above or text.endswith("\n") else text + "\n"]
        self._keep("stdout", "".join(self._recent))
        self._screen, self._recent, self._size, self._unfinished = None, [], 0, ""

    def _keep(self, kind: OutputKind, text: str) -> _Piece | None:
        """Add a piece, and return it; None if it is empty or in two parts."""
        if not text:
            return None
        if self._free_head_chars:
            piece = _Piece(kind, text[: self._free_head_chars])
            self._head.append(piece)
            text = text[self._free_head_chars :]
            self._free_head_chars -= len(piece.text)
            if not text:
                return piece

        self._tail.append(_Piece(kind, text))
        self._tail_size += len(text)
        while (surplus := self._tail_size - KEEP) > 0:
            first = self._tail.popleft()
            omitted = min(surplus, len(first.text))
            if omitted < len(first.text):
                self._tail.appendleft(_Piece(first.kind, first.text[omitted:]))
            self._tail_size -= omitted
            self._omitted += omitted
        return None

    def text(self) -> tuple[str, Kinds]:
        self._end_prints()
        pieces = list(self._head)
        if self._omitted:
            pieces.append(_Piece("stdout", omission(self._omitted)))
        pieces += self._tail
        kinds: list[tuple[OutputKind, int]] = []
        for piece in pieces:
            if kinds and kinds[-1][0] == piece.kind != "display":
                kinds[-1] = (piece.kind, kinds[-1][1] + len(piece.text))
            else:
                kinds.append((piece.kind, len(piece.text)))
        return "".join(piece.text for piece in pieces), tuple(kinds)


GRACE = 2.0
"""Seconds that a cell may take to end after its interrupt."""

_AGAIN = 0.01


class BoundedCell:
    def __init__(
        self,
        kernel: Kernel,
        timeout: float | None,
        *,
        may_kill: bool,
        grace: float = GRACE,
        on_unresponsive: Callable[[], None] = lambda: None,
    ) -> None:
        """may_kill: whether to kill the kernel if the cell does not end within `grace` seconds
        after its interrupt; otherwise `on_unresponsive` is called."""
        self._kernel = kernel
        self._timeout = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        self._may_kill = may_kill
        self._grace = grace
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._stop = threading.Event()
        self.timed_out = False
        self._on_unresponsive = on_unresponsive

    def run(self, execute: Callable[[], CellResult]) -> CellResult:
        start_thread("cell-limit", self._bound)
        try:
            return execute()
        finally:
            with self._lock:
                self._ended.set()
            self._stop.set()

    def stop(self) -> None:
        """Interrupt the cell and return immediately. A cell that has not started is interrupted
        when it does."""
        self._stop.set()

    def _bound(self) -> None:
        timed_out = not self._stop.wait(self._timeout)
        if not self._interrupt(timed_out) or self._ended.wait(self._grace):
            return
        if self._may_kill:
            self._kernel.kill()
        else:
            self._on_unresponsive()

    def _interrupt(self, timed_out: bool) -> bool:
        while True:
            with self._lock:
                if self._ended.is_set():
                    return False
                self.timed_out = timed_out
                if self._kernel.interrupt():
                    return True
            self._ended.wait(_AGAIN)


_KEY = re.compile(r"[0-9a-f]{16}")
_DISPLAY_NAME = re.compile(r"[\w.-]{1,100}")

MAX_DISPLAY_CHARS = 100_000_000
"""Characters of rich display to keep per cell."""


class RunningCell:
    def __init__(
        self,
        cell: int,
        on_output: OnOutput | None,
        on_display: OnDisplay | None = None,
    ) -> None:
        self.cell = cell
        self.result: Future[CellResult] = Future()
        self.seal = ""
        """A token expected at its end; empty for a cell started by an earlier host."""
        self.interrupting = False
        self._on_output = on_output
        self._on_display = on_display
        self._lock = threading.RLock()
        self._unsent: list[Callable[[OnOutput], object]] = []
        self._displays: list[Display] = []
        self._free_display_chars = MAX_DISPLAY_CHARS
        self._output = TerminalOutput()
        self._start = time.monotonic()
        self._listener_error: BaseException | None = None
        self._clears_before_next = False
        """Whether the next output replaces all output so far."""

    def add_output(self, text: str) -> None:
        self._add("stdout", text)

    def add_display(self, frame: Mapping[str, Any]) -> None:
        """Add, update or clear a display. frame: what the kernel sent, with fields of any type."""
        action = frame.get("action")
        if action in ("clear", "clear later"):
            self._clears_before_next = True
            if action == "clear":
                self._clear_if_asked()
            return
        self._clear_if_asked()
        display = self._read_display(frame)
        if display is None:
            self._add("value", str(frame.get("text")))
            return
        if action == "update" and self._replace_display(display):
            return
        self._displays.append(display)
        self._send_display(display)
        self._add("display", display.text, display.name)

    def _read_display(self, frame: Mapping[str, Any]) -> Display | None:
        """Return None for a display of an unknown form, and if the cell has displayed too much."""
        mime = frame.get("mime")
        data = frame.get("data")
        if mime not in get_args(Mime) or not isinstance(data, str):
            return None
        self._free_display_chars -= len(data)
        if self._free_display_chars < 0:
            return None

        key = str(frame.get("value"))
        value = key if _KEY.fullmatch(key) else ""
        name = frame.get("name")
        if not isinstance(name, str) or not _DISPLAY_NAME.fullmatch(name):
            name = ""
        return Display(cast(Mime, mime), data, str(frame.get("text")), value, name)

    def _replace_display(self, display: Display) -> bool:
        """Put a display in the place of the one with its name; False if the cell has none."""
        names = [shown_display.name for shown_display in self._displays]
        if not display.name or display.name not in names:
            return False
        self._displays[names.index(display.name)] = display
        self._output.update_display(display.name, display.text)
        self._send_display(replace(display, action="update"))
        return True

    def _clear_if_asked(self) -> None:
        if not self._clears_before_next:
            return
        self._clears_before_next = False
        self._output = TerminalOutput(rewritten=True)
        self._displays.clear()
        self._free_display_chars = MAX_DISPLAY_CHARS
        self._send_display(Display("text/plain", "", "", action="clear"))

    def _send_display(self, display: Display) -> None:
        self._send(lambda _: self._on_display and self._on_display(display))

    def listen(self, on_output: OnOutput, on_display: OnDisplay) -> None:
        with self._lock:
            self._on_output, self._on_display = on_output, on_display
            for send in self._unsent:
                self._send(send)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def done(self, done: CellEnd) -> None:
        for kind, text in done.pieces:
            self._add(kind, text)
        frames = tuple(TracebackFrame(*fields) for fields in done.frames)
        self._finish(done.status, done.duration, done.changes, frames=frames, needs=done.needs)

    def lost(self, status: Status, how: str) -> None:
        self._finish(status, self.seconds, (), detail=how)

    def _add(self, kind: OutputKind, text: str, name: str = "") -> None:
        if not text:
            return
        self._clear_if_asked()
        self._output.add(kind, text, name)
        self._send(lambda on_output: on_output(kind, text))

    def _send(self, send: Callable[[OnOutput], object]) -> None:
        with self._lock:
            if self._on_output is None:
                self._unsent.append(send)
            elif self._listener_error is None:
                try:
                    send(self._on_output)
                except BaseException as error:
                    self._listener_error = error

    def _finish(
        self, status: Status, duration: float, changes: tuple[Change, ...], **fields: Any
    ) -> None:
        if self._listener_error is not None:
            self.result.set_exception(self._listener_error)
            return
        text, kinds = self._output.text()
        fields |= {"displays": tuple(self._displays), "rewritten": self._output.rewritten}
        self.result.set_result(
            CellResult(self.cell, status, text, kinds, duration, changes, **fields)
        )


class RunningCells:
    """The running cells of a kernel process, the innermost last. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells: list[RunningCell] = []
        self.replaying = False
        """Whether output belongs to cells of an earlier host, which have no seal."""

    def __iter__(self) -> Iterator[RunningCell]:
        with self._lock:
            return iter(self._cells[:])

    def add(self, cell: RunningCell) -> None:
        with self._lock:
            earlier = sum(not other.seal for other in self._cells)
            self._cells.insert(len(self._cells) if cell.seal else earlier, cell)

    def remove(self, cell: RunningCell) -> None:
        with self._lock:
            self._cells = [other for other in self._cells if other is not cell]

    def innermost(self) -> RunningCell | None:
        with self._lock:
            cells = (each for each in reversed(self._cells) if not (self.replaying and each.seal))
            return next(cells, None)
