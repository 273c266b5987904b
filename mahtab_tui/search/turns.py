"""The turns of a node that explores its text with code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from contextlib import suppress
from typing import NamedTuple

from mahtab_tui.bus.records import SearchChat, SearchReplIn, SearchReplOut
from mahtab_tui.llm.base import ContextTooLong
from mahtab_tui.llm.failures import explain_error
from mahtab_tui.llm.ledger import Amount, BudgetLeft, OverBudget
from mahtab_tui.sandbox.base import Sandbox, SandboxError, TurnResult
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search import prompts
from mahtab_tui.search.answer_code import (
    AnswerCode,
    drop_imagined_output,
    extract_code,
    last_answer,
    literal_as_words,
)
from mahtab_tui.search.conversation import ModelReply, PromptMessage
from mahtab_tui.search.limits import SearchDeadline
from mahtab_tui.search.nodes import LiveNode, NodeOutcome, TreeServices
from mahtab_tui.search.output_history import OutputHistory
from mahtab_tui.search.prompts import MAX_OUTPUT_CHARS, NO_CODE
from mahtab_tui.search.sandbox_calls import SandboxCalls
from mahtab_tui.search.system_prompts import system_prompt, with_instructions

_FINAL_GRACE_S = 0.3
"""Seconds that code may run on after it has given the answer."""

_VALUE = re.compile(r"\d[\d.,:/-]*\d|\d|`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'")
"""A value in an answer in words: a figure, or a quoted text."""
_TOO_LITTLE = "There was not enough left for a first call and a last one. {}"


class _Attempt(NamedTuple):
    """The result of an attempt at an answer."""

    outcome: NodeOutcome | None
    reason: str = ""
    """A sentence saying why there is no outcome."""


class _Workplace(NamedTuple):
    """Where the code of a node runs."""

    text: SearchedText
    """The node's text."""
    calls: SandboxCalls
    sandbox: asyncio.Future[Sandbox]
    """May still be starting."""


def _normalize(code: str) -> str:
    """Return code without blank lines and trailing spaces, to recognise repetitions."""
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())


