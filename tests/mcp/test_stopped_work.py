"""What an agent's server does outside of a session, until the session stops it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.mcp.code_log import CodeLog
from mahtab_tui.mcp.connection import SessionConnection
from mahtab_tui.mcp.handlers import _run_until_stopped
from mahtab_tui.mcp.tools import McpToolError
from mahtab_tui.session.sharing import ShareServer
from tests.mcp.conftest import Share


@asynccontextmanager
async def joined(server: ShareServer) -> AsyncIterator[SessionConnection]:
    connection = await SessionConnection.connect(server.path, "other", CodeLog(Secrets()))
    try:
        yield connection
    finally:
        await connection.close()


class Work:
    """Work that fails when it is cancelled."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()

    async def run(self) -> None:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise McpToolError("It cannot be ended.")


async def test_work_does_not_begin_if_the_session_refuses_it(share: Share, project: Path) -> None:
    it = share()
    server = ShareServer(it.session, project, model_name="other")
    server.start()
    work = Work()
    try:
        async with joined(server) as connection:
            with pytest.raises(McpToolError, match="so nothing is done"):
                await _run_until_stopped(connection, work.run)
    finally:
        server.close()
    assert not work.has_begun.is_set()


async def test_work_ends_without_a_trace_when_the_session_stops_it(share: Share) -> None:
    it = share()
    problems: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))
    work = Work()
    async with joined(it.server) as connection:
        running = asyncio.create_task(_run_until_stopped(connection, work.run))
        await work.has_begun.wait()
        await asyncio.to_thread(it.server.cancel_calls)
        with pytest.raises(McpToolError, match="The call was cancelled"):
            await running
    # The loop holds the task in the step in which its end was noticed.
    del running
    await asyncio.sleep(0)
    gc.collect()
    assert problems == []


async def test_work_that_an_older_session_cannot_stop_is_done(share: Share) -> None:
    it = share()
    del it.server.calls._functions["await_stop"]

    async def work() -> int:
        await asyncio.sleep(0)
        return 5

    async with joined(it.server) as connection:
        assert await _run_until_stopped(connection, work) == 5
        with pytest.raises(McpToolError, match="has nothing called"):
            await connection.call("await_stop", object)
