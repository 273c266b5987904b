"""Agents in the program on a real terminal, and following what others run."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import anyio

from mahtab_tui.session.sharing import share_folder
from tests.e2e.conftest import Start, replay, start
from tests.e2e.terminal import Terminal
from tests.mcp.clients import agent
from tests.waiting import wait_for
from tests.warm import run_program

IDLE = r"● kernel .*idle"


async def seen(screen: Terminal, pattern: str) -> str:
    return await anyio.to_thread.run_sync(screen.wait, pattern)


async def opened(screen: Terminal) -> None:
    await seen(screen, IDLE)
    await anyio.to_thread.run_sync(wait_for, lambda: list(share_folder().glob(f"{screen.pid}*")))


async def test_two_agents_work_visibly_and_under_approval(start: Start, project: Path) -> None:
    screen = start("--model", "demo", "--approval", "auto")
    await opened(screen)
    async with (
        agent("--attach", cwd=project, name="claude-code") as a,
        agent("--attach", cwd=project, name="codex") as b,
    ):
        await a.eval("first = 11")
        await seen(screen, r"In 1 · claude-code")
        await seen(screen, r"first\s+11\s+int\s+\S 1")
        await b.eval("print('said by', first)")
        await seen(screen, r"In 2 · codex")
        await seen(screen, "said by 11")
        screen.press("f8")
        await seen(screen, "ask first")
        answers: list[str] = []

        async def ask() -> None:
            answers.append(await b.eval("second = 22; second"))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await seen(screen, "waits for you")
            await seen(screen, "run all from now on")
            assert not re.search(r"second\s+22", screen.text)
            screen.press("f7")
            await anyio.to_thread.run_sync(
                lambda: screen.press_until("y", r"second\s+22\s+int", asked="run all from now on")
            )
        assert answers == ["22\n[+second int 22]"]
        screen.press("f2")
        screen.enter("/agents")
        await seen(screen, r"claude-code, 1 cells; codex, 2 cells")
        screen.enter("/disconnect codex")
        await seen(screen, "codex has left the session")
        assert "disconnected you" in await b.text("eval", code="1")
        await anyio.to_thread.run_sync(screen.leave)
        assert "its screen is gone" in await a.text("eval", code="1")
    assert list(share_folder().glob("*.sock")) == []


async def test_screen_crash_is_reported_and_cleaned_up(start: Start, project: Path) -> None:
    screen = start("--model", "demo", "--approval", "auto")
    await opened(screen)
    async with agent("--attach", cwd=project) as a:
        await a.eval("1")
        os.kill(screen.pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(screen.wait_end)
        assert "The session has ended" in await a.text("eval", code="1")
    assert len(list(share_folder().glob("*.sock"))) == 1
    listed = run_program("sessions")
    assert "Running (" not in listed.stdout
    assert list(share_folder().glob("*.sock")) == []


async def test_second_screen_on_the_same_project_is_never_guessed(
    start: Start, project: Path
) -> None:
    screens = [start("--model", "demo", "--approval", "auto") for _ in range(2)]
    for screen in screens:
        await opened(screen)
    listed = run_program("sessions").stdout
    assert all(str(screen.pid) in listed for screen in screens)
    async with agent("--attach", cwd=project) as a:
        assert "Several sessions" in await a.text("eval", code="1")
        await a.text("mode", mode="shared", session=str(screens[1].pid))
        await a.eval("here = 1")
        await seen(screens[1], r"here\s+1\s+int")


async def test_a_session_can_be_closed_to_agents(start: Start, project: Path) -> None:
    await seen(start("--model", "demo", "--no-share"), IDLE)
    assert list(share_folder().glob("*.sock")) == []


__all__ = ["replay", "start"]


async def test_session_is_followed_to_its_end(start: Start, project: Path) -> None:
    screen = start("--model", "demo", "--approval", "auto")
    await opened(screen)
    screen.enter("early = 1")
    await seen(screen, r"early\s+int")
    watcher = start("watch", str(screen.pid))
    await seen(watcher, "watches")
    await seen(watcher, r"In 1 · you")
    await seen(watcher, r"early\s+1\s+int\s+❯ 1")
    async with agent("--attach", cwd=project, name="codex") as a:
        await a.eval("told = 5; told")
        await seen(watcher, r"In 2 · codex")
        await seen(watcher, r"told\s+5\s+int\s+\S 2")
        await anyio.to_thread.run_sync(screen.leave)
        await seen(watcher, "it has ended")
    watcher.send("q")
    assert await anyio.to_thread.run_sync(watcher.wait_end) == 0


async def test_unwatchable_target_gives_one_sentence(start: Start) -> None:
    screen = start("watch", "nothing")
    await seen(screen, "No session on a screen is called nothing")
    assert await anyio.to_thread.run_sync(screen.wait_end) == 2
