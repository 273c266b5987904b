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
from dataclasses import dataclass
from typing import Any, get_args

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.bus.terminal_screen import Screen, rewrites, split_unfinished
from mahtab_tui.bus.values import MAX_DESCRIBED_FILES, Change, ChangeKind, Status
from mahtab_tui.kernel.base import Kernel, OnDisplay, OnOutput
from mahtab_tui.kernel.requests import CellEnd
from mahtab_tui.kernel.values import CellResult, Mime, OutputKind, Restoration
from mahtab_tui.system import start_thread
from mahtab_tui.worker.cells.capture import omission

MAX_PICTURES = 8
"""Pictures of a cell that agents get."""
MAX_CHUNK_CHARS = 8192
"""Characters of output after which a chunk is passed on."""
CHUNK_DELAY_S = 0.05
"""Seconds between chunks, unless the output is fast."""
MAX_HEAD_CHARS = 25_000_000
"""Characters to keep of the beginning of the output, and of its end."""
MAX_REACHABLE_CHARS = 128_000
"""Characters at the end of plain text that the cursor may still reach."""
MIN_BULK_CHARS = 4_000
"""Characters of plain text for which it pays to leave the simulated screen."""
MAX_DISPLAY_CHARS = 100_000_000
"""Characters of rich display to keep per cell."""
INTERRUPT_GRACE_S = 2.0
"""Seconds that a cell may take to end after its interrupt."""
INTERRUPT_RETRY_S = 0.01
"""Seconds between attempts to interrupt a cell that has not started."""

SUDO_REFUSAL = 'sudo: The "no new privileges" flag is set'
SUDO_HINT = (
    "sudo does not work in cells while their changes of files are watched:"
    " set file_undo = false, then /reset.\n"
)

_OPPOSITES: dict[ChangeKind, ChangeKind] = {"added": "deleted", "deleted": "added"}
_VALUE_KEY = re.compile(r"[0-9a-f]{16}")
_DISPLAY_NAME = re.compile(r"[\w.-]{1,100}")

Kinds = tuple[tuple[OutputKind, int], ...]
"""The kinds of the pieces of an output, with the characters of each."""


def first_pictures(result: CellResult) -> tuple[DisplayRecord, ...]:
    """Return the first pictures of a cell, which agents get."""
    pictures = [display for display in result.displays if display.mime == "image/png"]
    return tuple(pictures[:MAX_PICTURES])


def pictures(result: CellResult) -> list[str]:
    """Return the first pictures of a cell, as base64."""
    return [display.data for display in first_pictures(result)]


def pieces(result: CellResult) -> list[tuple[OutputKind, str]]:
    """Return the pieces of a cell's output, with the kind of each."""
    # Line breaks stay as they are.
    output = io.StringIO(result.output, newline="")
    return [(kind, output.read(count)) for kind, count in result.kinds]


def inverted_changes(restoration: Restoration) -> tuple[Change, ...]:
    """Return the changes that an undo reverses."""
    return tuple(
        Change(
            change.name,
            _OPPOSITES.get(change.change, change.change),
            change.before,
            change.variable,
        )
        for change in restoration.changes
    )


def describe_restoration(restoration: Restoration, moment: str) -> str:
    """Return a sentence about the restored state, followed by what was not restored.

    Args:
        restoration: What an undo or a redo has restored.
        moment: That of the state, such as ``before cell 2 ran``.
    """
    if restoration.exact:
        text = f"The namespace is as it was {moment}."
    else:
        text = f"All but the following is as it was {moment}. {not_restored(restoration)}"
    return f"{text} {describe_restored_files(restoration)}".rstrip()


def describe_restored_files(restoration: Restoration) -> str:
    """Return which files an undo has restored, as a sentence; empty for none."""
    participles = {
        "restore": "restored",
        "create again": "created again",
        "remove": "removed",
        "rename back": "renamed back",
    }
    descriptions = [
        f"`{file.path}` {participles.get(file.action, file.action)}"
        for file in restoration.files[:MAX_DESCRIBED_FILES]
    ]
    omitted_count = len(restoration.files) - len(descriptions)
    if omitted_count > 0:
        descriptions.append(f"and {omitted_count:,} more")
    return f"Files: {', '.join(descriptions)}." if descriptions else ""


def not_restored(restoration: Restoration) -> str:
    """Return what an undo could not restore, with reasons; empty if it restored everything."""
    reasons = [
        f"{value.name}: {value.reason}".removeprefix(": ") for value in restoration.not_restored
    ]
    if not reasons:
        return ""
    return f"Not restored: {'; '.join(reasons)}"


