"""The host's side of running cells.

`RunningCell` collects output and displays, passes them to its listeners, and gets a result at the end.
`RunningCells` says to which of several nested cells output belongs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.bus.values import Change, Status
from mahtab_tui.kernel.base import OnDisplay, OnOutput
from mahtab_tui.kernel.cell_displays import CellDisplays
from mahtab_tui.kernel.messages import CellEnd
from mahtab_tui.kernel.terminal_output import TerminalOutput
from mahtab_tui.kernel.values import CellResult, OutputKind

SUDO_REFUSAL = 'sudo: The "no new privileges" flag is set'
SUDO_HINT = (
    "sudo does not work in cells while their changes of files are watched:"
    " set file_undo = false, then /reset.\n"
)


class RunningCell:
    """The output and the result of a running cell, and its listeners."""

    def __init__(
        self,
        cell: int,
        on_output: OnOutput | None,
        on_display: OnDisplay | None = None,
    ) -> None:
        """Begin without output.

        Args:
            cell: Its number.
            on_output: Gets what it prints; None if `listen` says later who does.
            on_display: Gets its displays.
        """
        self.cell = cell
        self.result: Future[CellResult] = Future()
        self.seal = ""
        """A token expected at its end; empty for a cell started by an earlier host."""
        self.interrupting = False
        """Whether a thread interrupts it now."""
        self._on_output = on_output
        self._on_display = on_display
        self._lock = threading.RLock()
        self._unsent_events: list[Callable[[OnOutput], object]] = []
        """What has happened before there was a listener."""
        self._displays = CellDisplays()
        self._output = TerminalOutput()
        self._started_at = time.monotonic()
        self._listener_error: BaseException | None = None
        """The first exception that a listener has raised; it becomes the result."""
        self._clears_before_next = False
        """Whether the next output replaces all output so far."""
        self.watches_files = False
        """Whether its changes of files are watched, so that `sudo` cannot work in it."""
        self._sudo = _SudoWatch()

    def add_output(self, text: str) -> None:
        """Add what the cell has printed."""
        if self.watches_files:
            self._sudo.feed(text)
        self._add("stdout", text)

    def add_display(self, frame: Mapping[str, Any]) -> None:
        """Add, update or clear a display.

        Args:
            frame: What the kernel sent, with fields of any type.
        """
        action = frame.get("action")
        if action in ("clear", "clear later"):
            self._clears_before_next = True
            if action == "clear":
                self._clear_if_asked()
            return
        self._clear_if_asked()
        display = self._displays.read(frame)
        if display is None:
            self._add("value", str(frame.get("text")))
            return
        if action == "update" and self._replace_display(display):
            return
        self._displays.add(display)
        self._send_display(display)
        self._add("display", display.text, display.name)

    def _replace_display(self, display: DisplayRecord) -> bool:
        """Put a display in the place of the one with its name; False if the cell has none."""
        if not self._displays.replace(display):
            return False
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
        self._send_display(DisplayRecord(mime="text/plain", data="", action="clear"))

    def _send_display(self, display: DisplayRecord) -> None:
        """Pass a display to the listener, if it wants displays."""

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
        if self._sudo.was_refused:
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

    def fail(self, status: Status, sentence: str) -> None:
        """Set the result of a cell that the kernel cannot finish.

        Args:
            status: How the cell has ended.
            sentence: Why.
        """
        self._finish(status, self.seconds, (), detail=sentence)

    def _add(self, kind: OutputKind, text: str, name: str = "") -> None:
        """Add a piece of output, and pass it to the listener."""
        if not text:
            return
        self._clear_if_asked()
        self._output.add(kind, text, name)
        self._send(lambda on_output: on_output(kind, text))

    def _send(self, send: Callable[[OnOutput], object]) -> None:
        """Call a function with the listener, now or as soon as there is one."""
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
            displays=self._displays.all(),
            rewritten=self._output.rewritten,
            **fields,
        )
        self.result.set_result(result)


class _SudoWatch:
    """Looks for a refusal of `sudo` in what a cell prints."""

    def __init__(self) -> None:
        self.was_refused = False
        self._last_printed = ""
        """The end of what was printed, in which a refusal may have begun."""

    def feed(self, text: str) -> None:
        """Look at another piece of the output."""
        printed = self._last_printed + text
        self._last_printed = printed[-len(SUDO_REFUSAL) :]
        if SUDO_REFUSAL in printed:
            self.was_refused = True


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
        """Remove a cell; nothing if it is not there."""
        with self._lock:
            self._cells = [other for other in self._cells if other is not cell]

    def pop_all(self) -> list[RunningCell]:
        """Remove all cells, and return them, the innermost last."""
        with self._lock:
            cells = self._cells
            self._cells = []
        return cells

    def innermost(self) -> RunningCell | None:
        """Return the cell to which output belongs; None if no cell runs."""
        with self._lock:
            for cell in reversed(self._cells):
                if not (self.replaying and cell.seal):
                    return cell
            return None
