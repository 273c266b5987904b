"""The turns of a node that explores its text with code."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from mahtab_tui.bus.records import SearchChat, SearchReplIn, SearchReplOut
from mahtab_tui.llm.base import ContextTooLong
from mahtab_tui.llm.failures import explained
from mahtab_tui.sandbox.base import Sandbox, SandboxError, Sandboxes, TurnResult
from mahtab_tui.sandbox.text import Text
from mahtab_tui.search import prompts
from mahtab_tui.search.answer_code import AnswerCode, code_of, last_answer
from mahtab_tui.search.budget import Amount, BudgetSpent, Deadline
from mahtab_tui.search.calls import Calls
from mahtab_tui.search.conversation import Message, Reply
from mahtab_tui.search.events import Events
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.live import LiveNode, NodeOutcome
from mahtab_tui.search.node import BudgetLeft
from mahtab_tui.search.sandbox_calls import Ask, SandboxCalls
from mahtab_tui.search.tools import Tools

_OUTPUT = 10_000
"""Characters of a turn's output that a model gets at most."""
_LONG = 60_000
"""Characters of a conversation from which on earlier outputs are shortened."""
_WHOLE = 3
"""How many outputs stay as they are then."""
_NOT_ONE = "There was not enough left for a first call and a last one. {}"
_AFTER_FINAL = 0.3
"""Seconds that code may run on after it has given the answer."""

LeftOf = Callable[[int], BudgetLeft]
"""Returns what is left of the budget, given how many turns the node has left."""


