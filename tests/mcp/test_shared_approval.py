"""Actions of agents in a live session that need the person's approval, over real STDIO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mahtab_tui.bus.records import Decision
from tests import tags
from tests.mcp.clients import agent, text_of
from tests.mcp.conftest import Share, waited


async def test_code_waits_for_the_user_and_the_decision_is_returned(
    share: Share, project: Path
) -> None:
    it = share("ask")
    async with agent("--attach", cwd=project) as a:
        sentences: list[str] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            sentences.append(message or "")

        async def decide(state: str, decision: Decision, number: int) -> None:
            waiting = await waited(it, tags.APPROVAL, state="waiting", request=f"guest-{number}")
            assert it.session.decide(waiting.attrs["request"], decision)

        answers: list[str] = []

        async def run(code: str) -> None:
            result = await a.client.call_tool("eval", {"code": code}, progress_callback=on_progress)
            answers.append(text_of(result))

        async with anyio.create_task_group() as group:
            group.start_soon(run, "x = 1")
            await waited(it, tags.APPROVAL, state="waiting")
            while not any("approval" in sentence for sentence in sentences):
                await anyio.sleep(0.05)
            await decide("skipped", Decision("skip", reason="not now"), 1)
        assert answers[-1] == "The code did not run: declined: not now."
        async with anyio.create_task_group() as group:
            group.start_soon(run, "x = 2\nx")
            await decide("edited", Decision("run", code="x = 22\nx"), 2)
        assert (
            answers[-1]
            == "The user edited the code. What ran:\n```python\nx = 22\nx\n```\n22\n[+x int 22]"
        )
        async with anyio.create_task_group() as group:
            group.start_soon(run, "x = 3\nx")
            await decide("run", Decision("all"), 3)
        await run("x = 4\nx")
        assert answers[2:] == ["3\n[~x int 3]", "4\n[~x int 4]"]
        assert it.session.approval == "ask"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("undo", {}), ("reset", {}), ("activate", {"path": "."}), ("pkg", {"action": "status"})],
)
async def test_environment_tools_always_ask(
    share: Share, project: Path, tool: str, arguments: dict[str, Any]
) -> None:
    it = share("auto")
    async with agent("--attach", cwd=project) as a:
        await a.eval("kept = 1")
        async with anyio.create_task_group() as group:

            async def refuse() -> None:
                waiting = await waited(it, tags.APPROVAL, state="waiting")
                assert waiting.attrs["is_code"] is False
                it.session.decide(waiting.attrs["request"], Decision("skip", reason="no"))

            group.start_soon(refuse)
            answer = await a.call(tool, **arguments)
        assert answer.is_error
        assert text_of(answer) == "declined: no"
        assert await a.eval("kept") == "1"


async def test_undo_allowed_by_the_user_works(share: Share, project: Path) -> None:
    it = share("auto")
    async with agent("--attach", cwd=project) as a, anyio.create_task_group() as group:
        await a.eval("items = [1]")
        await a.eval("items.append(2); other = 1")

        async def allow() -> None:
            waiting = await waited(it, tags.APPROVAL, state="waiting")
            assert waiting.text == "# undo cell 2: items, other"
            it.session.decide(waiting.attrs["request"], Decision("run"))

        group.start_soon(allow)
        assert await a.text("undo") == "The namespace is as it was before cell 2 ran."
        assert await a.eval("items, 'other' in globals()") == "([1], False)"


async def test_reset_allowed_by_the_user_works(share: Share, project: Path) -> None:
    it = share()
    async with agent("--attach", cwd=project) as a, anyio.create_task_group() as group:
        await a.eval("x = 1")

        async def allow() -> None:
            waiting = await waited(it, tags.APPROVAL, state="waiting")
            it.session.decide(waiting.attrs["request"], Decision("run"))

        group.start_soon(allow)
        message = await a.text("reset")
        assert message.startswith("The namespace is empty.")
        assert "NameError" in await a.eval("x")
        assert "s since you joined" in text_of(await a.call("info"))
