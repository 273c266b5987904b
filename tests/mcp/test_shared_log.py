"""The log of what an agent runs in a live session, written while it runs."""

from __future__ import annotations

from pathlib import Path

import anyio

from mahtab_tui.bus.records import Decision
from mahtab_tui.mcp.connection import log_file
from tests import tags
from tests.mcp.clients import agent
from tests.mcp.conftest import Share, waited

UNTIL_GO = "import os, time\nprint('has', 'begun')\nwhile not os.path.exists('go'): time.sleep(0.01)\n'the value'"


async def logged(text: str) -> str:
    """The log, as soon as it has a text."""
    with anyio.fail_after(20):
        while text not in (log := log_file().read_text("utf-8")):
            await anyio.sleep(0.02)
    return log


async def test_running_code_is_logged_live(share: Share, project: Path) -> None:
    share()
    async with agent("--attach", cwd=project) as a:
        await a.text("log_viewer", mode="file")
        async with anyio.create_task_group() as group:
            group.start_soon(a.eval, UNTIL_GO)
            log = await logged("has begun\n")
            assert "In [1] · mcp" in log
            assert UNTIL_GO in log
            assert "the value'\n── [1]" not in log
            (project / "go").touch()
        log = await logged("── [1] ok")
        assert log.count("has begun\n") == 1
        assert "'the value'\n── [1] ok" in log


async def test_abandoned_or_declined_code_has_an_end_in_the_log(
    share: Share, project: Path
) -> None:
    it = share()
    async with agent("--attach", cwd=project) as a:
        await a.text("log_viewer", mode="file")
        async with anyio.create_task_group() as group:
            group.start_soon(a.eval, UNTIL_GO)
            await logged("has begun\n")
            group.cancel_scope.cancel()
        await logged("── [1] left")
        await waited(it, tags.ASSISTANT_REPL_OUT)
        it.session.set_approval("ask")
        async with anyio.create_task_group() as group:
            group.start_soon(a.eval, "x = 1")
            waiting = await waited(it, tags.APPROVAL, state="waiting")
            it.session.decide(waiting.attrs["request"], Decision("skip", reason="no"))
        assert "x = 1\n" in await logged("declined: no")
