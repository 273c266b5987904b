"""The caller's functions that the code of a search may call. They run in the caller's process,
never here."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mahtab_tui.kernel.worker.plain_data import NotPlainError, plain_data
from mahtab_tui.kernel.worker.sandbox.tools import DescribedTool
from mahtab_tui.sandbox.base import CallRefusedError

MOST_CALLS = 1_000
"""Calls of tools in one search."""
_AT_A_TIME = 8


class ToolRunner(Protocol):
    """Runner of the functions: `worker.caller_tools.CallerTools`, or the way to it."""

    described: list[DescribedTool]

    def start(
        self,
        call: int,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        done: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Start a call. done: gets {"value": …} or {"error": a sentence}, on any thread, unless the
        call has been stopped."""

    def stop(self, call: int) -> None:
        """End a call."""


class Tools:
    """The tools of one search."""

    def __init__(self, runner: ToolRunner) -> None:
        self.described = tuple(runner.described)
        self._runner = runner
        self._names = {tool.name for tool in self.described}
        self._ids = itertools.count(1)
        self._gate = asyncio.Semaphore(_AT_A_TIME)

    async def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a tool; cancelling ends it. Raises `CallRefusedError` with what went wrong."""
        if name not in self._names:
            raise CallRefusedError("There is no such tool.")
        number = next(self._ids)
        if number > MOST_CALLS:
            raise CallRefusedError(
                f"The tools of a search may be called {MOST_CALLS:,} times, and have been."
            )
        async with self._gate:
            loop = asyncio.get_running_loop()
            answered: asyncio.Future[Mapping[str, Any]] = loop.create_future()

            def settle(result: Mapping[str, Any]) -> None:
                if not answered.done():
                    answered.set_result(result)

            def done(result: Mapping[str, Any]) -> None:
                with contextlib.suppress(RuntimeError):  # the search has been closed
                    loop.call_soon_threadsafe(settle, result)

            self._runner.start(number, name, args, kwargs, done)
            try:
                result = await answered
            finally:
                if not answered.done() or answered.cancelled():
                    self._runner.stop(number)
        if "error" in result:
            raise CallRefusedError(str(result["error"]))
        try:
            return plain_data(result.get("value"), f"What {name} returned")
        except NotPlainError as error:
            raise CallRefusedError(str(error)) from None
