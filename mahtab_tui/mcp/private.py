"""The server's own worker, started when it is first needed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import anyio

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.kernel.base import Kernel, KernelError, KernelInfo, KernelState, NoHost
from mahtab_tui.kernel.bounded import BoundedCell
from mahtab_tui.kernel.code_help import Detail
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.results import not_restored, pictures
from mahtab_tui.kernel.values import CellResult, OutputKind, Status
from mahtab_tui.mcp.journal import Journal
from mahtab_tui.mcp.place import Evaluation, PlaceError, PlaceInfo, Report

BEAT = 1.0
"""Seconds between two reports on a running cell."""

LATE = 20_000
"""Characters of output between cells that are kept."""

T = TypeVar("T")


class WorkerHost(NoHost):
    """A host without a user: output between cells is kept for the next answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._late = ""

    def late_output(self, text: str) -> None:
        with self._lock:
            self._late = (self._late + text)[-LATE:]

    def take_late(self) -> str:
        """Return and clear the output between cells."""
        with self._lock:
            late, self._late = self._late, ""
        return late

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        if name in ("quit", "input"):  # nobody types a line, as at the end of a file
            return None
        raise RuntimeError(f"{name}() needs a user or a model, and this Python has neither.")


class OutputProgress:
    """The output of a running cell, for progress reports."""

    def __init__(self) -> None:
        self._characters = 0
        self._last_line = ""

    def add(self, kind: OutputKind, text: str) -> None:
        """Add output; called on the kernel's thread."""
        self._characters += len(text)
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            self._last_line = lines[-1].strip()[:200]

    def sentence(self, seconds: float) -> str:
        said = f"; last line: {self._last_line}" if self._last_line else ""
        return f"running for {seconds:.0f} s, {self._characters:,} characters printed{said}"


class PrivatePlace:
    """`Place` with a `ProcessKernel`; cells run one after the other."""

    def __init__(self, python: str | None, cwd: str, color: bool, journal: Journal, secrets: Secrets | None = None) -> None:
        self._host = WorkerHost()
        self._kernel: Kernel = MaskedKernel(ProcessKernel(python, cwd, color=color), secrets or Secrets())
        self._journal = journal
        self._turn = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._began: float | None = None
        self._cells = 0
        self._busy = 0.0

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Evaluation:
        async with self._turn:
            await self.kernel()
            self._cells += 1
            number, late = self._cells, self._host.take_late()
            printed = OutputProgress()
            bounded = BoundedCell(self._kernel, timeout, may_kill=True)

            def on_output(kind: OutputKind, text: str) -> None:
                printed.add(kind, text)
                self._journal.output(kind, text)

            def work() -> CellResult:
                self._journal.code(number, "agent", code)
                result = bounded.run(lambda: self._kernel.execute(code, cell=number, on_output=on_output))
                self._journal.end(number, result.status, result.duration)
                return result

            try:
                result = await self._attend(work, bounded.stop, printed, report)
            except KernelError as error:
                raise PlaceError(str(error)) from None
            self._busy += result.duration
            if result.status in (Status.KILLED, Status.DIED):
                self._began = time.monotonic()
            return Evaluation(result, bounded.timed_out, late=late, pictures=pictures(result))

    async def reset(self, report: Report) -> tuple[int, int]:
        old = await self.kernel()
        await self._do(self._kernel.reset)
        self._began = time.monotonic()
        return old.pid, self._kernel.info().pid

    async def undo(self, cell: int | None, report: Report) -> str:
        async with self._turn:
            await self.kernel()
            return await self._do(lambda: self._undo(cell))

    def _undo(self, cell: int | None) -> str:
        steps = [step.cell for step in self._kernel.undo_steps()]
        if not steps:
            raise KernelError("There is nothing to undo.")
        first = steps[-1] if cell is None else cell
        restoration = self._kernel.undo(first)
        return f"The namespace is as it was before cell {first} ran. {not_restored(restoration)}".strip()

    async def activate(self, python: str | None, folder: str | None, report: Report) -> KernelInfo:
        await self.kernel()
        if python is not None:
            await self._do(lambda: self._kernel.activate(python))
            self._began = time.monotonic()
        if folder is not None:
            await self._do(lambda: self._kernel.change_directory(folder))
        return self._kernel.info()

    async def permit(self, action: str, report: Report) -> None:
        """Allow everything: it is the agent's own worker."""

    async def renewed(self) -> None:
        if self._began is None:
            return
        code = "__import__('importlib').invalidate_caches()"
        async with self._turn:
            await asyncio.to_thread(self._kernel.execute, code, cell=0, on_output=lambda kind, text: None)

    async def contents(self, *, seen: bool) -> PlaceInfo:
        info = await self.kernel()
        variables = await self._do(self._kernel.variables)
        alive = time.monotonic() - (self._began or 0.0)
        return PlaceInfo(info, variables, self._cells, self._busy, alive)

    async def kernel(self) -> KernelInfo:
        async with self._starting:
            if self._began is None:
                with anyio.CancelScope(shield=True):  # the starting thread cannot be cancelled; the next call would start a second worker
                    await self._do(lambda: self._kernel.start(self._host))
                    self._began = time.monotonic()
        if self._kernel.info().state is KernelState.STARTING:
            await self._do(self._kernel.variables)  # waits for the replacement of a dead worker
        return self._kernel.info()

    async def inspect(self, name: str) -> Detail:
        await self.kernel()
        return await self._do(lambda: self._kernel.inspect(name))

    async def close(self) -> None:
        await asyncio.to_thread(self._kernel.close)

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except KernelError as error:
            raise PlaceError(str(error)) from None

    async def _attend(self, work: Callable[[], CellResult], stop: Callable[[], Any], printed: OutputProgress, report: Report) -> CellResult:
        """Do `work` on a thread and report on it. If cancelled, stop it and wait for its end."""
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
