"""What the agent needs of a session, and the values that go between them. Loads nothing heavy."""

from __future__ import annotations

import logging
import threading
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.left_out import LeftOut
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Approval, Usage
from mahtab_tui.llm.pictures import Picture
from mahtab_tui.llm.spending import Spending


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
        """The question to the user, or what becomes of it, as a record without its state."""
        return Approval(self.code, request=self.request, turn=self.turn, step=self.step, block=self.block, blocks=self.blocks, party=party)


class Execution(NamedTuple):
    """What became of a code block that ran."""

    cell: int
    output: str
    is_error: bool
    status: str
    rewritten: bool = False
    """More was printed than `output` has: a part was written over."""


class EarlierMessage(NamedTuple):
    """Something that was said before the agent was made."""

    role: str
    """``user`` or ``assistant``."""
    text: str
    turn: int | None = None
    """Which question, or the answer to which; None where that is not known."""
    step: int | None = None
    """Which answer to it."""
    context: str = ""
    """What went with a question."""


class Summary(NamedTuple):
    """What stands for the beginning of a conversation."""

    turn: int | None
    """The last question that it tells of."""
    text: str


class AgentHost(Protocol):
    """The session as the agent sees it."""

    log: logging.Logger
    cancelled: threading.Event
    """Set by whoever stops the turn; the agent clears it when a turn begins."""
    secrets: Secrets
    """What the model is not told."""
    left_out: LeftOut
    """What of the conversation the model is not told."""
    pictures: dict[str, Picture]
    """Those that have gone with questions, by the ids under which the questions' attachments name them."""

    @property
    def party(self) -> str:
        """The model's short name."""

    @property
    def approval(self) -> Literal["ask", "auto"]:
        """``auto``: `decide` answers at once, and nothing is logged as waiting."""

    def new_turn(self) -> int:
        """The number of a new question, from 1; of all agents over this host each question has its own."""

    def execute(self, code: str, *, turn: int, step: int, block: int) -> Execution:
        """Run code in the namespace and wait; the host logs it."""

    def decide(self, request: ApprovalRequest) -> Decision:
        """What to do with a block; waits for the user where the session asks. Once the turn is cancelled: stop."""

    def context(self, turn: int) -> str:
        """What goes with a question: variables, what happened since the model last spoke, what this question points at."""

    def surroundings(self) -> str:
        """Where and when code runs, for the model (see `prompts.render_surroundings`)."""

    @property
    def folder(self) -> str:
        """The working directory of the code that runs; empty where it was deleted."""

    spending: Spending
    """What the models have used, and how much they may."""

    def usage(self, used: Usage) -> None:
        """Count what a call has used, and log it."""


@runtime_checkable
class Interruptible(Protocol):
    """A host that can stop by itself what runs, or waits, for the agent."""

    def interrupt(self) -> None:
        """Withdraw the approvals that wait, and interrupt the model's cell."""
