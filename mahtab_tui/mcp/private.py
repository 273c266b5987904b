"""A worker of the server's own, started when it is first needed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from mahtab_tui.kernel.base import CellResult, KernelError, KernelInfo, OutputKind
from mahtab_tui.kernel.bounded import BoundedCell
from mahtab_tui.kernel.pictures import pictures
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.mcp.place import Done, PlaceError, Report

BEAT = 1.0
"""Seconds between two reports on a cell that runs."""

Worked = tuple[CellResult, list[bytes]]
"""A cell's end, and the pictures that it made."""

LATE = 20_000
"""Characters that are kept of what is printed between cells."""


class WorkerHost:
    """`kernel.base.KernelHost` without a person: what is printed between cells is kept for the next answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._late = ""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """A cell's result says what became of its kernel."""

    def late_output(self, text: str) -> None:
        with self._lock:
            self._late = (self._late + text)[-LATE:]

    def take_late(self) -> str:
        """What was printed between cells since it was last taken."""
        with self._lock:
            late, self._late = self._late, ""
        return late

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        if name == "quit":
            return None
        raise RuntimeError(f"{name}() needs a person or a model, and this Python has neither.")

    def call_cancelled(self, name: str) -> None:
        """Calls end at once."""


class Printed:
    """What a running cell has printed, for whoever looks in between."""

    def __init__(self) -> None:
        self._characters = 0
        self._last_line = ""

    def add(self, kind: OutputKind, text: str) -> None:
        """Called on the kernel's thread."""
        self._characters += len(text)
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            self._last_line = lines[-1].strip()[:200]

    def sentence(self, seconds: float) -> str:
        said = f"; last line: {self._last_line}" if self._last_line else ""
        return f"running for {seconds:.0f} s, {self._characters:,} characters printed{said}"


class PrivatePlace:
    """`Place` over a `ProcessKernel`; cells run one after the other."""

    def __init__(self, python: str | None, cwd: str, color: bool) -> None:
        self._host = WorkerHost()
        self._kernel = ProcessKernel(self._host, python, cwd, color=color)
        self._turn = asyncio.Lock()
        self._started = False
        self._cells = 0

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Done:
        async with self._turn:
            await self._start()
            self._cells += 1
            number, worker, late = self._cells, self._kernel.info().pid, self._host.take_late()
            printed = Printed()
            bounded = BoundedCell(self._kernel, timeout, may_kill=True)

            def work() -> Worked:
                result = bounded.run(lambda: self._kernel.execute(code, cell=number, origin="user", on_output=printed.add))
                return result, pictures(self._kernel, code, result)

            try:
                result, drawn = await self._attend(work, bounded.stop, printed, report)
            except KernelError as error:
                raise PlaceError(str(error)) from None
            return Done(result, worker, bounded.timed_out, late=late, pictures=drawn)

    async def close(self) -> None:
        await asyncio.to_thread(self._kernel.close)

    async def _start(self) -> None:
        if self._started:
            return
        try:
            await asyncio.to_thread(self._kernel.start)
        except KernelError as error:
            raise PlaceError(str(error)) from None
        self._started = True

    async def _attend(self, work: Callable[[], Worked], stop: Callable[[], None], printed: Printed, report: Report) -> Worked:
        """Do `work` on a thread and report on it; where this is cancelled, stop it and wait for its end."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, work)
        start = loop.time()
        try:
            while not (await asyncio.wait({future}, timeout=BEAT))[0]:
                seconds = loop.time() - start
                await report(seconds, printed.sentence(seconds))
        except BaseException:
            stop()
            with anyio.CancelScope(shield=True), contextlib.suppress(KernelError):
                await future
            raise
        return await future
