"""A worker of the server's own, started when it is first needed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.kernel.base import CellResult, Detail, KernelError, KernelInfo, KernelState, OutputKind, Status
from mahtab_tui.kernel.bounded import BoundedCell
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.results import pictures
from mahtab_tui.mcp.journal import Journal
from mahtab_tui.mcp.place import Done, Inside, PlaceError, Report
from mahtab_tui.mcp.worker_host import Printed, WorkerHost

BEAT = 1.0
"""Seconds between two reports on a cell that runs."""

T = TypeVar("T")


class PrivatePlace:
    """`Place` over a `ProcessKernel`; cells run one after the other."""

    def __init__(self, python: str | None, cwd: str, color: bool, journal: Journal, secrets: Secrets | None = None) -> None:
        self._host = WorkerHost()
        self._kernel = MaskedKernel(ProcessKernel(python, cwd, color=color), secrets or Secrets())
        self._journal = journal
        self._turn = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._began: float | None = None
        self._cells = 0
        self._busy = 0.0

    async def evaluate(self, code: str, timeout: float | None, report: Report) -> Done:
        async with self._turn:
            before = await self.kernel()
            self._cells += 1
            number, late = self._cells, self._host.take_late()
            printed = Printed()
            bounded = BoundedCell(self._kernel, timeout, may_kill=True)

            def on_output(kind: OutputKind, text: str) -> None:
                printed.add(kind, text)
                self._journal.output(kind, text)

            def work() -> CellResult:
                self._journal.code(number, "agent", code)
                result = bounded.run(lambda: self._kernel.execute(code, cell=number, origin="user", on_output=on_output))
                self._journal.end(number, result.status, result.duration)
                return result

            try:
                result = await self._attend(work, bounded.stop, printed, report)
            except KernelError as error:
                raise PlaceError(str(error)) from None
            self._busy += result.duration
            over = result.status in (Status.KILLED, Status.DIED)
            if over:
                self._began = time.monotonic()
            return Done(result, before.pid if over else self._kernel.info().pid, bounded.timed_out, late=late, pictures=pictures(result))

    async def reset(self, report: Report) -> tuple[int, int]:
        old = await self.kernel()
        await self._do(self._kernel.reset)
        self._began = time.monotonic()
        return old.pid, self._kernel.info().pid

    async def activate(self, python: str | None, folder: str | None, report: Report) -> KernelInfo:
        await self.kernel()
        if python is not None:
            await self._do(lambda: self._kernel.activate(python))
            self._began = time.monotonic()
        if folder is not None:
            await self._do(lambda: self._kernel.change_directory(folder))
        return self._kernel.info()

    async def permit(self, action: str, report: Report) -> None:
        """It is the agent's own worker."""

    async def renewed(self) -> None:
        if self._began is None:
            return
        code = "__import__('importlib').invalidate_caches()"
        async with self._turn:
            await asyncio.to_thread(self._kernel.execute, code, cell=0, origin="user", on_output=lambda kind, text: None)

    async def inside(self, *, seen: bool) -> Inside:
        info = await self.kernel()
        variables = await self._do(self._kernel.variables)
        alive = time.monotonic() - (self._began or 0.0)
        return Inside(info, variables, self._cells, self._busy, alive)

    async def kernel(self) -> KernelInfo:
        async with self._starting:
            if self._began is None:
                with anyio.CancelScope(shield=True):  # the thread that starts it cannot be cancelled: the next call would start another one
                    await self._do(lambda: self._kernel.start(self._host))
                    self._began = time.monotonic()
        if self._kernel.info().state is KernelState.STARTING:
            await self._do(self._kernel.variables)  # waits for the one that takes a dead one's place
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

    async def _attend(self, work: Callable[[], CellResult], stop: Callable[[], Any], printed: Printed, report: Report) -> CellResult:
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
