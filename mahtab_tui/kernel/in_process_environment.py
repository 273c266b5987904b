"""Replaces streams and functions of the caller's own process while a cell runs, and restores them
after it."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from mahtab_tui.kernel.output import DELAY
from mahtab_tui.kernel.worker.capture import LimitedOutput
from mahtab_tui.kernel.worker.console import Replacement

_STREAMS = ("stdout", "stderr")


class ThreadOutput(io.TextIOBase):
    """A stream that takes what one thread writes, and passes on what other threads write to the
    original stream."""

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
    """Joins a cell's output and hands it on from its own thread, so that what the listener prints
    is not taken for the cell's."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        super().__init__()
        self._hand_on = hand_on
        self._changed = threading.Condition()
        self._pending: list[str] = []
        self._handing = False
        self._hurry = False
        self._closing = False
        self._ticker = threading.Thread(target=self._tick, name="mahtab-kernel-output", daemon=True)
        self._ticker.start()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._changed:
            self._pending.append(text)
            self._changed.notify_all()
        return len(text)

    def drain(self) -> None:
        """Wait until everything has been handed on."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._pending and not self._handing)
            self._hurry = False

    def end(self) -> None:
        """Note that no more output will come."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._ticker.join()

    def _tick(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closing)
                text, self._pending = "".join(self._pending), []
                self._handing = True
            if text:
                self._hand_on(text)
            with self._changed:
                self._handing = False
                self._changed.notify_all()
                if self._closing:
                    return
                self._changed.wait_for(lambda: self._hurry or self._closing, DELAY)


class BorrowedStage(NamedTuple):
    """The original streams and functions, and the cell's limited output."""

    before: list[Replacement]
    limited: LimitedOutput | None


class InProcessEnvironment:
    """Installs streams and functions that ask the user while a cell runs. Used on the kernel's
    thread."""

    def __init__(self, output: CellOutput, replacements: list[Replacement]) -> None:
        self._output: Any = output
        self._replacements = replacements
        self._thread = threading.get_ident()

    def enter(self, limit: int | None) -> BorrowedStage:
        limited = None if limit is None else LimitedOutput(self._output, limit)
        mine: Any = limited or self._output
        here = [*self._replacements]
        for name in _STREAMS:
            here.append(
                Replacement(sys, name, ThreadOutput(self._thread, mine, getattr(sys, name)))
            )
        before = [
            Replacement(module, name, getattr(module, name))
            for module, name, _ in here
            if hasattr(module, name)
        ]
        for replacement in here:
            setattr(*replacement)
        return BorrowedStage(before, limited)

    def leave(self, stage: BorrowedStage, nested: bool) -> None:
        for replacement in stage.before:
            setattr(*replacement)
        self._output.drain()

    def leave_child(self, error: BaseException | None) -> None:
        """Do nothing: a child that a cell forks is the caller's responsibility, as in any
        program."""
