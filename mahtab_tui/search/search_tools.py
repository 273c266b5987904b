"""The functions of the caller that the code of a search may call: how many at a time, how often,
and with which data. A `ToolRunner` runs them: `worker.rlm.running_tools.CallerTools` in this
process, `session.kernel_tools.KernelTools` in the kernel."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol

from mahtab_tui.sandbox.base import CallRefusedError
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool, NotPlainError, plain_data

MAX_TOOL_CALLS = 1_000
"""Calls of tools in one search."""
_TOOL_CONCURRENCY = 8
"""Calls of tools at the same time, in one search."""


def check_plain_data(value: object, subject: str) -> Any:
    """Return data that is plain. Raises `CallRefusedError`, whose sentence begins with `subject`."""
    try:
        return plain_data(value, subject)
    except NotPlainError as error:
        raise CallRefusedError(str(error)) from None


class ToolRunner(Protocol):
    """Runs the caller's functions."""

    described: list[DescribedTool]
    """What there is to call."""

    def start(
        self,
        call: int,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        done: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Start a call.

        Args:
            done: Gets {"value": …} or {"error": a sentence}, on any thread, unless the call has
                been stopped.
        """

    def stop(self, call: int) -> None:
        """End a call."""


class SearchTools:
    """The caller's functions that a search may call."""

    def __init__(self, runner: ToolRunner) -> None:
        """Create it for one search.

        Args:
            runner: Runs the functions.
        """
        self.descriptions = tuple(runner.described)
        self._runner = runner
        self._names = {tool.name for tool in self.descriptions}
        self._ids = itertools.count(1)
        """The numbers of calls, from 1."""
        self._gate = asyncio.Semaphore(_TOOL_CONCURRENCY)

    async def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a tool; cancelling ends it. Raises `CallRefusedError` with what went wrong."""
        if name not in self._names:
            raise CallRefusedError("There is no such tool.")
        number = next(self._ids)
        if number > MAX_TOOL_CALLS:
            raise CallRefusedError(
                f"The tools of a search may be called {MAX_TOOL_CALLS:,} times, and have been."
            )
        async with self._gate:
            result = await self._run(number, name, args, kwargs)
        if "error" in result:
            raise CallRefusedError(str(result["error"]))
        return check_plain_data(result.get("value"), f"What {name} returned")

    async def _run(
        self, number: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Have the caller run a tool, and return what it says of the result."""
        future: Future[Mapping[str, Any]] = Future()

        def done(result: Mapping[str, Any]) -> None:
            with contextlib.suppress(InvalidStateError):  # it has been stopped
                future.set_result(result)

        self._runner.start(number, name, args, kwargs, done)
        try:
            return await asyncio.wrap_future(future)
        finally:
            if not future.done() or future.cancelled():
                self._runner.stop(number)
