"""The host's part in a kernel that may outlive it: what an earlier host has left, and what the
kernel need not tell to a later one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from mahtab_tui.kernel.base import KernelError, OnDisplay, OnOutput
from mahtab_tui.kernel.requests import NO_ANSWER
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.kernel.worker.frames import Frame, encode
from mahtab_tui.system.waiting import result_of

if TYPE_CHECKING:
    from mahtab_tui.kernel.reattach import Kept, Story, StoryCells
    from mahtab_tui.kernel.seekable_output import SeekableOutput

TAKEN = "The other terminal now has the kernel and its variables."


class DetachState:
    """Used by any thread, but `hear`, `ended` and `printed_outside` only by the one that reads."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.output: SeekableOutput | None = None
        """The kernel's output if it can outlive this host."""
        self._send = send
        self._lock = threading.Lock()
        self._story: Future[Story] = Future()
        self._going_on: StoryCells = {}
        self._stored: list[int] = []
        """Cells that are stored, and up to where output outside cells is, if that is not told
        yet."""
        self._heard = 0
        self._ends: dict[int, int] = {}
        """Offset at which the output of a cell ends that is not stored yet, by cell number."""

    @property
    def has_heard(self) -> bool:
        """Whether the kernel has told what happened before this host came."""
        return self._story.done()

    def hear(self, story: Story, cells: StoryCells) -> None:
        self._going_on = dict(cells)
        self._story.set_result(story)

    def end(self, how: str) -> None:
        """No more is to be heard."""
        if not self._story.done():
            self._story.set_exception(KernelError(how))

    def go_on(self, cell: int, on_output: OnOutput, on_display: OnDisplay) -> CellResult | None:
        """Wait for the end of a cell that began under an earlier host; it may have ended meanwhile.
        None if the kernel does not know it."""
        with contextlib.suppress(KernelError):
            result_of(self._story)
        going_on = self._going_on.pop(cell, None)
        if going_on is None:
            return None
        running, late = going_on
        late.listen(on_output, on_display)
        return result_of(running.result)

    def kept(self, seconds: float) -> Kept:
        """Return the earlier host's report on the saved variables. Raises `KernelError` if it does
        not arrive in time."""
        try:
            return self._story.result(seconds).kept
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None

    def ended(self, cell: int) -> None:
        """A cell has ended, and all its output is read."""
        if self.output is not None:
            with self._lock:
                self._ends[cell] = self.output.at

    def printed_outside(self) -> None:
        """Note that output outside cells is stored."""
        if self.output is not None:
            with self._lock:
                self._heard = self.output.at
            self.tell()

    def stored(self, cell: int) -> None:
        """A cell's end and output are stored: the kernel need not tell them to another host."""
        with self._lock:
            if self.output is None:
                return
            self._stored.append(cell)
            end = self._ends.pop(cell, 0)
        if self.output.stored(end):
            self.tell()

    def tell(self) -> None:
        """Tell the kernel what is stored."""
        self._send(encode({"op": "stored", **self.news()}))

    def news(self) -> Frame:
        """Return what is stored, if that is not told yet. It goes with the next cell, because a
        frame of its own costs time."""
        with self._lock:
            cells, self._stored = self._stored, []
            heard, self._heard = self._heard, 0
        return {"stored": cells, "heard": heard} if cells or heard else {}