class Exploration:
    """One node's conversation with its model, whose code runs in a sandbox."""

    def __init__(self, services: TreeServices, node: LiveNode) -> None:
        self._services = services
        self._node = node
        self.sandbox: asyncio.Future[Sandbox] | None = None
        """Set by `run`. The caller closes it."""
        self._tool_descriptions = services.tools.descriptions if services.tools else ()
        self._conversation = node.model.conversation()
        self._turn = 0
        """Number of the last model call that was made, from 1."""
        self._accepts_words = False
        """Whether an answer in words is accepted without evidence: the model has been asked for
        code and insists, or has been told to answer in words."""
        self._was_told_of_repetition: dict[str, bool] = {}
        """Whether the model has been told that it repeats code, by normalized code that has run."""
        self._printed = ""
        """All output so far, in which the values of an answer in words are looked for."""
        self._too_long = False
        """Whether the model refused the conversation because of its length."""
        self._outputs = OutputHistory()
        """The outputs that are shortened once the conversation is long."""
        self._reserved = Amount()
        """What is reserved for the last call."""

    async def run(self, deadline: SearchDeadline) -> NodeOutcome:
        """Run turns until there is an answer, or a limit is reached.

        Raises:
            OverBudget: There is not enough left for a first and a last call.
            SandboxError: There is no sandbox, and nothing has been found.
            Exception: The model's error, if nothing has been found.
        """
        limits = self._services.limits
        text = self._node.source.make_text()
        self._conversation.add(PromptMessage("system", self._system_prompt(text)))
        try:
            self._reserve_last_call()
        except OverBudget as error:
            raise OverBudget(_TOO_LITTLE.format(error)) from None

        calls = SandboxCalls(self._services, self._node, text)
        try:
            max_answer_chars = limits.max_answer_chars(self._node.depth)
            self.sandbox = asyncio.ensure_future(
                self._services.sandboxes.start(
                    text, calls, max_answer_chars, self._tool_descriptions
                )
            )
            await asyncio.sleep(0)  # lets it start while the message is made and the model thinks

            remaining_budget = self._services.remaining_budget(limits.max_turns)
            first_message = prompts.first_message(self._node.query, text, remaining_budget)
            self._conversation.add(PromptMessage("user", first_message))

            exploring = self._explore(_Workplace(text, calls, self.sandbox))
            attempt = await self._run_until_deadline(deadline.work, exploring)
            reason = attempt.reason
            if attempt.outcome is None:
                last_call = self._last_call(reason, calls)
                attempt = await self._run_until_deadline(deadline.end, last_call)
                reason = attempt.reason or reason
            return self._conclude(attempt.outcome, reason)
        finally:
            self._conversation.ended = True
            self._services.calls.ledger.release(self._reserved)

    def _system_prompt(self, text: SearchedText) -> str:
        prompt = system_prompt(
            text,
            self._services.limits,
            depth=self._node.depth,
            unsupported_features=self._services.sandboxes.unsupported_features,
            tools=self._tool_descriptions,
        )
        return with_instructions(prompt, text)

    def _conclude(self, outcome: NodeOutcome | None, reason: str) -> NodeOutcome:
        """Return the outcome, with the reason if it is partial.

        Without an outcome, return the findings as a partial answer, or an error.
        """
        findings = self._node.findings
        if outcome is not None:
            return outcome if outcome.state == "done" else outcome._replace(reason=reason)
        if not findings:
            return NodeOutcome(f"{reason.rstrip('.')}, and there is no answer.", "error")
        return NodeOutcome(findings.as_answer(reason), "partial", reason=reason)

    async def _run_until_deadline(self, end: float | None, work: Awaitable[_Attempt]) -> _Attempt:
        """Wait for an attempt until a time of the loop's clock.

        If the time is up, or the model fails although there are findings, the attempt has a reason
        instead of an outcome.
        """
        try:
            async with asyncio.timeout_at(end) as limit:
                return await work
        except Exception as error:  # also a provider's own code
            if limit.expired():
                return _Attempt(None, "The time for the search is up.")
            if not self._node.findings:
                raise
            if isinstance(error, ContextTooLong):
                self._too_long = True
            # The messages of these two are sentences already.
            if isinstance(error, OverBudget | SandboxError):
                return _Attempt(None, str(error))
            return _Attempt(None, str(explain_error(error)))

    async def _explore(self, workplace: _Workplace) -> _Attempt:
        """Let the model write code, turn by turn, until it answers or a limit is reached."""
        max_turns = self._services.limits.max_turns
        for turn in range(1, max_turns + 1):
            # Before each turn, keep enough for a last call after it.
            try:
                if turn > 1:
                    self._reserve_last_call()
                reply = await self._ask()
            except OverBudget as error:
                if turn == 1:
                    raise OverBudget(_TOO_LITTLE.format(error)) from None
                return _Attempt(None, str(error))

            attempt = await self._take_turn(turn, reply, workplace)
            if attempt is not None:
                return attempt
        return _Attempt(None, f"rlm() ran out of turns ({max_turns}).")

    async def _take_turn(
        self, turn: int, reply: ModelReply, workplace: _Workplace
    ) -> _Attempt | None:
        """Act on the model's answer. Returns None if there is to be another turn."""
        extracted = literal_as_words(extract_code(reply.text, ended=not reply.cut))
        self._services.events.send(
            SearchChat(reply.text, node=self._node.id, turn=turn, cut=extracted.cut)
        )
        if extracted.code is None:
            return self._take_words(turn, reply.text, extracted, workplace.text)
        if _normalize(extracted.code) in self._was_told_of_repetition:
            return self._take_repetition(reply.text, extracted)
        return await self._take_code(turn, reply.text, extracted, workplace)

    def _take_words(
        self, turn: int, answer: str, extracted: AnswerCode, text: SearchedText
    ) -> _Attempt | None:
        """Accept words as the answer if an output confirms them, or if the model insists.

        Otherwise ask for code, and return None.
        """
        words = (extracted.literal_answer or answer).strip()
        is_in_words = extracted.feedback == NO_CODE
        if is_in_words and (self._accepts_words or self._is_printed(words)):
            return _Attempt(NodeOutcome(words, "done", text.quoted(words)))

        self._accepts_words = is_in_words
        self._node.findings.written.add(answer.strip())
        feedback = prompts.feedback_message(extracted.feedback, self._remaining_budget(turn))
        self._reply(answer, extracted, feedback)
        return None

    def _take_repetition(self, answer: str, extracted: AnswerCode) -> _Attempt | None:
        """Ask for an answer instead of code that has run before, because its output would be the
        same; give up the second time."""
        normalized_code = _normalize(extracted.code or "")
        if self._was_told_of_repetition[normalized_code]:
            return _Attempt(None, "The model wrote the same code again and again.")
        self._was_told_of_repetition[normalized_code] = True
        self._accepts_words = True
        request = prompts.repeated_code(self._node.query)
        self._reply(answer, extracted, request, repeated=True)
        return None

    async def _take_code(
        self, turn: int, answer: str, extracted: AnswerCode, workplace: _Workplace
    ) -> _Attempt | None:
        """Run code, which may give the answer; otherwise the model gets its output."""
        code = extracted.code or ""
        self._accepts_words = False
        self._was_told_of_repetition[_normalize(code)] = False
        result = await self._run_code(turn, await workplace.sandbox, code, workplace.calls)
        if result.status in ("killed", "died"):  # all variables are lost, so code may run again
            self._was_told_of_repetition.clear()
        if workplace.calls.final is not None:
            return _Attempt(workplace.calls.final)

        self._node.findings.printed.add(result.output.strip())
        self._printed += f"\n{result.output}"
        output = prompts.turn_message(
            result, self._remaining_budget(turn), cut=extracted.cut, query=self._node.query
        )
        message = self._reply(answer, extracted, output)
        self._outputs.add(message, result)
        self._outputs.shorten(self._conversation)
        return None

    def _remaining_budget(self, turn: int) -> BudgetLeft:
        """Return what remains after a turn."""
        return self._services.remaining_budget(self._services.limits.max_turns - turn)

    def _is_printed(self, words: str) -> bool:
        """Return whether an answer in words gives values that the code has printed, and no
        others."""
        query = self._node.query
        values = [value for value in _VALUE.findall(words) if value not in query]
        return bool(values) and all(value.strip("\"`'") in self._printed for value in values)

    def _reply(
        self, answer: str, extracted: AnswerCode, text: str, *, repeated: bool = False
    ) -> PromptMessage:
        """Add a model's answer and the reply to it to the conversation, and return the reply.

        Args:
            answer: The model's answer.
            extracted: The code in it.
            text: The reply.
            repeated: Whether the answer repeats an earlier one. It is then left out: the model
                would repeat it again if it saw it.
        """
        # A model that remembers the conversation has seen its own answer, as it was.
        model_remembers = self._node.model.remembers
        if repeated and not model_remembers:
            return self._extend_last_message(text)

        words = answer if model_remembers else drop_imagined_output(answer, extracted)
        reply = PromptMessage("user", text)
        self._conversation.add(PromptMessage("assistant", words))
        self._conversation.add(reply)
        return reply

    def _extend_last_message(self, text: str) -> PromptMessage:
        """Add a text to the last message to the model, and return the longer message."""
        previous = self._conversation.messages[-1]
        longer = PromptMessage("user", f"{previous.content}\n\n{text}")
        self._conversation.replace(previous, longer)
        self._outputs.replace_message(previous, longer)
        return longer

    async def _ask(self, reserved: Amount | None = None) -> ModelReply:
        """Ask the model. Raises `OverBudget`; the call then does not count as a turn.

        Args:
            reserved: What has been reserved for the call, which is released after it.
        """
        self._turn += 1
        try:
            return await self._services.calls.ask(
                self._node.id,
                self._turn,
                self._services.limits.max_turns,
                self._conversation,
                reserved,
            )
        except OverBudget:
            self._turn -= 1
            raise

    async def _run_code(
        self, turn: int, sandbox: Sandbox, code: str, calls: SandboxCalls
    ) -> TurnResult:
        """Run a turn's code, and record the code and its output."""
        self._node.turn = turn
        self._services.events.send(SearchReplIn(code, node=self._node.id, turn=turn))
        seconds = self._services.limits.turn_seconds
        result = await _run_until_answered(sandbox, code, seconds, calls)
        self._services.events.send(
            SearchReplOut(
                result.output[:MAX_OUTPUT_CHARS],
                node=self._node.id,
                turn=turn,
                status=result.status,
                duration=result.duration,
                chars=result.chars,
            )
        )
        return result

    async def _last_call(self, reason: str, calls: SandboxCalls) -> _Attempt:
        """Ask the model for the best answer that it can give now.

        Args:
            reason: A sentence saying why it cannot go on.
        """
        node = self._node
        findings = node.findings
        if self._too_long:
            # Start again with the first two messages only: the system prompt and the query.
            self._conversation.ended = True
            self._conversation = node.model.conversation(*self._conversation.messages[:2])

        # A whole conversation contains the outputs and words, but not all answers of sub-calls.
        findings_text = findings.text if self._too_long else findings.answers.text
        last_message = prompts.last_message(reason, node.query, findings_text)
        self._conversation.add(PromptMessage("user", last_message))
        reserved = self._reserved
        self._reserved = Amount()
        try:
            reply = await self._ask(reserved)
        except ContextTooLong as error:
            if self._too_long or not findings:
                raise
            self._too_long = True
            return await self._last_call(str(explain_error(error)), calls)
        except Exception:
            # What came of the answer before the error may be worth something.
            findings.written.add(self._conversation.partial.strip())
            raise
        self._services.events.send(SearchChat(reply.text, node=node.id, turn=self._turn))

        words, code = last_answer(reply.text)
        if code is not None and self.sandbox is not None:
            with suppress(SandboxError):  # the words remain
                result = await self._run_code(self._turn, await self.sandbox, code, calls)
                findings.printed.add(result.output.strip())
        if calls.final is not None:
            return _Attempt(calls.final._replace(state="partial"))
        return _Attempt(NodeOutcome(words, "partial") if words else None)

    def _reserve_last_call(self) -> None:
        """Reserve what a last call after one more turn would take, in place of the earlier
        reservation.

        Raises:
            OverBudget: There is less left; the earlier reservation then stays.
        """
        # A turn adds the model's answer and an output.
        chars = self._conversation.chars + 2 * MAX_OUTPUT_CHARS
        estimate = self._services.calls.estimate(self._node.model, chars)
        self._services.calls.ledger.reserve(estimate.minus(self._reserved))
        self._reserved = estimate


async def _run_until_answered(
    sandbox: Sandbox, code: str, seconds: float, calls: SandboxCalls
) -> TurnResult:
    """Run code until it ends, or shortly after it has given the answer.

    Args:
        sandbox: Runs the code.
        code: The code.
        seconds: How long it may run.
        calls: Gets the answer.
    """
    running = asyncio.ensure_future(sandbox.run(code, seconds))
    answered = asyncio.ensure_future(calls.answered.wait())
    try:
        await asyncio.wait((running, answered), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():  # its last output may come soon
            await asyncio.wait((running,), timeout=_FINAL_GRACE_S)
        if not running.done():
            running.cancel()
            await asyncio.wait((running,))
        if running.cancelled():
            return TurnResult("final", "", 0, 0.0)
        return running.result()
    finally:
        running.cancel()
        answered.cancel()
