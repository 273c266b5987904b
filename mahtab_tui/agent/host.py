"""What the agent needs of a session, and the values that they exchange. Loads nothing heavy."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict

from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Approval, Decision
from mahtab_tui.llm.ledger import Ledger
from mahtab_tui.llm.pictures import EncodedPicture


class ApprovalRequest(NamedTuple):
    """A code block that waits for approval."""

    request: str
    """Its id, such as "2.0.1"."""
    turn: int
    step: int
    """The number of the answer within the turn, from 0."""
    block: int
    """The number of the block within the answer, from 0."""
    blocks: int
    """The number of blocks of the answer."""
    code: str

    def record(self, party: str) -> Approval:
        """Return the record that asks the user. party: the model's short name."""
        fields = self._asdict()
        return Approval(fields.pop("code"), party=party, **fields)


UNRUN_STATUSES = frozenset(("empty", "repeated", "skipped"))
"""The statuses of code that did not run."""


class ExecutionResult(TypedDict):
    """What came of a code block, whether it has run or not. It is what a model gets of a
    `kernel.values.CellResult`, in JSON values, which the graph can store in its state."""

    step: int
    block: int
    cell: int | None
    """Its number as a cell; None if it did not run."""
    code: str
    """The code as it ran: the user may have edited it."""
    output: str
    is_error: bool
    """Whether it failed."""
    status: str
    """A `bus.values.Status` value, or one of `UNRUN_STATUSES`: ``skipped`` by the user, ``repeated``
    for code that had already run, ``empty`` for a block of comments."""
    note: str
    """Tells the model why the code did not run as written."""
    rewritten: NotRequired[bool]
    """Whether `output` lacks overwritten text."""
    undone: NotRequired[bool]
    """Whether the user has undone its changes."""
    variables: NotRequired[str]
    """Describes the variables that it made or changed."""
    doubts: NotRequired[Sequence[str]]
    """Sentences about what may be wrong with the result although the block ran."""
    drew: NotRequired[bool]
    """Whether it drew a figure."""
    pictures: NotRequired[Sequence[str]]
    """The ids of the figures that it drew, for a model that can see."""


class ToolCall(TypedDict):
    """A tool call of a model."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str
    """Tells the model why the call cannot be made."""


class StoredMessage(NamedTuple):
    """A message of the conversation, with all that the model may get of it."""

    role: str
    """``user``, ``assistant``, or ``results`` of an answer's code and tools."""
    text: str
    turn: int | None = None
    """Number of its question, if known."""
    step: int | None = None
    """Number of the answer within the turn."""
    context: str = ""
    """The sections that precede a question."""
    variables: Mapping[str, str] = MappingProxyType({})
    """A description of each variable sent with the question."""
    about_data: bool = False
    """Whether a question is about a variable."""
    instruction: str = ""
    """The request that follows a question."""
    private: frozenset[str] = frozenset()
    """Names that were private when the variables were described."""
    calls: Sequence[ToolCall] = ()
    """The tool calls of an answer."""
    call: str = ""
    """Id of the tool call that it is the result of."""


class ConversationSummary(NamedTuple):
    """A summary that replaces the conversation up to a question."""

    turn: int | None
    """The question up to which it summarises."""
    text: str


class ModelHost(Protocol):
    """What a call of a model needs of the session."""

    log: logging.Logger
    """Where records are logged."""
    cancelled: threading.Event
    """Set to stop the turn; the agent clears it when a turn starts."""
    secrets: Secrets
    """What no model gets."""

    @property
    def spending(self) -> Ledger:
        """The session's ledger."""


class AgentHost(ModelHost, Protocol):
    """The session, as seen by the agent."""

    hidden: HiddenEntries
    """Entries that the model does not get."""
    pictures: dict[str, EncodedPicture]
    """Pictures by the ids in the attachments."""

    @property
    def party(self) -> str:
        """The model's short name."""

    @property
    def folder(self) -> str:
        """The working directory of cells; empty if it was deleted."""

    @property
    def last_cell(self) -> int:
        """The number of the newest cell, whoever ran it."""

    def is_withdrawn(self, turn: int) -> bool:
        """Return whether the user has stopped a question, also before the agent has begun it."""

    def confirm_more_steps(self, turn: int, steps: int) -> bool:
        """Ask the user whether the model may go on with a question. Sets `cancelled` if the user
        stops the turn.

        Args:
            turn: The question.
            steps: How many steps the model has taken for it.

        Returns:
            Whether it may; False if there is nobody to ask.
        """

    def take_added_words(self, turn: int) -> Sequence[str]:
        """Return what the user has sent for the running question since the last step, once."""

    def new_turn(self) -> int:
        """Return the number of a new question, from 1, unique among all agents of this host."""

    def decide(self, request: ApprovalRequest) -> Decision:
        """Decide whether a block may run, by rules or by asking the user, and log the decision.

        It is `stop` if the turn is cancelled. Read-only code may already run here; then `execute`
        returns its result.
        """

    def execute(self, request: ApprovalRequest, code: str, question: str = "") -> ExecutionResult:
        """Run a block. Sets `cancelled` if the user stops the turn.

        If changes are reviewed, it also waits until the user keeps or undoes them.

        Args:
            request: The block.
            code: Its code, or the user's edit of it.
            question: The question that the result must fit; empty if it need not fit one.
        """

    def add_context(self, turn: int, question: str, conversation: str) -> StoredMessage:
        """Return a question with its context.

        Args:
            turn: The number of the question.
            question: The user's words.
            conversation: What the model gets before the question, whose descriptions of variables
                are not repeated.
        """

    def describe_variables(self, question: str, conversation: str) -> Mapping[str, str]:
        """Describe variables anew for a question, after a summary has replaced descriptions.

        Args:
            question: The user's words.
            conversation: What the model gets before the question, whose descriptions are not
                repeated.

        Returns:
            The descriptions by the variables' names.
        """

    def surroundings(self) -> str:
        """Describe where and when code runs, for the model."""

    def interrupt(self) -> None:
        """Withdraw pending approvals, and interrupt the model's cell."""


class Door(Protocol):
    """Where an agent reaches the session, by our MCP server."""

    path: Path
    """The socket."""

    def cancel_calls(self) -> None:
        """Stop what the agent runs in the session."""

    def close(self) -> None:
        """Let nobody in any more."""


class EarlierSession(NamedTuple):
    """The session that an agent had before."""

    id: str = ""
    turn: int = 0
    """The last question that it has got."""
    cost: float = 0.0
    """US dollars that were counted for it."""


class OutsideHost(AgentHost, Protocol):
    """The session, as seen by an agent of another program."""

    def open_door(self) -> Door:
        """Let the agent reach the session. Raises `ModelError`."""

    def ask_permission(self, request: str, text: str, answers: Sequence[str]) -> Decision:
        """Decide whether an agent's own tool may run: by the settings, or by asking the user. Waits.

        Args:
            request: The id of the question, by which `withdraw_permission` ends it.
            text: What the tool would do.
            answers: What the agent calls an approval and a refusal.
        """

    def withdraw_permission(self, request: str) -> None:
        """Let `ask_permission` return `stop`."""

    def earlier_session(self, agent: str) -> EarlierSession:
        """Return the session that an agent of this name had, if nothing was taken out of the
        conversation since."""

    def messages_after(self, turn: int, before: int) -> Sequence[StoredMessage]:
        """Return what was said after one question and before another one."""