class Exploration:
    """One node's turns."""

    def __init__(
        self,
        node: LiveNode,
        calls: Calls,
        events: Events,
        limits: Limits,
        sandboxes: Sandboxes,
        left: LeftOf,
        tools: Tools | None = None,
    ) -> None:
        self._node = node
        self._calls = calls
        self._events = events
        self._limits = limits
        self._sandboxes = sandboxes
        self._left = left
        self.sandbox: asyncio.Future[Sandbox] | None = None
        """The caller closes it."""
        self._tools = tools
        self._described = tools.described if tools else ()
        self._conversation = node.model.conversation()
        self._turn = 0
        self._too_long = False
        """Whether the conversation exceeds the model's context window."""
        self._outputs: deque[tuple[Message, TurnResult]] = deque()
        """Messages with outputs that have not been shortened."""
        self._kept = Amount()
        """Reserved for the last call."""

    async def run(self, ask: Ask, deadline: Deadline) -> NodeOutcome:
        """Run turns until there is an answer; when turns, budget or time are used up, return the
        best answer so far.

        Raises `BudgetSpent` if the budget does not allow a first call, `SandboxError`, and a
        model's errors while nothing has been found.
        """
        text = self._node.source.take()
        depth, gaps = self._node.depth, self._sandboxes.gaps
        self._conversation.add(
            Message(
                "system",
                prompts.system_prompt(
                    text, self._limits, depth=depth, gaps=gaps, tools=self._described
                ),
            )
        )
        try:
            self._keep()
        except BudgetSpent as error:
            raise BudgetSpent(_NOT_ONE.format(error)) from None
        self._conversation.add(
            Message(
                "user",
                prompts.first_message(self._node.query, text, self._left(self._limits.max_turns)),
            )
        )
        calls, found = (
            SandboxCalls(self._node, text, self._events, ask, self._limits, self._tools),
            self._node.found,
        )
        try:
            outcome, reason = await self._until(deadline.work, self._explore(calls, text))
            if outcome is None:
                outcome, failure = await self._until(deadline.end, self._last(reason))
                reason = failure or reason
            if outcome is None and not found:
                return NodeOutcome(f"{reason.rstrip('.')}, and there is no answer.", "error")
            if outcome is None:
                return NodeOutcome(found.as_answer(reason), "partial", why=reason)
            return outcome if outcome.state == "done" else outcome._replace(why=reason)
        finally:
            self._conversation.ended = True
            self._calls.budget.free(self._kept)

    async def _until(
        self, end: float | None, work: Awaitable[tuple[NodeOutcome | None, str]]
    ) -> tuple[NodeOutcome | None, str]:
        """Return the outcome, or None and the reason: the time is up, or the model failed after
        something had been found."""
        try:
            async with asyncio.timeout_at(end) as limit:
                return await work
        except Exception as error:  # also a provider's own code
            if limit.expired():
                return None, "The time for the search is up."
            if not self._node.found:
                raise
            self._too_long = self._too_long or isinstance(error, ContextTooLong)
            return None, str(error) if isinstance(error, BudgetSpent | SandboxError) else str(
                explained(error)
            )

    async def _explore(self, calls: SandboxCalls, text: Text) -> tuple[NodeOutcome | None, str]:
        """Return the outcome, or None and the reason."""
        longest = self._limits.answer_at(self._node.depth)
        starting = self.sandbox = asyncio.ensure_future(
            self._sandboxes.start(text, calls, longest, self._described)
        )  # while the model thinks
        for turn in range(1, self._limits.max_turns + 1):
            try:
                if turn > 1:
                    self._keep()
                said = await self._hear()
            except BudgetSpent as error:
                if turn == 1:
                    raise BudgetSpent(_NOT_ONE.format(error)) from None
                return None, str(error)
            found = code_of(said.text, ended=not said.cut)
            self._events.send(SearchChat(said.text, node=self._node.id, turn=turn, cut=found.cut))
            self._conversation.add(
                Message(
                    "assistant",
                    said.text if self._node.model.remembers else _heard(said.text, found),
                )
            )
            if found.code is None:
                self._node.found.printed(said.text)
                self._conversation.add(
                    Message(
                        "user",
                        prompts.feedback_message(
                            found.feedback, self._left(self._limits.max_turns - turn)
                        ),
                    )
                )
                continue
            result = await self._run_code(turn, await starting, found.code, calls)
            if calls.final is not None:
                return calls.final, ""
            self._node.found.printed(result.output)
            left = self._left(self._limits.max_turns - turn)
            self._tell(result, prompts.turn_message(result, left, cut=found.cut))
        return None, f"rlm() ran out of turns ({self._limits.max_turns})."

    def _tell(self, result: TurnResult, message: str) -> None:
        """Report a turn's result. When the conversation has become long, earlier outputs are
        shortened to their heads; code is kept."""
        added = Message("user", message)
        self._conversation.add(added)
        self._outputs.append((added, result))
        if self._conversation.chars > _LONG:
            while len(self._outputs) > _WHOLE:
                told, earlier = self._outputs.popleft()
                if len(earlier.output) > prompts.SHORTENED_OUTPUT:
                    self._conversation.replace(
                        told, Message("user", prompts.shortened_turn_message(earlier))
                    )

    async def _hear(self, kept: Amount | None = None) -> Reply:
        """Get the model's next answer. kept: what is already reserved for it."""
        self._turn += 1
        try:
            return await self._calls.say(
                self._node.id,
                self._turn,
                self._limits.max_turns,
                self._conversation,
                kept,
            )
        except BudgetSpent:
            self._turn -= 1
            raise

    async def _run_code(
        self, turn: int, sandbox: Sandbox, code: str, calls: SandboxCalls
    ) -> TurnResult:
        self._node.turn = turn
        self._events.send(SearchReplIn(code, node=self._node.id, turn=turn))
        running = asyncio.ensure_future(sandbox.run(code, self._limits.turn_seconds))
        answered = asyncio.ensure_future(calls.answered.wait())
        try:
            await asyncio.wait((running, answered), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():  # its last output, if it comes soon
                await asyncio.wait((running,), timeout=_AFTER_FINAL)
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))
            result = TurnResult("final", "", 0, 0.0) if running.cancelled() else running.result()
        finally:
            running.cancel()
            answered.cancel()
        about = SearchReplOut(
            node=self._node.id,
            turn=turn,
            status=result.status,
            duration=result.duration,
            chars=result.chars,
        )
        self._events.send(about.changed(text=result.output[:_OUTPUT]))
        return result

    async def _last(self, reason: str) -> tuple[NodeOutcome | None, str]:
        """Ask for the best answer with the call that was reserved for it."""
        node, found = self._node, self._node.found
        if self._too_long:  # drop the turns between its beginning and its end
            self._conversation.ended = True
            self._conversation = node.model.conversation(*self._conversation.messages[:2])
        known = found.text if self._too_long else found.answers.text
        self._conversation.add(Message("user", prompts.last_message(reason, node.query, known)))
        kept, self._kept = self._kept, Amount()
        try:
            said = await self._hear(kept)
        except ContextTooLong as error:
            if self._too_long or not found:
                raise
            self._too_long = True
            return await self._last(str(explained(error)))
        except Exception:
            found.printed(self._conversation.heard)  # as far as it came
            raise
        self._events.send(SearchChat(said.text, node=node.id, turn=self._turn))
        return NodeOutcome(last_answer(said.text), "partial"), ""

    def _keep(self) -> None:
        """Reserve what a last call after one more turn would take. Raises `BudgetSpent`; the
        earlier reservation then stays."""
        wanted = self._calls.estimate(self._node.model, self._conversation.chars + 2 * _OUTPUT)
        self._calls.budget.hold(wanted.minus(self._kept))
        self._kept = wanted


def _heard(answer: str, found: AnswerCode) -> str:
    """Return an answer without the text after its code."""
    if found.code is None or not found.cut:
        return answer
    place = answer.find(found.code)
    return (
        f"{answer[: place + len(found.code)]}\n```"
        if place >= 0
        else f"```python\n{found.code}\n```"
    )
