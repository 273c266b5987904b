"""Serves what the code of a node calls: sub-calls, the caller's tools, and its final answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mahtab_tui.sandbox.base import CallRefusedError
from mahtab_tui.sandbox.searched_text import SearchedText, TextSpan, merge_spans
from mahtab_tui.search.nodes import LiveNode, NodeOutcome, TreeServices
from mahtab_tui.search.requests import ToolRequest, read_call, read_final, read_tool_call
from mahtab_tui.search.sub_answers import SubAnswers

_MAX_EVIDENCE_SPANS = 4_096
"""Maximum number of places on which an answer rests."""


class SandboxCalls:
    """Serves the calls of one node's code: sub-calls, tools, and its final answer."""

    def __init__(self, services: TreeServices, node: LiveNode, text: SearchedText) -> None:
        self.final: NodeOutcome | None = None
        """The answer that the code has given."""
        self.answered = asyncio.Event()
        """Set when `final` is."""
        self._services = services
        self._node = node
        self._text = text
        self._sub_answers = SubAnswers(text)
        self._tool_turn = 0
        """The last turn in which a tool was called."""
        self._tool_seconds_left = 0.0
        """Seconds that the tools have left in this turn."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Serve a call whose result the code waits for. Raises `CallRefusedError`."""
        if name == "tool":
            return {"value": await self._call_tool(read_tool_call(args))}

        request = read_call(name, args, self._text)
        outcomes = await self._services.ask(self._node, request, self._text)
        answers = [
            self._make_answer(outcome, read_spans)
            for outcome, read_spans in zip(outcomes, request.known_spans, strict=True)
        ]
        return {"answers": answers}

    def _make_answer(self, outcome: NodeOutcome, read_spans: Sequence[TextSpan]) -> dict[str, Any]:
        """Return a sub-call's answer as the code gets it.

        Args:
            read_spans: The places that it read.
        """
        if not outcome.failed:
            self._sub_answers.add(outcome.text, outcome.evidence, read_spans)
        text = outcome.text
        if outcome.state == "partial":
            text = f"[partial] {text}"
        return {"text": text, "failed": outcome.failed}

    async def _call_tool(self, call: ToolRequest) -> Any:
        """Call one of the user's functions.

        All such calls of a turn together may take as long as its code.
        """
        if self._services.tools is None:
            raise CallRefusedError("There is no such tool.")

        turn_seconds = self._services.limits.turn_seconds
        if self._tool_turn != self._node.turn:
            self._tool_turn = self._node.turn
            self._tool_seconds_left = turn_seconds

        loop = asyncio.get_running_loop()
        start_time = loop.time()
        try:
            async with asyncio.timeout(self._tool_seconds_left):
                return await self._services.tools.call(call.name, call.args, call.kwargs)
        except TimeoutError:
            raise CallRefusedError(
                f"{call.name} took too long and was ended: the tools have {turn_seconds:g} s together in a turn."
            ) from None
        finally:
            elapsed = loop.time() - start_time
            self._tool_seconds_left = max(0.0, self._tool_seconds_left - elapsed)

    def send(self, name: str, args: dict[str, Any]) -> None:
        """Receive what the code sends without waiting: its final answer, of which the first
        counts."""
        if name != "final" or self.final:
            return

        max_chars = self._services.limits.max_answer_chars(self._node.depth)
        final = read_final(args, self._text, max_chars)
        if final is not None:
            evidence = self._text.to_root(final.spans) + self._sub_answers.evidence(final.answer)
            spans = merge_spans(evidence)[:_MAX_EVIDENCE_SPANS]
            self.final = NodeOutcome(final.answer, "done", spans)
            self.answered.set()
