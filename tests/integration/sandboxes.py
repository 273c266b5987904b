"""Helpers for tests of real sandboxes, and a node that records their messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mahtab_tui.sandbox.base import Sandbox, TurnResult

PATIENCE = 60.0


class RecordingNode:
    """A `SandboxHost` that records all messages, and answers calls with `answer`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.notifications: list[tuple[str, dict[str, Any]]] = []
        self.cancelled: list[str] = []
        self.waiting = asyncio.Event()
        self.answer: Callable[[str, dict[str, Any]], Awaitable[Any]] = echo

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        self.calls.append((name, args))
        self.waiting.set()
        try:
            return await self.answer(name, args)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    def send(self, name: str, args: dict[str, Any]) -> None:
        self.notifications.append((name, args))

    @property
    def finals(self) -> list[str]:
        return [args["text"] for name, args in self.notifications if name == "final"]


async def echo(name: str, args: dict[str, Any]) -> Any:
    query = args["query"]
    count = len(args["parts"])
    queries = query if isinstance(query, list) else [query] * count
    return {"answers": [{"text": asked_query, "failed": False} for asked_query in queries]}


async def never(name: str, args: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


async def run(sandbox: Sandbox, code: str, seconds: float = PATIENCE) -> TurnResult:
    return await sandbox.run(code, seconds)


async def printed(sandbox: Sandbox, code: str) -> str:
    result = await run(sandbox, code)
    assert result.status == "ok", result
    return result.output
