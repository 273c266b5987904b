"""Agents in the program on a real terminal, and following what others run."""

from __future__ import annotations

import os
import re
import signal

import anyio

from mahtab_tui.session.running_sessions import share_folder
from tests.e2e.conftest import Start, start
from tests.e2e.terminal import Terminal
from tests.mcp.clients import agent, until
from tests.warm import run_program

IDLE = r"● kernel .*idle"
__all__ = ["start"]


async def seen(screen: Terminal, pattern: str) -> str:
    return await anyio.to_thread.run_sync(screen.wait, pattern)


async def opened(start: Start) -> Terminal:
    screen = start("--approval", "auto")
    await seen(screen, IDLE)
    await until(lambda: list(share_folder().glob(f"{screen.pid}*")))
    return screen


async def test_two_agents_work_visibly_and_under_approval(start: Start) -> None:
    screen = await opened(start)
    async with (
        agent("--attach", name="claude-code") as a,
        agent("--attach", name="codex") as b,
    ):
        await a.eval("first = 11")
        await seen(screen, r"In 1 · claude-code")
        await seen(screen, r"first\s+11\s+int\s+\S 1")
        await b.eval("print('printed', first)")
        await seen(screen, r"In 2 · codex")
        await seen(screen, "printed 11")
        screen.press("f8")
        await seen(screen, "ask first")
        async with anyio.create_task_group() as group:
            group.start_soon(b.answer, "second = 22; second")
            await seen(screen, "waits for you")
            await seen(screen, "run all from now on")
            assert not re.search(r"second\s+22", screen.text)
            screen.press("f7")
            await anyio.to_thread.run_sync(
                lambda: screen.press_until(
                    "y", r"second\s+22\s+int", prompt_pattern="run all from now on"
                )
            )
        assert b.answers == ["22\n[In 3: +second int 22]"]
        screen.press("f2")
        screen.enter("/agents")
        await seen(screen, r"claude-code, 1 cells; codex, 2 cells")
        screen.enter("/disconnect codex")
        await seen(screen, "codex has left the session")
        assert "disconnected you" in await b.text("eval", code="1")
        await anyio.to_thread.run_sync(screen.leave)
        assert "The session has closed" in await a.text("eval", code="1")
    assert list(share_folder().glob("*.sock")) == []


async def test_screen_crash_is_reported_and_cleaned_up(start: Start) -> None:
    screen = await opened(start)
    async with agent("--attach") as a:
        await a.eval("1")
        os.kill(screen.pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(screen.wait_end)
        assert "The session has ended" in await a.text("eval", code="1")
    assert len(list(share_folder().glob("*.sock"))) == 1
    listed = run_program("sessions")
    assert "Running (" not in listed.stdout
    assert list(share_folder().glob("*.sock")) == []


async def test_second_screen_on_the_same_project_is_never_guessed(start: Start) -> None:
    screens = [await opened(start), await opened(start)]
    listed = run_program("sessions").stdout
    assert all(str(screen.pid) in listed for screen in screens)
    async with agent("--attach") as a:
        assert "Several sessions" in await a.text("eval", code="1")
        await a.text("mode", mode="shared", session=str(screens[1].pid))
        await a.eval("here = 1")
        await seen(screens[1], r"here\s+1\s+int")


async def test_a_session_can_be_closed_to_agents(start: Start) -> None:
    await seen(start("--no-share"), IDLE)
    assert list(share_folder().glob("*.sock")) == []


async def test_session_is_followed_to_its_end(start: Start) -> None:
    screen = await opened(start)
    screen.enter("early = 1")
    await seen(screen, r"early\s+int")
    watcher = start("watch", str(screen.pid))
    await seen(watcher, "watches")
    await seen(watcher, r"In 1 · you")
    await seen(watcher, r"early\s+1\s+int\s+❯ 1")
    async with agent("--attach", name="codex") as a:
        await a.eval("five = 5; five")
        await seen(watcher, r"In 2 · codex")
        await seen(watcher, r"five\s+5\s+int\s+\S 2")
        await anyio.to_thread.run_sync(screen.leave)
        await seen(watcher, "it has ended")
    watcher.send("q")
    assert await anyio.to_thread.run_sync(watcher.wait_end) == 0


async def test_unwatchable_target_gives_one_sentence(start: Start) -> None:
    screen = start("watch", "nothing")
    await seen(screen, "No session on a screen is called nothing")
    assert await anyio.to_thread.run_sync(screen.wait_end) == 2
