"""What a cell of an in-process kernel finds changed in this process while it runs."""

from __future__ import annotations

import io
import queue
import sys
import threading
from collections.abc import Callable
from typing import TextIO, cast

from mahtab_tui.kernel.chunks import Chunks
from mahtab_tui.system import start_thread
from mahtab_tui.worker.cells.console import Replacement
from mahtab_tui.worker.values.objects import MISSING

DRAIN_CHECK_S = 0.1
"""Seconds between looks at whether the thread that passes output on still runs."""


class InProcessEnvironment:
    """Replaces attributes of modules while a cell runs: the streams, `input` and others."""

    def __init__(self, output: CellOutput, replacements: list[Replacement]) -> None:
        """Create it on the thread that runs the cells.

        Args:
            output: Gets what the cells print.
            replacements: What to replace besides the streams.
        """
        self._output = output
        self._replacements = replacements
        self._thread_id = threading.get_ident()

    def enter(self) -> list[Replacement]:
        """Replace the attributes, and return the original ones, with `MISSING` for those that modules
        do not have."""
        streams = [Replacement(sys, name, self._stream(name)) for name in ("stdout", "stderr")]
        originals: list[Replacement] = []
        for module, name, value in (*self._replacements, *streams):
            originals.append(Replacement(module, name, getattr(module, name, MISSING)))
            setattr(module, name, value)
        return originals

    def repair_builtins(self) -> None: ...

    def leave(self, originals: list[Replacement], nested: bool) -> None:
        """Put the original attributes back."""
        for module, name, value in originals:
            if value is not MISSING:
                setattr(module, name, value)
            elif hasattr(module, name):
                delattr(module, name)
        self._output.drain()

    def leave_child(self, error: BaseException | None) -> None: ...

    def _stream(self, name: str) -> ThreadOutput:
        # `TextIO` is no base class of the streams of `io`, but they have its methods.
        return ThreadOutput(self._thread_id, cast("TextIO", self._output), getattr(sys, name))


class ThreadOutput(io.TextIOBase):
    """A stream that captures the writes of one thread, and passes on those of others."""

    def __init__(self, thread_id: int, captured: TextIO, original: TextIO) -> None:
        """Create a stream.

        Args:
            thread_id: The identifier of the thread.
            captured: Where its writes go.
            original: Where those of other threads go.
        """
        super().__init__()
        self._thread_id = thread_id
        self._captured = captured
        self._original = original

    def write(self, text: str) -> int:
        return self._target().write(text)

    def flush(self) -> None:
        self._target().flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._original.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def _target(self) -> TextIO:
        if threading.get_ident() == self._thread_id:
            return self._captured
        return self._original


class CellOutput(io.TextIOBase):
    """Joins small pieces of output, and passes them on from a thread of its own: on the thread of
    the cells, what the listener prints would be taken for their output."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        super().__init__()
        self._on_text = on_text
        self._pieces: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        """Output; an event is set once everything before it is passed on; None marks the end."""
        self._thread = start_thread("mahtab-kernel-output", self._pass_on)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._pieces.put(text)
        return len(text)

    def drain(self) -> None:
        """Wait until everything written so far is passed on, or nothing is passed on any more because
        the listener has failed."""
        drained = threading.Event()
        self._pieces.put(drained)
        while not drained.wait(DRAIN_CHECK_S) and self._thread.is_alive():
            pass

    def end(self) -> None:
        """Pass on everything, and end the thread."""
        self._pieces.put(None)
        self._thread.join()

    def _pass_on(self) -> None:
        """Runs on the thread."""
        chunks = Chunks(self._on_text)
        while True:
            try:
                piece = self._pieces.get(timeout=chunks.wait())
            except queue.Empty:
                # The pending output has waited long enough.
                chunks.flush()
                continue
            if isinstance(piece, str):
                chunks.add(piece)
                continue
            chunks.flush()
            if piece is None:
                return
            piece.set()
