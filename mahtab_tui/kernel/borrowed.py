"""What a cell sees of the caller's own process: replaced while it runs, put back after it."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from mahtab_tui.kernel.output import DELAY, Chunks
from mahtab_tui.kernel.worker.capture import LimitedOutput
from mahtab_tui.kernel.worker.console import Replacement

_STREAMS = ("stdout", "stderr")


class ThreadOutput(io.TextIOBase):
    """A stream that takes what one thread writes, and leaves the others' to the stream that was there."""

    def __init__(self, thread: int, mine: TextIO, others: TextIO) -> None:
        super().__init__()
        self._thread = thread
        self._mine = mine
        self._others = others

    def write(self, text: str) -> int:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._others.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def _stream(self) -> TextIO:
        return self._mine if threading.get_ident() == self._thread else self._others


class CellOutput(io.TextIOBase):
    """Joins a cell's prints to chunks; a ticker hands on what is left while the cell computes."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        super().__init__()
        self._chunks = Chunks(hand_on)
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._closing = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="mahtab-kernel-output", daemon=True)
        self._ticker.start()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            self._chunks.add(text)
        self._busy.set()
        return len(text)

    def flush(self) -> None:
        with self._lock:
            self._chunks.flush()

    def end(self) -> None:
        """No more will come."""
        self._closing.set()
        self._busy.set()
        self._ticker.join()

    def _tick(self) -> None:
        while not self._closing.is_set():
            self._busy.wait()
            self._busy.clear()
            self._closing.wait(DELAY)
            self.flush()


class BorrowedStage(NamedTuple):
    """What stood where a cell's streams and functions stand."""

    before: list[Replacement]
    limited: LimitedOutput | None


class BorrowedSurroundings:
    """Streams and functions that ask the person, for the time of a cell. Used on the kernel's thread."""

    def __init__(self, output: CellOutput, replacements: list[Replacement]) -> None:
        self._output: Any = output
        self._replacements = replacements
        self._thread = threading.get_ident()

    def enter(self, limit: int | None) -> BorrowedStage:
        limited = None if limit is None else LimitedOutput(self._output, limit)
        mine: Any = limited or self._output
        here = [*self._replacements]
        for name in _STREAMS:
            here.append(Replacement(sys, name, ThreadOutput(self._thread, mine, getattr(sys, name))))
        before = [Replacement(module, name, getattr(module, name)) for module, name, _ in here if hasattr(module, name)]
        for replacement in here:
            setattr(*replacement)
        return BorrowedStage(before, limited)

    def leave(self, stage: BorrowedStage, nested: bool) -> None:
        for replacement in stage.before:
            setattr(*replacement)
        self._output.flush()

    def leave_child(self, error: BaseException | None) -> None:
        """A child that a cell forks is the caller's own affair, as in any program."""
