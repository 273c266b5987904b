"""The figures of sandboxes by themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from mahtab_tui.sandbox.base import Text
from mahtab_tui.sandbox.process import ProcessSandbox, ProcessSandboxes
from tests.benchmarks.table import Row, median

_LINE = "x" * 79 + "\n"
_LARGE = 100 * 2**20
_SECONDS = 60.0


class QuietNode:
    """A node that wants nothing."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        raise RuntimeError(name)

    def send(self, name: str, args: dict[str, Any]) -> None: ...


def rows() -> Iterator[Row]:
    """Start of the server and of a sandbox, a turn there and back, memory, a large text."""
    yield from asyncio.run(_rows())


async def _rows() -> list[Row]:
    sandboxes, small = ProcessSandboxes(), Text.root("text")
    found: list[Row] = []

    async def start(text: Text = small) -> ProcessSandbox:
        return await sandboxes.start(text, QuietNode())

    async def turn(sandbox: ProcessSandbox, code: str) -> str:
        return (await sandbox.run(code, _SECONDS)).output

    async def each_closed(count: int) -> tuple[list[float], list[float]]:
        starts, closes = [], []
        for _ in range(count):
            begun = time.perf_counter()
            sandbox = await start()
            starts.append((time.perf_counter() - begun) * 1_000)
            closes.append(await _milliseconds(sandbox.close))
        return starts, closes

    try:
        found.append(Row("fork server and its first sandbox", await _milliseconds(start), "ms", ""))
        starts, closes = await each_closed(40)
        found.append(Row("a sandbox: start, lock-down, probe", median(starts), "ms", "<= 9 ms"))
        found.append(Row("closing it", median(closes), "ms", ""))
        sandbox = await start()
        found.append(
            Row(
                "a turn there and back",
                median([await _milliseconds(lambda: turn(sandbox, "1")) for _ in range(300)]),
                "ms",
                "<= 2 ms",
            )
        )
        pid = int(await turn(sandbox, "import os; os.getpid()"))
        found.append(
            Row(
                "a sandbox's own memory",
                _memory(pid, "smaps_rollup", "Private_Dirty") / 1_024,
                "MiB",
                "",
            )
        )

        large = Text.root(_LINE * (_LARGE // len(_LINE)))
        begun = time.perf_counter()
        sandbox = await start(large)
        pid = int(await turn(sandbox, "import os; hits = grep('y'); os.getpid()"))
        found.append(
            Row(
                "100 MB: start and a search through all of it",
                (time.perf_counter() - begun) * 1_000,
                "ms",
                "<= 1 s",
            )
        )
        found.append(
            Row(
                "100 MB: most memory meanwhile",
                _memory(pid, "status", "VmHWM") * 1_024 / _LARGE,
                "x",
                "<= 4 x",
            )
        )
    finally:
        await sandboxes.close()
    return found


async def _milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1_000


def _memory(pid: int, file: str, field: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))
