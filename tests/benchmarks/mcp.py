"""The MCP server's figures, through the official client over STDIO."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from mcp import Client, StdioServerParameters

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.sharing import ShareServer
from mahtab_tui.settings.model import load_settings
from tests.benchmarks.screen import BARE, OURS, key_echo
from tests.benchmarks.table import Row, median, p99
from tests.e2e.terminal import Terminal
from tests.mcp.clients import text_of

MINIMAL = ["-m", "tests.benchmarks.minimal_mcp"]
PRIVATE = ["-m", "mahtab_tui", "mcp"]
SHARED = [*PRIVATE, "--attach"]
ROOT = Path(__file__).parents[2]

EVALS = 300
STARTS = 7
AGENTS, EACH = 10, 100


@contextlib.asynccontextmanager
async def connected(
    args: list[str], cwd: Path | None = None, env: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    async with Client(
        StdioServerParameters(command=sys.executable, args=args, env=environment, cwd=cwd),
        mode="legacy",
    ) as client:
        yield client


async def starts(args: list[str]) -> list[float]:
    """Milliseconds until `initialize` is answered."""
    took = []
    for _ in range(STARTS):
        start = time.perf_counter()
        async with connected(args):
            took.append((time.perf_counter() - start) * 1000)
    return took


async def evals(args: list[str]) -> list[float]:
    """Milliseconds of ``1+1``, the worker's start left out."""
    took = []
    async with connected(args) as client:
        await client.call_tool("eval", {"code": "1+1"})
        for _ in range(EVALS):
            start = time.perf_counter()
            await client.call_tool("eval", {"code": "1+1"})
            took.append((time.perf_counter() - start) * 1000)
    return took


async def many_agents() -> tuple[float, int]:
    """Seconds for all evals of all agents, and how many answers were wrong or missing."""
    wrong = AGENTS * EACH

    async def work(client: Client, number: int) -> None:
        nonlocal wrong
        for turn in range(EACH):
            result = await client.call_tool(
                "eval", {"code": f"seen.append(({number}, {turn})); ({number}, {turn})"}
            )
            wrong -= text_of(result).startswith(f"({number}, {turn})")

    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(SHARED)) for _ in range(AGENTS)]
        await clients[0].call_tool("eval", {"code": "seen = []"})
        start = time.perf_counter()
        await asyncio.gather(*(work(client, number) for number, client in enumerate(clients)))
        took = time.perf_counter() - start
        ended = await clients[0].call_tool(
            "eval", {"code": "len(seen) - len(set(seen)), len(seen)"}
        )
        if text_of(ended) != f"(0, {AGENTS * EACH})":
            wrong = max(wrong, 1)
    return took, wrong


@contextlib.contextmanager
def session() -> Iterator[None]:
    """A session that agents can join, in a home and a folder of its own."""
    before, home = (os.environ["HOME"], Path.cwd()), tempfile.mkdtemp()
    os.environ["HOME"] = home
    os.chdir(home)
    opened = Session(
        load_settings(model="demo", approval="auto"),
        ProcessKernel(),
        HeadlessFrontend(),
        name="bench",
    )
    server = ShareServer(opened, Path.cwd())
    opened.start()
    try:
        yield
    finally:
        server.close()
        opened.close()
        os.chdir(before[1])
        os.environ["HOME"] = before[0]
        shutil.rmtree(home)


def _key_echo() -> Row:
    with tempfile.TemporaryDirectory() as home:
        env, folder = {"HOME": home}, Path(home, "project")
        folder.mkdir()
        with (
            Terminal([*OURS, "demo", "--approval", "auto"], cwd=folder, env=env) as terminal,
            Terminal(BARE, env=env) as bare,
        ):
            terminal.wait("idle")
            bare.wait("ready to type")
            command = [sys.executable, "-m", "tests.benchmarks.busy_agents"]
            environment = {**os.environ, **env, "PYTHONPATH": str(ROOT)}
            with subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as agents:
                assert agents.stdin is not None
                assert agents.stdout is not None
                while not select.select([agents.stdout], [], [], 0)[0]:
                    terminal.pump(0.01)
                terminal.drawn = bare.drawn = False
                echo = key_echo(terminal)
                enough = threading.Event()
                draining = threading.Thread(target=_drain, args=(terminal, enough))
                draining.start()
                baseline = key_echo(bare)
                agents.stdin.close()
                agents.wait()
                enough.set()
                draining.join()
    note = f"p99 {p99(echo):.0f} ms; bare app beside the same agents: p99 {p99(baseline):.0f} ms"
    return Row(
        f"MCP: key echo while {AGENTS} agents work",
        median(echo),
        "ms",
        "median <= 1.5 x, p99 <= 50 ms",
        median(baseline),
        note,
    )


def _drain(terminal: Terminal, enough: threading.Event) -> None:
    while not enough.is_set():
        terminal.pump(0.01)


def rows() -> Iterator[Row]:
    """Start, a round trip in both modes, many agents at once, keys beside them."""
    minimal = median(asyncio.run(starts(MINIMAL)))
    yield Row(
        "MCP: start until initialize is answered",
        median(asyncio.run(starts(PRIVATE))),
        "ms",
        "<= 1.5 x the SDK's smallest server",
        minimal,
    )
    bare = median(asyncio.run(evals(MINIMAL)))
    took = asyncio.run(evals(PRIVATE))
    yield Row(
        "MCP: eval 1+1, private",
        median(took),
        "ms",
        "<= 3 ms",
        bare,
        f"the smallest server's tool; p99 {p99(took):.1f} ms",
    )
    with session():
        took = asyncio.run(evals(SHARED))
        yield Row(
            "MCP: eval 1+1, shared", median(took), "ms", "<= 6 ms", bare, f"p99 {p99(took):.1f} ms"
        )
        seconds, wrong = asyncio.run(many_agents())
        yield Row(
            f"MCP: {AGENTS} agents x {EACH} evals, shared",
            seconds * 1000 / (AGENTS * EACH),
            "ms",
            "each; none lost or mixed up",
            None,
            f"{wrong} wrong",
        )
    yield _key_echo()