class Chunks:
    """Decodes output and joins small pieces, so that a listener is not called for each."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending: list[str] = []
        self._pending_chars = 0
        self._flushed_at = 0.0
        """Monotonic time."""

    def feed(self, data: bytes) -> None:
        if text := self._decoder.decode(data):
            self.add(text)

    def add(self, text: str) -> None:
        self._pending.append(text)
        self._pending_chars += len(text)
        if self._pending_chars >= MAX_CHUNK_CHARS or self.wait() == 0:
            self.flush()

    def wait(self) -> float | None:
        """Return the seconds after which to call `flush`; None if nothing is pending."""
        if not self._pending:
            return None
        return max(0.0, self._flushed_at + CHUNK_DELAY_S - time.monotonic())

    def flush(self) -> None:
        text = "".join(self._pending)
        self._pending.clear()
        self._pending_chars = 0
        if text:
            self._on_text(text)
            self._flushed_at = time.monotonic()

    def end(self) -> None:
        """Pass on everything, even an incomplete character."""
        self._pending.append(self._decoder.decode(b"", final=True))
        self.flush()


@dataclass(slots=True)
class _Piece:
    """A piece of output; the text of a display may be replaced."""

    kind: OutputKind
    text: str


class TerminalOutput:
    """A cell's output as a terminal would finally show it; head and tail of very long output."""

    def __init__(self, *, rewritten: bool = False) -> None:
        self.rewritten = rewritten
        """Whether output that was passed on has been replaced since."""
        self._screen: Screen | None = None
        """Simulates a terminal since the output has moved its cursor; None before that."""
        self._recent_texts: list[str] = []
        """Plain text that the cursor may still reach."""
        self._recent_chars = 0
        self._unfinished = ""
        """The beginning of an escape sequence."""
        self._head: list[_Piece] = []
        self._tail: deque[_Piece] = deque()
        self._free_head_chars = MAX_HEAD_CHARS
        self._tail_chars = 0
        self._omitted_chars = 0
        self._named_displays: dict[str, _Piece] = {}
        """Displays in the head that can be updated."""

    def add(self, kind: OutputKind, text: str, name: str = "") -> None:
        """Add a piece. name: that of a display, by which it is updated."""
        if kind == "stdout":
            self._print(text)
            return
        self._end_prints()
        piece = self._store(kind, text)
        if name and piece is not None:
            self._named_displays[name] = piece

    def update_display(self, name: str, text: str) -> None:
        """Replace the text of a display with this name, if its whole text is in the head."""
        piece = self._named_displays.get(name)
        if piece is None:
            return
        old_length = len(piece.text)
        piece.text = text[: old_length + self._free_head_chars]
        # Space of a shorter text stays unused, because later output may already be in the tail.
        self._free_head_chars -= max(0, len(piece.text) - old_length)
        self.rewritten = True

    def _print(self, text: str) -> None:
        """Add printed text: to a simulated screen if it moves the cursor, else as it is."""
        text, self._unfinished = split_unfinished(self._unfinished + text)
        moves_cursor = rewrites(text)

        # Much plain text at the end of the screen makes the simulation unnecessary again.
        is_bulk = not moves_cursor and len(text) >= MIN_BULK_CHARS
        if self._screen is not None and is_bulk and self._screen.at_end:
            self._recent_texts = [self._screen.text()]
            self._recent_chars = 0
            self._screen = None

        if self._screen is None and not moves_cursor:
            self._recent_texts.append(text)
            self._recent_chars += len(text)
            if self._recent_chars > 2 * MAX_REACHABLE_CHARS:
                self._store_unreachable()
            return

        if self._screen is None:
            self._screen = Screen()
            self._screen.feed("".join(self._recent_texts))
            self._recent_texts = []
            self._recent_chars = 0
            self.rewritten = True
        self._screen.feed(text)
        self._store("stdout", self._screen.pop_above())

    def _store_unreachable(self) -> None:
        """Store the plain text that the cursor cannot reach any more, if possible whole lines."""
        text = "".join(self._recent_texts)
        min_end = len(text) - MAX_REACHABLE_CHARS
        line_end = text.find("\n", min_end) + 1
        end = line_end or min_end
        self._store("stdout", text[:end])
        self._recent_texts = [text[end:]]
        self._recent_chars = len(text) - end

    def _end_prints(self) -> None:
        """Store all printed text, because something else follows it."""
        if self._screen is None:
            self._recent_texts.append(self._unfinished)
        else:
            self._screen.feed(self._unfinished)
            text = self._screen.text()
            # What follows must not continue the last line of a screen that has scrolled.
            if self._screen.above and not text.endswith("\n"):
                text += "\n"
            self._recent_texts = [text]
        self._store("stdout", "".join(self._recent_texts))
        self._screen = None
        self._recent_texts = []
        self._recent_chars = 0
        self._unfinished = ""

    def _store(self, kind: OutputKind, text: str) -> _Piece | None:
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
        self._tail_chars += len(text)
        while self._tail_chars > MAX_HEAD_CHARS:
            surplus_chars = self._tail_chars - MAX_HEAD_CHARS
            piece = self._tail.popleft()
            omitted_chars = min(surplus_chars, len(piece.text))
            if omitted_chars < len(piece.text):
                self._tail.appendleft(_Piece(piece.kind, piece.text[omitted_chars:]))
            self._tail_chars -= omitted_chars
            self._omitted_chars += omitted_chars
        return None

    def text(self) -> tuple[str, Kinds]:
        """Return the whole output, and the kinds of its pieces."""
        self._end_prints()
        pieces = list(self._head)
        if self._omitted_chars:
            pieces.append(_Piece("stdout", omission(self._omitted_chars)))
        pieces += self._tail

        # Pieces of the same kind are joined, but each display is a piece of its own.
        kinds: list[tuple[OutputKind, int]] = []
        for piece in pieces:
            chars = len(piece.text)
            if kinds and kinds[-1][0] == piece.kind and piece.kind != "display":
                chars += kinds.pop()[1]
            kinds.append((piece.kind, chars))
        return "".join(piece.text for piece in pieces), tuple(kinds)


