"""Following what others run, in a real terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio

from tests.e2e.conftest import Start, replay, start
from tests.mcp.clients import agent
from tests.mcp.test_screen import opened, seen

__all__ = ["replay", "start"]


async def test_log_is_followed(start: Start, project: Path) -> None:
    async with agent(cwd=project, MAHTAB_VIEWER="auto") as a:
        await a.eval("'before'")
        screen = start("watch")
        await seen(screen, "'before'")
        await a.eval("print('after', 6 * 7)")
        await seen(screen, r"after 42")
        screen.send("q")
        assert await anyio.to_thread.run_sync(screen.wait_end) == 0


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
        assert await anyio.to_thread.run_sync(screen.leave) == 0
        await seen(watcher, "it has ended")
    watcher.send("q")
    assert await anyio.to_thread.run_sync(watcher.wait_end) == 0


async def test_second_screen_sees_undone_and_reviewed_changes(
    start: Start, replay: Callable[..., str]
) -> None:
    model = replay("I add.\n\n```python\nitems.append(3)\n```\n", "As you like.")
    screen = start("--model", model, "--approval", "review")
    await opened(screen)
    watcher = start("watch", str(screen.pid))
    await seen(watcher, "watches")
    screen.enter("items = [1, 2]")
    await seen(watcher, r"items\s+2 items\s+list")
    screen.enter("`add one")
    await seen(screen, "Keep or undo what cell 2 of replay changed")
    await seen(watcher, r"In 2 · replay\s+waits for you")
    await seen(watcher, r"items\s+3 items\s+list")
    screen.press("f7")
    await anyio.to_thread.run_sync(
        lambda: screen.press_until("n", "say why, or nothing", asked="n undo")
    )
    screen.press("enter")
    await seen(watcher, "Cell 2 was undone")
    await seen(watcher, r"In 2 · replay.*undone")
    await seen(watcher, r"items\s+2 items\s+list")
    assert await anyio.to_thread.run_sync(screen.leave) == 0
    await seen(watcher, "it has ended")
    watcher.send("q")
    assert await anyio.to_thread.run_sync(watcher.wait_end) == 0


async def test_unwatchable_target_gives_one_sentence(start: Start) -> None:
    screen = start("watch", "nothing")
    await seen(screen, "There is no log nothing")
    assert await anyio.to_thread.run_sync(screen.wait_end) == 2
