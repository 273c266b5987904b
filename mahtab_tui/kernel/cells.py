"""The host's side of a running cell."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, cast, get_args

from mahtab_tui.kernel.base import OnDisplay, OnOutput
from mahtab_tui.kernel.output import TerminalOutput
from mahtab_tui.kernel.protocol import CellEnd
from mahtab_tui.kernel.values import (
    CellResult,
    Change,
    Display,
    Mime,
    OutputKind,
    Status,
    TracebackFrame,
)
from mahtab_tui.kernel.worker.capture import OutputLimitError

_KEY = re.compile(r"[0-9a-f]{16}")
"""The key of a displayed value, as the kernel makes it."""

DISPLAYED = 100_000_000
"""Characters of rich display that are kept of a cell; of further values only the text is kept."""


class RunningCell:
    """Collects a cell's output, passes it on, and makes its result. Used by the kernel's reader
    thread."""

    def __init__(
        self, cell: int, on_output: OnOutput, limit: int | None, on_display: OnDisplay | None = None
    ) -> None:
        self.cell = cell
        self.result: Future[CellResult] = Future()
        self.seal = ""
        """Sent with the code, and expected with its end; empty for a cell that an earlier host has
        begun."""
        self.over_limit = False
        """Whether more was printed outside Python's streams (by a child process or C code) than the
        cell may print."""
        self.interrupting = False
        """Whether the kernel is being told to stop it."""
        self._on_output = on_output
        self._on_display = on_display
        self._displays: list[Display] = []
        self._room = DISPLAYED
        self._left = limit
        self._limit = limit or 0
        self._output = TerminalOutput()
        self._start = time.monotonic()
        self._listener_error: BaseException | None = None

    def printed(self, text: str) -> None:
        if self._left is not None:
            self.over_limit = self.over_limit or len(text) > self._left
            text = text[: self._left]
            self._left -= len(text)
        self._add("stdout", text)

    def shown(self, frame: Mapping[str, Any]) -> None:
        mime, data, text = frame.get("mime"), frame.get("data"), str(frame.get("text"))
        if mime not in get_args(Mime) or not isinstance(data, str):
            self._add("value", text)
            return
        value = frame.get("value")
        display = Display(
            cast(Mime, mime),
            data,
            text,
            value if isinstance(value, str) and _KEY.fullmatch(value) else "",
        )
        self._room -= len(data)
        if self._room < 0:
            self._add("value", text)
            return
        self._displays.append(display)
        if (on_display := self._on_display) is not None:
            self._tell(lambda: on_display(display))
        self._add("display", text)

    @property
    def seconds(self) -> float:
        """Since it began, as far as the host knows."""
        return time.monotonic() - self._start

    def done(self, done: CellEnd) -> None:
        """Finish the cell as the kernel reports."""
        status, pieces, frames = (
            done.status,
            done.pieces,
            tuple(TracebackFrame(*fields) for fields in done.frames),
        )
        # The cell may have ended before its interrupt came, for example if a child was interrupted
        # first.
        if self.over_limit and status is not Status.ERROR:
            status, frames = Status.ERROR, ()
            pieces = (
                ("traceback", f"{OutputLimitError.__name__}: {OutputLimitError(self._limit)}\n"),
            )
        for kind, text in pieces:
            self._add(kind, text)
        self._finish(status, done.duration, done.changes, "", frames, done.needs)

    def lost(self, status: Status, how: str) -> None:
        """Finish the cell because the kernel has ended."""
        self._finish(status, self.seconds, (), how)

    def _add(self, kind: OutputKind, text: str) -> None:
        if not text:
            return
        self._output.add(kind, text)
        self._tell(lambda: self._on_output(kind, text))

    def _tell(self, tell: Callable[[], None]) -> None:
        if self._listener_error is not None:
            return
        try:
            tell()
        except (
            BaseException
        ) as error:  # raised by the caller's function; the waiting caller raises it
            self._listener_error = error

    def _finish(
        self,
        status: Status,
        duration: float,
        changed: tuple[Change, ...],
        detail: str,
        frames: tuple[TracebackFrame, ...] = (),
        needs: str = "",
    ) -> None:
        if self._listener_error is not None:
            self.result.set_exception(self._listener_error)
            return
        text, kinds = self._output.text()
        self.result.set_result(
            CellResult(
                self.cell,
                status,
                text,
                kinds,
                duration,
                changed,
                detail,
                tuple(self._displays),
                frames,
                self._output.rewritten,
                needs,
            )
        )


class RunningCells:
    """The cells that run in a kernel process, the innermost last. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells: list[RunningCell] = []
        self._retold: list[RunningCell] | None = None
        """While cells of an earlier host are told again: those of them that have not ended."""

    def __iter__(self) -> Iterator[RunningCell]:
        with self._lock:
            return iter(self._cells[:])

    def add(self, cell: RunningCell) -> None:
        with self._lock:
            self._cells.append(cell)

    def add_retold(self, cell: RunningCell) -> None:
        """A cell began under an earlier host, before those that this one has begun."""
        with self._lock:
            assert self._retold is not None
            self._cells.insert(len(self._retold), cell)
            self._retold.append(cell)

    def remove(self, cell: RunningCell) -> None:
        with self._lock:
            self._cells = [other for other in self._cells if other is not cell]
            if self._retold is not None:
                self._retold = [other for other in self._retold if other is not cell]

    def innermost(self) -> RunningCell | None:
        """The cell that prints now."""
        with self._lock:
            cells = self._cells if self._retold is None else self._retold
            return cells[-1] if cells else None

    @contextmanager
    def retelling(self) -> Iterator[None]:
        """Within this context, output is that of an earlier host's cells."""
        self._retold = []
        try:
            yield
        finally:
            self._retold = None