class BoundedCell:
    """Runs a cell that ends when its time is over, or when it is stopped."""

    def __init__(
        self,
        kernel: Kernel,
        timeout: float | None,
        *,
        may_kill: bool,
        grace: float = INTERRUPT_GRACE_S,
        on_unresponsive: Callable[[], None] = lambda: None,
    ) -> None:
        """Bound a cell.

        Args:
            kernel: The kernel that runs it.
            timeout: Seconds until it is interrupted; None for no limit.
            may_kill: Whether the kernel is killed if the cell does not end after its interrupt.
            grace: Seconds that it may take for that.
            on_unresponsive: Called then instead, if `may_kill` is False.
        """
        self._kernel = kernel
        self._timeout = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        self._may_kill = may_kill
        self._grace = grace
        self._lock = threading.Lock()
        self._has_begun = False
        self._ended = threading.Event()
        self._stop = threading.Event()
        self._limiter: threading.Thread | None = None
        self.timed_out = False
        self._on_unresponsive = on_unresponsive

    def run(self, execute: Callable[[], CellResult]) -> CellResult:
        """Run the cell. execute: runs it, and returns its result."""
        with self._lock:
            self._has_begun = True
            # Without a limit, a thread is needed only once the cell is stopped.
            if self._timeout is not None or self._stop.is_set():
                self._start_limiter()
        try:
            return execute()
        finally:
            with self._lock:
                self._ended.set()
            self._stop.set()

    def stop(self) -> None:
        """Interrupt the cell and return immediately. A cell that has not started is interrupted
        when it does."""
        with self._lock:
            self._stop.set()
            if self._has_begun:
                self._start_limiter()

    def _start_limiter(self) -> None:
        if self._limiter is None and not self._ended.is_set():
            self._limiter = start_thread("cell-limit", self._bound)

    def _bound(self) -> None:
        """End the cell once its time is over. Runs on a thread."""
        timed_out = not self._stop.wait(self._timeout)
        if not self._interrupt(timed_out) or self._ended.wait(self._grace):
            return
        if self._may_kill:
            self._kernel.kill()
        else:
            self._on_unresponsive()

    def _interrupt(self, timed_out: bool) -> bool:
        """Interrupt the cell, also one that has not started; returns False if it has ended."""
        while True:
            with self._lock:
                if self._ended.is_set():
                    return False
                self.timed_out = timed_out
                if self._kernel.interrupt():
                    return True
            self._ended.wait(INTERRUPT_RETRY_S)


