"""The interface between agent and session, and the values that they exchange. Loads nothing
heavy."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import Approval, Decision, Usage
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.usage import Spending

if TYPE_CHECKING:
    from mahtab_tui.agent.state import ToolCall


class ApprovalRequest(NamedTuple):
    """A code block that waits for the user."""

    request: str
    turn: int
    step: int
    """Which generation of the turn it came from, from 0."""
    block: int
    """Which block of that generation, from 0."""
    blocks: int
    code: str

    def record(self, party: str) -> Approval:
        """Make the approval record, without its state."""
        return Approval(
            self.code,
            request=self.request,
            turn=self.turn,
            step=self.step,
            block=self.block,
            blocks=self.blocks,
            party=party,
        )


class Permission(NamedTuple):
    """Whether code of a model or of an agent may run."""

    action: Literal["allow", "lock", "ask", "deny"]
    """`lock`: run it in a locked fork, and ask if it needs more."""
    reason: str = ""
    """A clause that says why the user is asked, empty if they are always asked; or a sentence that
    says why it may not run."""


class Execution(NamedTuple):
    """The result of a code block that ran."""

    cell: int
    output: str
    is_error: bool
    status: str
    rewritten: bool = False
    """Whether `output` lacks text that was overwritten."""
    undone: str | None = None
    """Why the user undid its changes, which may be empty; None if they did not."""
    variables: str = ""
    """Describes the variables that it made or changed."""


class StoredMessage(NamedTuple):
    """One complete message of a conversation."""

    role: str
    """``user``, ``assistant``, or ``results`` for what code and tools of an answer gave."""
    text: str
    turn: int | None = None
    """Number of its question; None if unknown."""
    step: int | None = None
    """Number of the answer within its turn, also for the results of its code."""
    context: str = ""
    """The sections that precede a question."""
    variables: Mapping[str, str] = MappingProxyType({})
    """Text for each variable that a question came with."""
    instruction: str = ""
    """Request that follows a question, such as to compute the answer."""
    private: frozenset[str] = frozenset()
    """Names that were private when the variables of a question were described."""
    calls: Sequence[ToolCall] = ()
    """Tool calls of an answer, as the model made them."""
    call: str = ""
    """Id of the tool call whose result this is."""


class ConversationSummary(NamedTuple):
    """A summary that replaces the beginning of a conversation."""

    turn: int | None
    """Number of the last question that it covers."""
    text: str


class QuestionContext(NamedTuple):
    """The sections that precede a question."""

    sections: str
    """Events since the model last spoke, and attachments."""
    variables: Mapping[str, str]
    """A text for each variable."""
    about_data: bool
    """Whether the question is about a variable, as far as its words tell."""


class AgentHost(Protocol):
    """The session as the agent sees it."""

    log: logging.Logger
    cancelled: threading.Event
    """Set to stop the turn; the agent clears it when a turn begins."""
    secrets: Secrets
    """Masked in messages to the model."""
    hidden: HiddenEntries
    """Parts of the conversation that the user has hidden."""
    pictures: dict[str, EncodedPicture]
    """Pictures attached to questions, by the ids in the attachments."""

    @property
    def party(self) -> str:
        """The model's short name."""

    def new_turn(self) -> int:
        """Return the number of a new question, from 1, unique among all agents of this host."""

    def permit(self, request: ApprovalRequest) -> Permission:
        """Return whether code may run, must be asked about, or may not run.

        Code that only reads may have run here already; then `execute` returns its result.
        """

    def decide(self, request: ApprovalRequest) -> Decision:
        """Wait for the user's decision about a block. Returns `stop` if the turn is cancelled."""

    def execute(self, code: str, *, turn: int, step: int, block: int) -> Execution:
        """Run code in the namespace and wait for it; the host logs it. If changes are reviewed,
        wait then until the user keeps or undoes them.

        If the user stops the turn there, `cancelled` is set.
        """

    def context(self, turn: int, question: str, known: str) -> QuestionContext:
        """Return the context of a question.

        known: the conversation so far; variables whose description stands in it are not described
        again.
        """

    def surroundings(self) -> str:
        """Describe where and when code runs (see `prompts.render_surroundings`)."""

    @property
    def folder(self) -> str:
        """The working directory of cells; empty if it was deleted."""

    spending: Spending
    """Counts and limits what models cost."""

    def usage(self, used: Usage) -> None:
        """Count and log what a call has used."""

    def interrupt(self) -> None:
        """Withdraw waiting approvals, and interrupt the model's cell."""
