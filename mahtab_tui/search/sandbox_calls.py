"""Functions for code in a sandbox: sub-calls, the caller's functions, the final answer, and reports
of what it has read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mahtab_tui.sandbox.base import CallRefusedError
from mahtab_tui.sandbox.text import Text, TextSpan
from mahtab_tui.search.coverage import Intervals
from mahtab_tui.search.events import Events
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.live import LiveNode, NodeOutcome
from mahtab_tui.search.requests import (
    Request,
    is_quoted,
    read_call,
    read_final,
    read_tool_call,
    read_touch,
)
from mahtab_tui.search.tools import Tools

_MAX_GROUNDS = 4_096
"""Spans on which one answer may rest."""
_SHORTEST_QUOTE = 16
"""Characters of a sub-call's answer that is looked for in the answer; shorter ones stand in many
answers by chance."""
_MAX_TOUCHES = 20_000
"""Spans that one node may report as seen."""

Ask = Callable[[Request, Text], Awaitable[list[NodeOutcome]]]
"""Starts sub-calls and returns their outcomes."""


class SandboxCalls:
    """Implements `SandboxHost` for one node."""

    def __init__(
        self,
        node: LiveNode,
        text: Text,
        events: Events,
        ask: Ask,
        limits: Limits,
        tools: Tools | None,
    ) -> None:
        self.final: NodeOutcome | None = None
        self.answered = asyncio.Event()
        self._node = node
        self._text = text
        self._events = events
        self._ask = ask
        self._limits = limits
        self._longest_answer = limits.answer_at(node.depth)
        self._tools = tools
        self._touches = 0
        self._answers: dict[str, Sequence[TextSpan]] = {}
        """The parts of the root's text on which each answer of a sub-call rests; none if equal
        answers rest on different ones."""
        self._tool_turn = 0
        self._tool_seconds = 0.0
        """Seconds left in that turn for its calls of tools."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        if name == "tool":
            return {"value": await self._call_tool(*read_tool_call(args))}
        request = read_call(name, args, self._text)
        outcomes = await self._ask(request, self._text)
        return {"answers": [self._answer(outcome) for outcome in outcomes]}

    def _answer(self, outcome: NodeOutcome) -> dict[str, Any]:
        """Return an answer for the code, and remember what it rests on."""
        if self._answers.setdefault(outcome.text, outcome.spans) != outcome.spans:
            self._answers[outcome.text] = ()
        text = f"[partial] {outcome.text}" if outcome.state == "partial" else outcome.text
        return {"text": text, "failed": outcome.failed}

    async def _call_tool(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function of the caller within the time of the turn. Raises `CallRefusedError`."""
        if self._tools is None:
            raise CallRefusedError("There is no such tool.")
        if self._tool_turn != self._node.turn:
            self._tool_turn, self._tool_seconds = self._node.turn, self._limits.turn_seconds
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._tool_seconds):
                return await self._tools.call(name, args, kwargs)
        except TimeoutError:
            seconds = self._limits.turn_seconds
            raise CallRefusedError(
                f"{name} took too long and was ended: the tools have {seconds:g} s together in a turn."
            ) from None
        finally:
            self._tool_seconds = max(0.0, self._tool_seconds - (loop.time() - began))

    def tell(self, name: str, args: dict[str, Any]) -> None:
        if (
            name == "final"
            and self.final is None
            and (final := read_final(args, self._text, self._longest_answer)) is not None
        ):
            rests_on = Intervals(limit=_MAX_TOUCHES)
            rests_on.add(self._text.to_root(final.spans))
            for answer, spans in self._answers.items():
                if answer.strip() == final.text.strip() or (
                    len(answer) >= _SHORTEST_QUOTE and is_quoted(answer, final.text)
                ):
                    rests_on.add(spans)
            self.final = NodeOutcome(final.text, "done", list(rests_on)[:_MAX_GROUNDS])
            self.answered.set()
        elif name == "touch" and (touch := read_touch(args, self._text)) is not None:
            how, spans = touch
            self._touches += len(spans)
            if self._touches <= _MAX_TOUCHES:
                self._events.touch(self._node.id, how, self._text.to_root(spans))
