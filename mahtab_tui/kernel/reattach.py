"""State that lets a kernel process be left by one host and attached to by another."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from mahtab_tui.kernel.base import KernelError, OnDisplay, OnOutput
from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.launch import SeekableOutput
from mahtab_tui.kernel.requests import NO_ANSWER, HostCall
from mahtab_tui.kernel.values import CellResult, Display, OutputKind
from mahtab_tui.system import wait_for_result
from mahtab_tui.worker.frames import Frame, encode


@dataclass(frozen=True, slots=True)
class SavedBefore:
    """The previous host's report on the saved variables."""

    carried: tuple[str, ...] | None
    """None if it reported nothing."""
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventBacklog:
    """Events in order, to replay on attach. `at` is the offset of the output up to an event.

    The aliases are used by waiting kernels of earlier versions.
    """

    acknowledged: Annotated[int, Field(validation_alias=AliasChoices("acknowledged", "told"))]
    """The offset up to which the output outside cells is stored."""
    events: tuple[dict[str, Any], ...]
    """Each is the start of a cell, a display, or the end of a cell."""
    calls: tuple[HostCall, ...]
    saved: Annotated[SavedBefore, Field(validation_alias=AliasChoices("saved", "kept"))]

    def cells(self) -> BacklogCells:
        """Return its cells, which buffer their output. May raise any exception if it is
        malformed."""
        cells: BacklogCells = {}
        for event in self.events:
            if "begin" in event:
                late = BufferedListener()
                cell = RunningCell(event["begin"], late.output, event["limit"], late.display)
                cells[cell.cell] = cell, late
        return cells


class BufferedListener:
    """Buffers a cell's output until there is a listener, and then passes it on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Callable[[OnOutput, OnDisplay], None]] = []
        self._listener: tuple[OnOutput, OnDisplay] | None = None

    def output(self, kind: OutputKind, text: str) -> None:
        self._pass_on(lambda on_output, _: on_output(kind, text))

    def display(self, display: Display) -> None:
        self._pass_on(lambda _, on_display: on_display(display))

    def listen(self, on_output: OnOutput, on_display: OnDisplay) -> None:
        with self._lock:
            self._listener = on_output, on_display
            waiting, self._waiting = self._waiting, []
            for send in waiting:
                send(on_output, on_display)

    def _pass_on(self, send: Callable[[OnOutput, OnDisplay], None]) -> None:
        with self._lock:
            if self._listener is None:
                self._waiting.append(send)
            else:
                send(*self._listener)


BacklogCells = dict[int, tuple[RunningCell, BufferedListener]]


CLAIMED = "The other terminal now has the kernel and its variables."


class DetachState:
    """State that a later host of the same kernel needs. Any thread may use it, but only the reader
    thread calls `receive`, `on_cell_end` and `printed_outside`."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.output: SeekableOutput | None = None
        """The kernel's output, if it can outlive this host."""
        self._send = send
        self._lock = threading.Lock()
        self._backlog: Future[EventBacklog] = Future()
        self._resumed: BacklogCells = {}
        self._stored: list[int] = []
        self._received = 0
        self._ends: dict[int, int] = {}
        """Offset of the end of each unstored cell's output, by cell number."""

    @property
    def has_received(self) -> bool:
        return self._backlog.done()

    def receive(self, backlog: EventBacklog, cells: BacklogCells) -> None:
        self._resumed = dict(cells)
        self._backlog.set_result(backlog)

    def end(self, how: str) -> None:
        if not self._backlog.done():
            self._backlog.set_exception(KernelError(how))

    def resume_cell(
        self, cell: int, on_output: OnOutput, on_display: OnDisplay
    ) -> CellResult | None:
        """Wait for the end of a cell that began under an earlier host; it may have ended since.
        Returns None if the kernel does not know it."""
        with contextlib.suppress(KernelError):
            wait_for_result(self._backlog)
        resumed = self._resumed.pop(cell, None)
        if resumed is None:
            return None
        running, late = resumed
        late.listen(on_output, on_display)
        return wait_for_result(running.result)

    def saved(self, seconds: float) -> SavedBefore:
        """Return the earlier host's report on the saved variables. Raises `KernelError` if it does
        not arrive in time."""
        try:
            return self._backlog.result(seconds).saved
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None

    def on_cell_end(self, cell: int) -> None:
        if self.output is not None:
            with self._lock:
                self._ends[cell] = self.output.position

    def printed_outside(self) -> None:
        """Note that output outside cells is stored."""
        if self.output is not None:
            with self._lock:
                self._received = self.output.position
            self.acknowledge()

    def on_stored(self, cell: int) -> None:
        """Note that a cell's end and output are stored, so that the kernel need not send them to
        another host."""
        with self._lock:
            if self.output is None:
                return
            self._stored.append(cell)
            end = self._ends.pop(cell, 0)
        if self.output.release(end):
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tell the kernel what is stored."""
        self._send(encode({"op": "stored", **self.news()}))

    def news(self) -> Frame:
        """Return what was stored since the last call. It is sent with the next cell, because a
        separate frame costs time."""
        with self._lock:
            cells, self._stored = self._stored, []
            received, self._received = self._received, 0
        return {"stored": cells, "heard": received} if cells or received else {}
