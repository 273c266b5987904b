"""Figures of sandboxes alone: start, a turn there and back, memory, a large text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter
from typing import Any

from mahtab_tui.sandbox.process import ProcessSandbox, ProcessSandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from tests.benchmarks.table import Row, since, timed_async

_LINE = "x" * 79 + "\n"
_LARGE = 100 * 2**20


class QuietNode:
    async def call(self, name: str, args: dict[str, Any]) -> Any:
        raise RuntimeError(name)

    def send(self, name: str, args: dict[str, Any]) -> None: ...


def rows() -> list[Row]:
    async def collect() -> list[Row]:
        sandboxes = ProcessSandboxes()
        try:
            return [row async for row in _rows(sandboxes)]
        finally:
            await sandboxes.close()

    return asyncio.run(collect())


async def _rows(sandboxes: ProcessSandboxes) -> AsyncIterator[Row]:
    small = SearchedText.root("text")

    async def start(text: SearchedText = small) -> ProcessSandbox:
        return await sandboxes.start(text, QuietNode())

    async def turn(sandbox: ProcessSandbox, code: str) -> str:
        return (await sandbox.run(code, 60.0)).output

    yield Row("fork server and its first sandbox", await timed_async(start))
    starts = []
    closes = []
    for _ in range(40):
        start_time = perf_counter()
        sandbox = await start()
        starts.append(since(start_time))
        closes += await timed_async(sandbox.close)
    yield Row("a sandbox: start, lock-down, probe", starts, "<= 9 ms")
    yield Row("closing it", closes)
    sandbox = await start()
    turns = await timed_async(lambda: turn(sandbox, "1"), 300)
    yield Row("a turn there and back", turns, "<= 2 ms")
    pid = int(await turn(sandbox, "import os; os.getpid()"))
    private = _memory(pid, "smaps_rollup", "Private_Dirty") / 1_024
    yield Row("a sandbox's own memory", private, unit="MiB")

    large = SearchedText.root(_LINE * (_LARGE // len(_LINE)))
    start_time = perf_counter()
    sandbox = await start(large)
    pid = int(await turn(sandbox, "import os; hits = grep('y'); os.getpid()"))
    yield Row("100 MB: start and a search through all of it", since(start_time), "<= 1 s")
    peak_share = _memory(pid, "status", "VmHWM") * 1_024 / _LARGE
    yield Row("100 MB: most memory meanwhile", peak_share, "<= 4 x", unit="x")


def _memory(pid: int, file: str, field: str) -> int:
    """Read a value that the system reports of a process, in KiB."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))
