"""Asks the user whether an agent may use its own tools, and gives the agent its answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.acp_client.protocol import PermissionChoice
from mahtab_tui.acp_client.turn import MAX_ASKED_CHARS, AgentToolCall, describe_permission
from mahtab_tui.agent.host import OutsideHost
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.records import Decision, warn
from mahtab_tui.llm.base import make_encodable

MAX_OPEN_PERMISSIONS = 4
"""Permissions about which the user is asked at once."""
MAX_ANSWER_NAME_CHARS = 200
"""Characters of what an agent calls an answer."""

# Why a permission is refused, as the end of a sentence.
TOO_LONG = "it is too long to be shown whole"
ONLY_FOR_GOOD = "it could only have been allowed for good"

NO_ANSWER = ""
"""Stands for the id of an answer if the agent gets none, because its question no longer matters."""


class AnswerStopped(Exception):
    """Asked about a permission, the user has stopped the whole answer."""


class _PossibleAnswers(NamedTuple):
    """How an agent's question can be answered."""

    approval: PermissionChoice | None
    """Allows it this once; None if it can only be allowed for good."""
    refusal: PermissionChoice | None
    """None if it cannot be refused."""

    @classmethod
    def among(cls, choices: Sequence[PermissionChoice]) -> _PossibleAnswers:
        """Return the first approval and the first refusal of an agent's choices."""
        approval = next((choice for choice in choices if choice.allows), None)
        refusal = next((choice for choice in choices if not choice.allows), None)
        return cls(approval, refusal)

    @property
    def refusal_id(self) -> str:
        return NO_ANSWER if self.refusal is None else self.refusal.id

    @property
    def names(self) -> list[str]:
        """What the agent calls the approval and the refusal, for the user."""
        names = ("" if choice is None else choice.name for choice in self)
        return [make_encodable(name[:MAX_ANSWER_NAME_CHARS]) for name in names]


class Permissions:
    """The permissions that a running agent asks for. Used in its event loop only."""

    def __init__(self, host: OutsideHost, name: str) -> None:
        """
        Args:
            host: The session.
            name: The agent's name.
        """
        self._host = host
        self._name = name
        self._slots = asyncio.Semaphore(MAX_OPEN_PERMISSIONS)
        self._numbers = itertools.count(1)
        self._open_requests: set[str] = set()
        """The ids of the questions that the user has not answered."""
        self._reported_problems: set[str] = set()
        """What the user was told about permissions that were refused for the answer."""
        self.reasons: list[str] = []
        """Why the user has refused something, as sentences. An answer to a question of the protocol
        has no room for a reason, so the agent gets it with the next question."""

    def begin_answer(self) -> None:
        """Report problems anew, because the agent begins to answer a question."""
        self._reported_problems.clear()

    def withdraw(self) -> None:
        """Ask the user about nothing any more."""
        for request in self._open_requests:
            self._host.withdraw_permission(request)

    async def ask(
        self,
        turn_number: int,
        tool: AgentToolCall,
        choices: Sequence[PermissionChoice],
        *,
        is_over: Callable[[], bool],
    ) -> str:
        """Return the id of the answer about one of the agent's own tools, or `NO_ANSWER`.

        Args:
            turn_number: The number of the question that the agent answers.
            tool: What it wants to use. It is marked if the user refuses it.
            choices: The answers that the agent understands.
            is_over: Returns whether the answer has ended, so that the user need not be asked.

        Raises:
            AnswerStopped: The user has stopped the answer.
        """
        answers = _PossibleAnswers.among(choices)
        # The session itself asks about all that our own server does for the agent.
        if tool.is_ours and answers.approval is not None:
            return answers.approval.id
        if answers.approval is None:
            return self._refuse(answers, ONLY_FOR_GOOD)
        text = describe_permission(tool)
        if not text:
            return self._refuse(answers, TOO_LONG)

        async with self._slots:
            # Marks on letters take long, and what is hidden becomes longer.
            text = await asyncio.to_thread(visible, text)
            if is_over():
                return NO_ANSWER
            if len(text) > MAX_ASKED_CHARS:
                return self._refuse(answers, TOO_LONG)
            decision = await self._ask_user(turn_number, text, answers)
        if decision.action == "stop":
            raise AnswerStopped
        tool.is_refused = decision.action not in ("run", "all")
        if decision.reason:
            self.reasons.append(f"The user did not allow {tool.title}: {decision.reason}")
        return answers.refusal_id if tool.is_refused else answers.approval.id

    async def _ask_user(self, turn_number: int, text: str, answers: _PossibleAnswers) -> Decision:
        """Ask the user; the decision is `stop` if the question is withdrawn.

        Args:
            turn_number: As for `ask`.
            text: What the tool would do.
            answers: How the agent's question can be answered.
        """
        request = f"{turn_number}.permission-{next(self._numbers)}"
        self._open_requests.add(request)
        try:
            return await asyncio.to_thread(self._host.ask_permission, request, text, answers.names)
        except asyncio.CancelledError:  # the agent is gone
            self._host.withdraw_permission(request)
            raise
        finally:
            self._open_requests.discard(request)

    def _refuse(self, answers: _PossibleAnswers, problem: str) -> str:
        """Return the id of the refusal, and tell the user why, once an answer.

        Args:
            answers: How the agent's question can be answered.
            problem: The end of a sentence.
        """
        if problem not in self._reported_problems:
            self._reported_problems.add(problem)
            warn(self._host.log, f"{self._name} was refused what it asked for: {problem}.")
        return answers.refusal_id
