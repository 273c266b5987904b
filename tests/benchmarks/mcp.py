"""Figures of the MCP server, through the official client over STDIO: start, a round trip in both
modes, many agents at once, and keys while they work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

from mcp import Client, StdioServerParameters

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.sharing import ShareServer
from mahtab_tui.settings.model import load_settings
from tests.benchmarks.screen import BARE, echo_row, key_echo, our_terminal
from tests.benchmarks.table import Row, since, timed_async
from tests.e2e.terminal import Terminal
from tests.mcp.clients import text_of

_MINIMAL = ["-m", "tests.benchmarks.minimal_mcp"]
_PRIVATE = ["-m", "mahtab_tui", "mcp"]
SHARED = [*_PRIVATE, "--attach"]
ROOT = Path(__file__).parents[2]
AGENTS = 10
EACH = 100


@contextlib.asynccontextmanager
async def connected(args: list[str]) -> AsyncIterator[Client]:
    """Start a server in the working directory and connect to it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = StdioServerParameters(command=sys.executable, args=args, env=environment)
    async with Client(server, mode="legacy") as client:
        yield client


async def _starts(args: list[str]) -> list[float]:
    """Milliseconds until `initialize` is answered."""
    took = []
    for _ in range(7):
        start = perf_counter()
        async with connected(args):
            took.append(since(start))
    return took


async def _evals(args: list[str]) -> list[float]:
    """Milliseconds of ``1+1``, without the worker's start."""
    async with connected(args) as client:

        async def work() -> None:
            await client.call_tool("eval", {"code": "1+1"})

        await work()
        return await timed_async(work, 300)


async def _many_agents() -> tuple[float, list[str]]:
    """Milliseconds for all evals of all agents, and the answers that were wrong, each with the one
    that was expected."""
    wrong_answers: list[str] = []

    async def work(client: Client, number: int) -> None:
        for turn in range(EACH):
            code = f"seen.append(({number}, {turn})); ({number}, {turn})"
            answer = text_of(await client.call_tool("eval", {"code": code}))
            if answer.partition("\n")[0] != f"({number}, {turn})":
                wrong_answers.append(f"({number}, {turn}) expected: {answer!r}")

    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(SHARED)) for _ in range(AGENTS)]
        await clients[0].call_tool("eval", {"code": "seen = []"})
        start = perf_counter()
        await asyncio.gather(*(work(client, number) for number, client in enumerate(clients)))
        took = since(start)
        code = "len(seen) - len(set(seen)), len(seen)"
        total = text_of(await clients[0].call_tool("eval", {"code": code}))
        if total.partition("\n")[0] != f"(0, {AGENTS * EACH})":
            wrong_answers.append(f"(0, {AGENTS * EACH}) expected at the end: {total!r}")
    return took, wrong_answers


@contextlib.contextmanager
def _session() -> Iterator[None]:
    """Open a session that agents can join, in a home folder of its own."""
    with (
        tempfile.TemporaryDirectory() as home,
        patch.dict(os.environ, HOME=home),
        contextlib.chdir(home),
    ):
        settings = load_settings(model="demo", approval="auto")
        opened = Session(settings, ProcessKernel(), HeadlessFrontend(), name="bench")
        server = ShareServer(opened, Path.cwd())
        opened.start()
        server.start()
        try:
            yield
        finally:
            server.close()
            opened.close()


def _key_echo() -> Row:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "project")
        folder.mkdir()
        with (
            our_terminal(home, "--approval", "auto", cwd=folder) as terminal,
            Terminal(BARE, env={"HOME": home}) as bare,
        ):
            bare.wait("ready to type")
            command = [sys.executable, "-m", "tests.benchmarks.busy_agents"]
            environment = {**os.environ, "HOME": home, "PYTHONPATH": str(ROOT)}
            with subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as agents:
                assert agents.stdin is not None
                assert agents.stdout is not None
                while not select.select([agents.stdout], [], [], 0)[0]:
                    terminal.pump(0.01)
                echo = key_echo(terminal)
                terminal.drawn = False

                def drain() -> None:
                    while agents.poll() is None:
                        terminal.pump(0.01)

                draining = threading.Thread(target=drain)
                draining.start()
                baseline = key_echo(bare)
                agents.stdin.close()
                agents.wait()
                draining.join()
    return echo_row(f"{AGENTS} agents work", echo, baseline, "bare app beside the same agents")


def rows() -> Iterator[Row]:
    minimal, ours = (asyncio.run(_starts(args)) for args in (_MINIMAL, _PRIVATE))
    label = "MCP: start until initialize is answered"
    yield Row(label, ours, "<= 1.5 x the SDK's smallest server", minimal)
    bare, took = (asyncio.run(_evals(args)) for args in (_MINIMAL, _PRIVATE))
    yield Row("MCP: eval 1+1, private", took, "<= 3 ms", bare, "the smallest server's tool")
    with _session():
        yield Row("MCP: eval 1+1, shared", asyncio.run(_evals(SHARED)), "<= 6 ms", bare)
        total, wrong_answers = asyncio.run(_many_agents())
        for wrong_answer in wrong_answers:
            print(wrong_answer, file=sys.stderr)
        label = f"MCP: {AGENTS} agents x {EACH} evals, shared"
        mean_ms = total / (AGENTS * EACH)
        yield Row(label, mean_ms, "each; none lost or mixed up", note=f"{len(wrong_answers)} wrong")
    yield _key_echo()
