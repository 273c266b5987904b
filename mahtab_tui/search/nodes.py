"""The nodes of a running search: the text of each, its place in the tree, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from mahtab_tui.llm.ledger import BudgetLeft
from mahtab_tui.sandbox.base import Sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText, TextRun, TextSpan
from mahtab_tui.search.calls import BudgetedCalls
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.events import Events
from mahtab_tui.search.findings import Findings
from mahtab_tui.search.limits import SearchDeadline, SearchLimits
from mahtab_tui.search.requests import Request
from mahtab_tui.search.search_tools import SearchTools

EndState = Literal["done", "partial", "error", "stopped"]


class NodeOutcome(NamedTuple):
    """How a node has ended."""

    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    evidence: Sequence[TextSpan] = ()
    """Spans of the root's text on which the answer rests."""
    reason: str = ""
    """A sentence saying why the answer is partial."""

    @property
    def failed(self) -> bool:
        return self.state in ("error", "stopped")


class NodeSource(NamedTuple):
    """Where a node's text stands, so that a copy of it exists only while it is read."""

    container: SearchedText
    """Contains the node's text: mostly the text of the root."""
    parts: tuple[TextSpan, ...] | None = None
    """Spans of the container that make up the node's text, joined by line breaks; None: all of
    it."""

    @property
    def part_spans(self) -> Sequence[TextSpan]:
        """The parts; the whole container is one part."""
        if self.parts is None:
            return ((0, len(self.container.text)),)
        return self.parts

    @property
    def root_spans(self) -> list[TextSpan]:
        """Where the node's text stands in the root's text."""
        return self.container.to_root(self.part_spans)

    @property
    def runs(self) -> list[TextRun]:
        """The runs of the node's text that are also runs of the root's text."""
        return self.container.joined_runs(self.part_spans)

    @property
    def chars(self) -> int:
        """Length of the node's text, with a line break between two parts."""
        part_chars = [end - start for start, end in self.part_spans]
        line_break_count = max(0, len(part_chars) - 1)
        return sum(part_chars) + line_break_count

    def make_text(self) -> SearchedText:
        """Return the node's text, which is a copy if it consists of parts."""
        return self.container if self.parts is None else self.container.joined(self.parts)


class FanOutPlace(NamedTuple):
    """Which part of which fan-out a node answers; by default that of a root, which is in none."""

    fan_out_number: int = 0
    """Number of the fan-out among those of the parent, from 1."""
    part_index: int = 0
    """Number of the part in the fan-out, from 0."""
    part_count: int = 1
    """How many parts the fan-out has, with a node for each."""


@dataclass(eq=False)
class LiveNode:
    """A node that has not ended."""

    id: str
    parent: LiveNode | None
    """None for a root."""
    depth: int
    """0 for a root."""
    is_plain: bool
    """Whether one call of the model reads all its text; other nodes explore it with code."""
    query: str
    source: NodeSource
    model: Model
    place: FanOutPlace
    child_count: int = 0
    """Number of the children that it has started."""
    fan_out_count: int = 0
    """Number of the fan-outs that have started them."""
    running_children: dict[LiveNode, None] = field(default_factory=dict)
    """An ordered set."""
    turn: int = 0
    """Number of the turn whose code ran last, from 1; 0 before the first."""
    consent_requests: set[asyncio.Future[bool]] = field(default_factory=set)
    """Its fan-outs that wait for the user's consent."""
    findings: Findings = field(default_factory=Findings)
    ending: bool = False
    """Whether it can no longer start children."""
    task: asyncio.Task[NodeOutcome] | None = None
    """Answers the node's query. None until the node is registered."""
    outcome: NodeOutcome | None = None
    """The result of the task. None until it has ended."""


@dataclass(eq=False)
class TreeServices:
    """What the nodes of a tree share."""

    events: Events
    limits: SearchLimits
    calls: BudgetedCalls
    sandboxes: Sandboxes
    tools: SearchTools | None
    """The user's functions that a node's code may call."""
    ask: Callable[[LiveNode, Request, SearchedText], Awaitable[list[NodeOutcome]]]
    """Answers the sub-calls of a node's code over its text. Raises `CallRefusedError`."""
    deadline: SearchDeadline = field(default_factory=SearchDeadline)

    def remaining_budget(self, turns: int) -> BudgetLeft:
        """Return what remains of the tree's budget.

        Args:
            turns: How many the asking node may still run.
        """
        remaining = replace(self.calls.ledger.remaining(), turns=turns)
        work_end = self.deadline.work
        if work_end is None:
            return remaining
        seconds = max(0.0, work_end - asyncio.get_running_loop().time())
        return replace(remaining, seconds=seconds)