class RunningCell:
    """The output and the result of a running cell, and its listeners."""

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
        self._unsent_events: list[Callable[[OnOutput], object]] = []
        """What has happened before there was a listener."""
        self._displays: list[DisplayRecord] = []
        self._free_display_chars = MAX_DISPLAY_CHARS
        self._output = TerminalOutput()
        self._started_at = time.monotonic()
        self._listener_error: BaseException | None = None
        """The first exception that a listener has raised; it becomes the result."""
        self._clears_before_next = False
        """Whether the next output replaces all output so far."""
        self.watches_files = False
        """Whether its changes of files are watched, so that `sudo` cannot work in it."""
        self._needs_sudo_hint = False

    def add_output(self, text: str) -> None:
        if self.watches_files and SUDO_REFUSAL in text:
            self._needs_sudo_hint = True
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

    def _read_display(self, frame: Mapping[str, Any]) -> DisplayRecord | None:
        """Return None for a display of an unknown form, and if the cell has displayed too much."""
        mime = frame.get("mime")
        data = frame.get("data")
        if not isinstance(mime, str) or mime not in get_args(Mime):
            return None
        if not isinstance(data, str):
            return None
        self._free_display_chars -= len(data)
        if self._free_display_chars < 0:
            return None

        value_key = str(frame.get("value"))
        if not _VALUE_KEY.fullmatch(value_key):
            value_key = ""
        name = frame.get("name")
        if not isinstance(name, str) or not _DISPLAY_NAME.fullmatch(name):
            name = ""
        text = str(frame.get("text"))
        return DisplayRecord(text, mime=mime, data=data, value=value_key, name=name)

    def _replace_display(self, display: DisplayRecord) -> bool:
        """Put a display in the place of the one with its name; False if the cell has none."""
        names = [earlier_display.name for earlier_display in self._displays]
        if not display.name or display.name not in names:
            return False
        self._displays[names.index(display.name)] = display
        self._output.update_display(display.name, display.text)
        self._send_display(display.changed(action="update"))
        return True

    def _clear_if_asked(self) -> None:
        """Remove all output so far, if the cell has asked for that."""
        if not self._clears_before_next:
            return
        self._clears_before_next = False
        self._output = TerminalOutput(rewritten=True)
        self._displays.clear()
        self._free_display_chars = MAX_DISPLAY_CHARS
        self._send_display(DisplayRecord(mime="text/plain", data="", action="clear"))

    def _send_display(self, display: DisplayRecord) -> None:
        def send_to_listener(on_output: OnOutput) -> None:
            if self._on_display is not None:
                self._on_display(display)

        self._send(send_to_listener)

    def listen(self, on_output: OnOutput, on_display: OnDisplay) -> None:
        """Set the listeners of a cell that began without; they get what has happened since."""
        with self._lock:
            self._on_output = on_output
            self._on_display = on_display
            for send in self._unsent_events:
                self._send(send)

    @property
    def seconds(self) -> float:
        """Seconds since the cell began."""
        return time.monotonic() - self._started_at

    def done(self, cell_end: CellEnd) -> None:
        """Set the result."""
        if self._needs_sudo_hint:
            self._add("stdout", SUDO_HINT)
        for kind, text in cell_end.pieces:
            self._add(kind, text)
        self._finish(
            cell_end.status,
            cell_end.duration,
            cell_end.changes,
            frames=cell_end.frames,
            needs=cell_end.needs,
            files=cell_end.files,
        )

    def lost(self, status: Status, sentence: str) -> None:
        """Set the result of a cell that the kernel cannot finish. sentence: why."""
        self._finish(status, self.seconds, (), detail=sentence)

    def _add(self, kind: OutputKind, text: str, name: str = "") -> None:
        if not text:
            return
        self._clear_if_asked()
        self._output.add(kind, text, name)
        self._send(lambda on_output: on_output(kind, text))

    def _send(self, send: Callable[[OnOutput], object]) -> None:
        with self._lock:
            if self._on_output is None:
                self._unsent_events.append(send)
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
        result = CellResult(
            self.cell,
            status,
            text,
            kinds,
            duration,
            changes,
            displays=tuple(self._displays),
            rewritten=self._output.rewritten,
            **fields,
        )
        self.result.set_result(result)


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
        """Add a cell inside the others. Those of an earlier host, without a seal, come first."""
        with self._lock:
            if cell.seal:
                self._cells.append(cell)
            else:
                earlier_count = sum(not other.seal for other in self._cells)
                self._cells.insert(earlier_count, cell)

    def remove(self, cell: RunningCell) -> None:
        with self._lock:
            self._cells = [other for other in self._cells if other is not cell]

    def innermost(self) -> RunningCell | None:
        """Return the cell to which output belongs; None if no cell runs."""
        with self._lock:
            for cell in reversed(self._cells):
                if not (self.replaying and cell.seal):
                    return cell
            return None
